"""No connection is too short to be seen: real ones of 50 ms, ended in every way."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from exporter.config.settings import PortRange
from exporter.connections.endings import closed_unseen
from exporter.connections.tracker import Tracker
from exporter.kernel.sock_diag import NetlinkSocketTable
from exporter.model import ClosedBy
from tests.integration.kernel_support import (  # noqa: F401
    NOBODY,
    as_user,
    connect,
    needs_root,
    own_network_fixture,
    reset_on_close,
)
from tests.unit.sockets import JVM

pytestmark = [pytest.mark.root, needs_root, pytest.mark.usefixtures("own_network")]

COUNT = 60
PORT = 9092
ADDRESS = "127.0.0.1"
PORTS = (PortRange(9091, 9098),)


def client_closes(server, *, mapped):
    client = connect(ADDRESS, PORT, mapped=mapped)
    accepted = server.accept()[0]
    time.sleep(0.05)
    client.close()
    accepted.close()


def server_closes(server, *, mapped):
    client = connect(ADDRESS, PORT, mapped=mapped)
    accepted = server.accept()[0]
    time.sleep(0.05)
    accepted.close()
    time.sleep(0.001)
    client.close()


def client_aborts(server, *, mapped):
    client = connect(ADDRESS, PORT, mapped=mapped)
    accepted = server.accept()[0]
    time.sleep(0.05)
    reset_on_close(client)
    client.close()
    accepted.close()


def refused(server, *, mapped):
    del server
    with contextlib.suppress(ConnectionRefusedError):
        connect(ADDRESS, PORT + 1, mapped=mapped)


@pytest.mark.parametrize(
    "mapped", [pytest.param(False, id="ipv4"), pytest.param(True, id="mapped")]
)
@pytest.mark.parametrize("end", [client_closes, server_closes, client_aborts, refused])
def test_every_short_connection_is_told_once(end, mapped):
    with socket.create_server((ADDRESS, PORT)) as server, NetlinkSocketTable(PORTS) as table:
        closed = []
        for number in range(COUNT):
            end(server, mapped=mapped)
            # A poll now and then: most connections lie between two of them.
            if number % 20 == 19:
                closed += table.read().closed
        time.sleep(0.05)
        reading = table.read()
        closed += reading.closed
    assert reading.events_complete
    assert len(closed) == len({each.cookie for each in closed}) == COUNT
    assert {each.remote.address for each in closed} == {ADDRESS}
    expected_port = 0 if end in (client_aborts, refused) else PORT
    assert {each.remote.port for each in closed} == {expected_port}


def talk(client, accepted, requests, *, late):
    """Requests and answers as a Kafka client has them; `late`: one answer takes its time."""
    for number in range(requests):
        client.sendall(b"request")
        accepted.recv(100)
        if late and number == requests - 1:
            time.sleep(0.1)
        accepted.sendall(b"an answer")
        client.recv(100)


@pytest.mark.parametrize(
    ("by_client", "late", "told"),
    [
        pytest.param(True, False, {ClosedBy.CLIENT}, id="client"),
        pytest.param(False, False, {ClosedBy.UNKNOWN}, id="broker"),
        pytest.param(True, True, {ClosedBy.CLIENT, ClosedBy.UNKNOWN}, id="client, a late answer"),
        pytest.param(False, True, {ClosedBy.UNKNOWN}, id="broker, a late answer"),
    ],
)
def test_a_short_conversation_ended_by_the_client_is_never_taken_for_the_brokers(
    by_client, late, told
):
    """No poll met it, and data hides the FIN: what is left are the segments without data."""
    with socket.create_server((ADDRESS, PORT)) as server, NetlinkSocketTable(PORTS) as table:
        for requests in (1, 2, 3, 5):
            client = connect(ADDRESS, PORT, mapped=False)
            accepted = server.accept()[0]
            talk(client, accepted, requests, late=late)
            for side in (client, accepted) if by_client else (accepted, client):
                side.close()
                time.sleep(0.01)
        closed = table.read().closed
    assert len(closed) == 4
    assert {closed_unseen(each, None, is_reachable=True).closed_by for each in closed} <= told


def test_a_broker_that_ends_before_it_has_answered_is_told():
    """Its FIN acknowledges the request, too: a segment less than when it was idle."""
    tracker = Tracker()
    with socket.create_server((ADDRESS, PORT)) as server, NetlinkSocketTable(PORTS) as table:
        client = connect(ADDRESS, PORT, mapped=False)
        accepted = server.accept()[0]
        talk(client, accepted, 12, late=False)
        met = table.read()
        [cookie] = [each.cookie for each in met.sockets if each.remote.port == PORT]
        tracker.update(met, {cookie: JVM})
        client.sendall(b"request")
        accepted.recv(100)
        accepted.close()
        assert client.recv(1) == b""
        client.close()
        time.sleep(0.05)
        [closed] = tracker.update(table.read(), {}).closed
    assert closed.tracked is not None
    # Unknown where the machine is so busy that the client followed late.
    assert closed.closed_by in {ClosedBy.BROKER, ClosedBy.UNKNOWN}


def test_other_ports_and_listeners_are_not_told():
    with NetlinkSocketTable(PORTS) as table:
        for _ in range(20):
            with socket.create_server((ADDRESS, 7000)) as server, connect(ADDRESS, 7000) as client:
                client.close()
                server.accept()[0].close()
            socket.socket().close()
        time.sleep(0.05)
        reading = table.read()
    assert reading.closed == ()
    assert reading.events_complete


def test_connection_that_ended_is_told_in_the_very_reading_that_misses_it():
    with socket.create_server((ADDRESS, PORT)) as server, NetlinkSocketTable(PORTS) as table:
        for _ in range(100):
            client = connect(ADDRESS, PORT)
            accepted = server.accept()[0]
            (before,) = table.read().sockets
            reset_on_close(client)
            client.close()
            reading = table.read()
            assert reading.sockets == ()
            assert [closed.cookie for closed in reading.closed] == [before.cookie]
            accepted.close()


def test_overrun_is_counted_to_the_event():
    with socket.create_server((ADDRESS, PORT)) as server, NetlinkSocketTable(PORTS) as table:
        table._events._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
        for _ in range(200):
            client = connect(ADDRESS, PORT)
            accepted = server.accept()[0]
            client.close()
            accepted.close()
        time.sleep(0.1)
        reading = table.read()
        assert reading.events_lost > 0
        assert not reading.events_complete
        assert len(reading.closed) + reading.events_lost == 200
        after = table.read()
        assert (after.events_lost, after.events_complete) == (0, True)


HEAR_AS_NOBODY = """
import json, socket, time
from exporter.connections.endings import closed_unseen
from exporter.connections.tracker import Tracker
from exporter.model import ClosedBy
from exporter.config.settings import PortRange
from exporter.kernel.sock_diag import NetlinkSocketTable
with NetlinkSocketTable((PortRange(9091, 9098),)) as table:
    for _ in range(10):
        client = socket.create_connection(("127.0.0.1", 9092))
        client.close()
    time.sleep(0.05)
    reading = table.read()
print(json.dumps([len(reading.closed), reading.events_complete]))
"""


def test_unprivileged_reader_hears_every_end():
    with socket.create_server((ADDRESS, PORT)):
        assert as_user(NOBODY, HEAR_AS_NOBODY) == [10, True]
