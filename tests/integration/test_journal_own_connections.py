"""The agent's own connections to brokers are counted as its own, and never as a client's."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from exporter.agent import Agent
from exporter.config.journal import JournalKafkaSettings, JournalSettings
from exporter.config.settings import BrokerSettings, PollSettings, PortRange, Settings
from exporter.journal.journaling import Journaling
from exporter.journal.sink import JournalSink
from exporter.kernel.destroy_events import DestroyEvents
from exporter.kernel.netlink import open_diag_socket
from exporter.kernel.own_connections import OWN_RECEIVE_BUFFER, is_own
from exporter.model import ClosedSocket, Endpoint
from exporter.totals.journal_values import Place
from tests.integration.kernel_support import needs_root, own_network_fixture  # noqa: F401
from tests.unit.journals import LABELS
from tests.unit.sockets import figures

HERE = Endpoint("127.0.0.1", 0)


@contextlib.contextmanager
def agent_with_journal(address, folder):
    port = int(address.rpartition(":")[2])
    settings = Settings(
        poll=PollSettings(interval=0.2),
        brokers=BrokerSettings(ports=(PortRange(port, port),)),
        journal=JournalSettings(
            interval=1.0,
            kafka=JournalKafkaSettings(
                bootstrap_servers=address,
                spool_folder=str(folder),
                flush_timeout=0.2,
                client={"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "50"},
            ),
        ),
    )
    sink = JournalSink(settings.journal, "a", 128)
    place = Place(agent_id="a", agent_version="1", labels=LABELS)
    agent = Agent(settings, journaling=Journaling(settings, place, sink))
    sink.start()
    agent.start()
    try:
        yield agent, sink
    finally:
        agent.stop()
        sink.stop()


@pytest.fixture
def nobody():
    """An address that refuses: bound, and not listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_refused_attempts_of_the_journal_are_nobodys_failures(nobody, tmp_path):
    with agent_with_journal(nobody, tmp_path) as (agent, sink):
        until = time.monotonic() + 20
        while sink.own_opened < 10 and time.monotonic() < until:
            time.sleep(0.1)
        host, _, port = nobody.rpartition(":")
        for _ in range(3):
            with socket.socket() as client:
                # As clients do: who waits in connect() has the kernel forget the port.
                client.setblocking(False)
                client.connect_ex((host, int(port)))
                time.sleep(0.05)
        time.sleep(0.5)
        totals = agent.snapshot().totals
    assert sink.own_opened >= 10
    # The three attempts of a client are counted, to show that others would be.
    assert sum(totals.connect_failures.values()) == 3
    assert sum(totals.opened.values()) == 3
    assert agent.snapshot().poll.unattributed_closed == 0


def test_its_open_connections_are_shown_as_its_own(tmp_path):
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = host.list_topics(timeout=10).brokers.values()
    address = f"{broker.host}:{broker.port}"
    # Its own bootstrap connection goes a moment after it has learned its brokers.
    time.sleep(2.5)
    with agent_with_journal(address, tmp_path) as (agent, sink):
        until = time.monotonic() + 20
        while sink.own_connections < 1 and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.5)
        while (snapshot := agent.snapshot()).connections and time.monotonic() < until:
            time.sleep(0.1)
        told = {name: value for name, _labels, value in sink.readings()}
    # The mock broker's own client is in this process, too: all of it is the agent's.
    assert snapshot.connections[:] == ()
    assert os.getpid() not in {each.owner.pid for each in snapshot.connections}
    assert told["brokerwire_own_broker_connections"] >= 1
    assert snapshot.totals.opened == {}
    del host


@pytest.mark.parametrize(
    ("window", "segment", "acked", "own"),
    [
        (OWN_RECEIVE_BUFFER, 65_495, 0, True),
        (11_680, 1460, 0, True),
        (8_960, 8_960, 0, True),
        (OWN_RECEIVE_BUFFER - 1, 65_495, 0, False),
        (32_768, 65_495, 0, False),
        (32_120, 1460, 0, False),
        (64_240, 1460, 0, False),
        (20_000, 65_495, 500, True),
        (32_120, 1460, 500, False),
        (64_240, 1460, 500, False),
        (0, 0, 0, False),
        (None, None, 0, False),
    ],
)
def test_only_our_window_is_ours(window, segment, acked, own):
    info = figures(acked - 1, 0)
    assert is_own(ClosedSocket(1.0, 7, HERE, HERE, info, window, segment)) is own


