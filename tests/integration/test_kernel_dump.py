"""The dump of real sockets, compared with `ss` and with psutil at the same moment."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from exporter.config.settings import PortRange
from exporter.errors import SourceUnavailableError
from exporter.kernel.netlink import open_diag_socket, unavailable
from exporter.kernel.port_filter import FilterKind
from exporter.kernel.psutil_table import PsutilSocketTable, open_socket_table
from exporter.kernel.sock_diag import CONNECTIONS, LISTENERS, NetlinkSocketTable
from exporter.model import OwnerRung, ReadMethod, TcpState
from exporter.processes.owners import OwnerLadder
from exporter.processes.rungs import own_cgroup_id
from tests.integration.kernel_support import (  # noqa: F401
    NOBODY,
    as_user,
    connect,
    cookie_of,
    many_files_fixture,
    needs_root,
    own_network_fixture,
    reset_on_close,
)

pytestmark = [pytest.mark.root, needs_root, pytest.mark.usefixtures("own_network")]

BROKERS = (9092, 9093, 19092)
FOREIGN = (7000, 7001)
PORTS = (PortRange(9091, 9098), PortRange(19092, 19092))
ADDRESS = "127.0.0.1"


@contextlib.contextmanager
def pairs(count):
    """Connections to brokers and to others, both families, with different amounts of data."""
    with contextlib.ExitStack() as stack:
        servers = {
            port: stack.enter_context(socket.create_server((ADDRESS, port)))
            for port in BROKERS + FOREIGN
        }
        clients = []
        for number in range(count):
            port = (BROKERS + FOREIGN)[number % 5]
            client = stack.enter_context(connect(ADDRESS, port, mapped=number % 2 == 1))
            accepted = stack.enter_context(servers[port].accept()[0])
            client.sendall(b"q" * (number % 50))
            accepted.sendall(b"r" * (number % 30))
            accepted.recv(number % 10 + 1) if number % 50 else None
            clients.append(client)
        yield clients


def ss(ports):
    """Return (local, remote) → what `ss` says of each socket to one of these ports."""
    condition = "( " + " or ".join(f"dport = :{port}" for port in ports) + " )"
    text = subprocess.run(
        ["ss", "-tnpiH", condition], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for line in text.replace("\n\t", "\t").splitlines():
        state, received, sent, local, remote, rest = line.split(None, 5)
        said = dict(re.findall(r"(\w+):(\S+)", rest))
        said["pid"] = re.search(r"pid=(\d+)", rest)[1]
        ends = (without_mapping(local), without_mapping(remote))
        found[ends] = (state, int(received), int(sent), said)
    return found


def without_mapping(text):
    return text.replace("[::ffff:", "").replace("]:", ":")


@pytest.mark.skipif(shutil.which("ss") is None, reason="needs iproute2")
def test_thousands_of_sockets_are_what_ss_says(many_files):
    with pairs(min(5000, many_files // 3)), NetlinkSocketTable(PORTS) as table:
        time.sleep(0.3)
        sockets = table.read().sockets
        said = ss(BROKERS)
        assert table.read().sockets is sockets
        owners = OwnerLadder((), own_pid=0).owners_of(sockets)
    assert len(sockets) == len(said) > 1000
    names = {"ESTAB": TcpState.ESTABLISHED}
    for reading in sockets:
        state, receive_queue, send_queue, figures = said[str(reading.local), str(reading.remote)]
        assert reading.tcp_state is names[state]
        assert (reading.receive_queue, reading.send_queue) == (receive_queue, send_queue)
        info = reading.info
        # `ss` leaves out what is 0.
        for mine, theirs in (
            (info.bytes_acked, "bytes_acked"),
            (info.bytes_received, "bytes_received"),
            (info.bytes_sent, "bytes_sent"),
            (info.segments_out, "segs_out"),
            (info.segments_in, "segs_in"),
            (info.data_segments_out, "data_segs_out"),
            (info.data_segments_in, "data_segs_in"),
        ):
            assert mine == int(figures.get(theirs, 0)), theirs
        assert info.rtt_us == round(1000 * float(figures["rtt"].partition("/")[0]))
        assert owners[reading.cookie].pid == int(figures["pid"]) == os.getpid()
        assert owners[reading.cookie].rung is OwnerRung.PROC_FD


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.value) for kind in FilterKind])
def test_every_filter_lets_the_same_sockets_pass(kind):
    with pairs(50) as clients, NetlinkSocketTable(PORTS) as table:
        table._filter = kind
        table.set_ports(PORTS)
        found = {reading.cookie for reading in table.read().sockets}
        expected = {cookie_of(c) for c in clients if c.getpeername()[1] in BROKERS}
        assert found == expected
        assert table._filter is kind


def test_without_ports_everything_is_read_and_listeners_on_request():
    with pairs(10) as clients:
        with NetlinkSocketTable((), events=False) as table:
            found = table.read().sockets
            assert {cookie_of(client) for client in clients} < {each.cookie for each in found}
            assert len(found) == 20
        with NetlinkSocketTable((), events=False, states=CONNECTIONS | LISTENERS) as table:
            states = [each.tcp_state for each in table.read().sockets]
            assert states.count(TcpState.LISTEN) == len(BROKERS + FOREIGN)


READ_AS_NOBODY = """
import json, os, sys
from exporter.config.settings import PortRange
from exporter.kernel.sock_diag import NetlinkSocketTable
with NetlinkSocketTable((PortRange(9091, 9098), PortRange(19092, 19092))) as table:
    reading = table.read()
print(json.dumps({
    "uid": os.getuid(), "complete": reading.events_complete,
    "cookies": [s.cookie for s in reading.sockets],
    "figures": [s.info.bytes_acked for s in reading.sockets],
}))
"""


def test_unprivileged_reader_sees_the_same():
    with pairs(100), NetlinkSocketTable(PORTS) as table:
        mine = table.read().sockets
        seen = as_user(NOBODY, READ_AS_NOBODY)
    assert seen["uid"] == NOBODY
    assert seen["complete"]
    assert seen["cookies"] == [each.cookie for each in mine]
    assert seen["figures"] == [each.info.bytes_acked for each in mine]


def test_byte_counts_are_those_of_the_application():
    with (
        socket.create_server((ADDRESS, 9092)) as server,
        connect(ADDRESS, 9092, mapped=True) as client,
        NetlinkSocketTable(PORTS) as table,
    ):
        accepted = server.accept()[0]
        client.sendall(b"q" * 12345)
        accepted.recv(20000)
        accepted.sendall(b"r" * 777)
        client.recv(700)
        time.sleep(0.1)
        (reading,) = table.read().sockets
        assert (reading.outgoing_bytes, reading.incoming_bytes) == (12345, 700)
        accepted.close()
        time.sleep(0.05)
        (reading,) = table.read().sockets
        assert reading.tcp_state is TcpState.CLOSE_WAIT


def test_idle_connections_keep_their_readings_while_time_passes():
    with pairs(50) as clients, NetlinkSocketTable(PORTS) as table:
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        time.sleep(0.3)
        first = table.read().sockets
        time.sleep(0.3)
        assert table.read().sockets is first
        clients[0].sendall(b"one more")
        time.sleep(0.05)
        second = table.read().sockets
        assert sum(a is not b for a, b in zip(first, second, strict=True)) == 1


# ---- psutil where netlink is refused --------------------------------------------------------------


def test_psutil_lists_the_same_connections():
    with pairs(60), NetlinkSocketTable(PORTS) as table:
        through_netlink = table.read()
        psutil_table = PsutilSocketTable(PORTS)
        through_psutil = psutil_table.read()
        again = psutil_table.read()
        assert through_psutil.method is ReadMethod.PSUTIL
        assert not through_psutil.events_complete

        def essence(reading):
            return sorted((s.local, s.remote, s.tcp_state, s.inode) for s in reading.sockets)

        assert essence(through_psutil) == essence(through_netlink)
        assert all(s.cookie < 0 and s.info is None for s in through_psutil.sockets)
        assert len({s.cookie for s in through_psutil.sockets}) == len(through_psutil.sockets)
        assert all(a is b for a, b in zip(through_psutil.sockets, again.sockets, strict=True))
        owners = OwnerLadder((), own_pid=0).owners_of(through_psutil.sockets)
        assert {owner.pid for owner in owners.values()} == {os.getpid()}


def test_psutil_tells_listeners_on_request_and_changed_states():
    with socket.create_server((ADDRESS, 9092)) as server, connect(ADDRESS, 9092):
        table = PsutilSocketTable(PORTS)
        (before,) = table.read().sockets
        server.accept()[0].close()
        (after,) = table.read().sockets
        assert (before.cookie, after.tcp_state) == (after.cookie, TcpState.CLOSE_WAIT)
        table.set_ports((PortRange(1, 1),))
        assert table.read().sockets == ()
        everything = PsutilSocketTable((), listening=True).read().sockets
        assert TcpState.LISTEN in {each.tcp_state for each in everything}


@pytest.mark.parametrize(
    ("number", "falls_back"),
    [
        pytest.param(1, True, id="EPERM"),
        pytest.param(93, True, id="EPROTONOSUPPORT"),
        pytest.param(24, False, id="EMFILE"),
    ],
)
def test_psutil_is_used_where_netlink_is_refused_for_good(number, falls_back):
    def refuse(_groups):
        error = OSError(number, os.strerror(number))
        raise unavailable(error, "cannot open a netlink socket") from error

    if not falls_back:
        with pytest.raises(SourceUnavailableError):
            open_socket_table(PORTS, open_socket=refuse)
        return
    table = open_socket_table(PORTS, open_socket=refuse)
    assert isinstance(table, PsutilSocketTable)
    assert os.strerror(number) in table.reason


def test_netlink_is_used_where_it_works():
    table = open_socket_table(PORTS, open_socket=open_diag_socket)
    assert isinstance(table, NetlinkSocketTable)
    table.close()


def test_own_cgroup_is_that_of_an_own_socket():
    with pairs(5) as clients, NetlinkSocketTable((), events=False) as table:
        mine = {each.cookie: each.cgroup_id for each in table.read().sockets}
        assert own_cgroup_id() == mine[cookie_of(clients[0])]


def test_the_keepalive_timer_shows_how_old_a_connection_is_whatever_goes_over_it():
    """As the Java client sets it: on before it connects, its time left as it is."""
    with socket.create_server((ADDRESS, BROKERS[0])) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        begun = time.monotonic()
        client.connect((ADDRESS, BROKERS[0]))
        accepted, _ = server.accept()
        with accepted, NetlinkSocketTable(PORTS) as table:
            for _ in range(3):
                time.sleep(0.4)
                client.sendall(b"q" * 100)
                accepted.sendall(b"r" * 100)
                client.recv(100)
                before = time.monotonic() - begun
                told = table.read()
                after = time.monotonic() - begun
                [one] = [each for each in told.sockets if each.remote.port == BROKERS[0]]
                if one.keepalive_left_ms is None:
                    continue  # what was sent is not acknowledged yet: another timer runs
                age = (told.keepalive_ms - one.keepalive_left_ms) / 1000
                assert before - 0.05 <= age <= after + 0.05
            assert one.keepalive_left_ms is not None


def test_a_socket_without_keepalive_shows_no_timer():
    with pairs(5), NetlinkSocketTable(PORTS) as table:
        assert {each.keepalive_left_ms for each in table.read().sockets} == {None}