TALKS_AT = 10
TALKS = """
import socket
server = socket.create_server(("::", 10), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    with server.accept()[0] as client:
        for size in (200, 3000, 50):
            client.recv(4096)
            client.sendall(bytes(size))
        client.recv(4096)
"""


@pytest.fixture
def peer(own_network):  # noqa: ARG001 - the wire's other end is there
    """A host across a wire, whose packets are as large as one says: it refuses, but at port 10."""
    there = subprocess.Popen(["unshare", "-n", "sleep", "120"])
    inside = ["nsenter", "-t", str(there.pid), "-n"]

    def run(*command):
        subprocess.run(command, check=True)

    def lay(mtu):
        run("ip", "link", "set", "here", "mtu", str(mtu), "up")
        run(*inside, "ip", "link", "set", "there", "mtu", str(mtu), "up")

    until = time.monotonic() + 10
    namespace = Path(f"/proc/{there.pid}/ns/net")
    while namespace.samefile("/proc/self/ns/net") and time.monotonic() < until:
        time.sleep(0.02)
    run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there")
    run("ip", "link", "set", "there", "netns", str(there.pid))
    for number, name, prefix in ((1, "here", ()), (2, "there", inside)):
        run(*prefix, "ip", "address", "add", f"10.77.0.{number}/24", "dev", name)
        run(*prefix, "ip", "address", "add", f"fd77::{number}/64", "dev", name, "nodad")
    talks = subprocess.Popen([*inside, sys.executable, "-c", TALKS])
    yield lay
    for each in (talks, there):
        each.kill()
        each.wait()


# As the kernel sets it by itself, ours, and what Java producers and consumers ask for.
BUFFERS = (0, OWN_RECEIVE_BUFFER, 32_768, 65_536)
WIRES = [
    pytest.param(family, address, mtu, id=f"{address}-{mtu}")
    for family, address in ((socket.AF_INET, "10.77.0.2"), (socket.AF_INET6, "fd77::2"))
    for mtu in (1280, 1500, 9000)
]


@needs_root
@pytest.mark.root
@pytest.mark.parametrize(("family", "address", "mtu"), WIRES)
def test_the_kernel_tells_our_window_whatever_the_network(peer, mtu, family, address):
    peer(mtu)
    events = DestroyEvents((), open_socket=open_diag_socket)
    time.sleep(0.2)
    found = {}
    for buffer in BUFFERS:
        events.drain(0.0)
        with socket.socket(family) as client:
            if buffer:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            client.setblocking(False)
            client.connect_ex((address, 9))
            time.sleep(0.1)
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        time.sleep(0.1)
        (ended,) = events.drain(1.0).closed
        found[buffer] = is_own(ended)
    events.close()
    assert found == {0: False, OWN_RECEIVE_BUFFER: True, 32_768: False, 65_536: False}


@needs_root
@pytest.mark.root
@pytest.mark.parametrize(("family", "address", "mtu"), WIRES)
def test_our_window_is_known_after_a_conversation_too(peer, mtu, family, address):
    peer(mtu)
    events = DestroyEvents((), open_socket=open_diag_socket)
    found = {}
    for buffer in BUFFERS:
        with connected(family, address, buffer) as client:
            for answer in (200, 3000, 50):
                client.sendall(b"a question")
                while answer:
                    answer -= len(client.recv(4096))  # noqa: PLW2901
        until = time.monotonic() + 10
        ended = ()
        while not ended and time.monotonic() < until:
            time.sleep(0.02)
            ended = [each for each in events.drain(1.0).closed if each.remote.port == TALKS_AT]
        found[buffer] = is_own(ended[0])
    events.close()
    assert found == {0: False, OWN_RECEIVE_BUFFER: True, 32_768: False, 65_536: False}


def connected(family, address, buffer):
    """Connect once the other host is ready."""
    until = time.monotonic() + 20
    while True:
        client = socket.socket(family)
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        try:
            client.connect((address, TALKS_AT))
        except OSError:
            client.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return client
