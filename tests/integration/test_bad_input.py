"""The whole agent under bad input: one source's trouble is its own, and it is told in words."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exporter.agent import Agent
from exporter.config.settings import (
    BrokerSettings,
    JavaSourceSettings,
    PollSettings,
    PortRange,
    Settings,
    SourceSettings,
    StatisticsSettings,
)
from tests.integration.test_fetch_hostile import OK, serving

PAGE = (
    'kafka_producer_producer_node_metrics_outgoing_byte_total{client_id="orders",node_id="node-1"} 1\n'
    'kafka_producer_producer_node_metrics_incoming_byte_total{client_id="orders",node_id="node-1"} 1\n'
)


def good(connection, _done):
    connection.sendall(
        OK + b"Content-Type: text/plain\r\nConnection: close\r\n\r\n" + PAGE.encode()
    )


def huge(connection, _done):
    connection.sendall(OK + b"Content-Type: text/plain\r\nConnection: close\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(50):
            connection.sendall(b"x 1\n" * (256 * 1024))


def drip(connection, done):
    connection.sendall(OK + b"Content-Type: text/plain\r\nConnection: close\r\n\r\n")
    while not done.wait(0.05):
        connection.sendall(b"#")


def half_a_json(connection, _done):
    connection.sendall(
        OK + b"Content-Type: application/json\r\nConnection: close\r\n\r\n" + b'{"val'
    )


def hang(_connection, done):
    done.wait(20)


def source(name, url, **changes):
    return JavaSourceSettings(name=name, url=url, interval=0.2, timeout=0.5, **changes)


def settings(*java, ports=(9,), **statistics):
    return Settings(
        poll=PollSettings(interval=0.1),
        brokers=BrokerSettings(ports=tuple(PortRange(port, port) for port in ports)),
        sources=SourceSettings(java=java, librdkafka=StatisticsSettings(**statistics)),
    )


def statuses(agent):
    snapshot = agent.snapshot()
    assert snapshot is not None
    return {status.name: status for status in snapshot.sources}


def wait_until(holds, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


BAD = {
    "huge": (huge, "more than"),
    "drip": (drip, "0.5 s"),
    "json": (half_a_json, "JSON"),
    "hang": (hang, "0.5 s"),
}


def test_a_bad_page_costs_only_itself():
    """Four sources that lie, flood or hang, one that is not there, and the good one goes on."""
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(serving(behave))[0] for name, (behave, _) in BAD.items()}
        urls["good"] = stack.enter_context(serving(good))[0]
        with socket.create_server(("127.0.0.1", 0)) as closed:
            urls["gone"] = f"http://127.0.0.1:{closed.getsockname()[1]}/metrics"
        java = [source(name, url, max_bytes=1024 * 1024) for name, url in urls.items()]
        agent = stack.enter_context(Agent(settings(*java)))
        wait_until(
            lambda: all(status.reads >= 2 for status in statuses(agent).values()), seconds=20
        )
        found = statuses(agent)
        assert found["good"].up
        assert found["good"].clients == 1
        for name, (_, words) in BAD.items():
            assert not found[name].up, name
            assert found[name].errors >= 2, name
            assert words in (found[name].error or ""), (name, found[name].error)
        assert not found["gone"].up
        assert "refused" in (found["gone"].error or "")
        snapshot = agent.snapshot()
        assert snapshot is not None
        assert snapshot.poll.failed_polls == 0
        assert time.monotonic() - snapshot.at < 1.0


WRONG_TYPES = [
    b"",
    b"{",
    b"[]",
    b'"text"',
    b'{"brokers": []}',
    b'{"client_id": 7, "brokers": {}}',
    b'{"client_id": "a", "brokers": {"b": {"nodeid": "x", "txbytes": []}}}',
    json.dumps({"client_id": "a", "type": {}, "ts": "later", "brokers": {"b": 3}}).encode(),
    b"\xff\xfe\x00",
    b"[" * 100_000,
]


def test_statistics_of_wrong_types_are_refused_or_ignored(tmp_path):
    """Whatever is sent, the next good document is taken."""
    path = tmp_path / "statistics.sock"
    good_document = json.dumps(
        {"client_id": "orders", "type": "producer", "name": "rdkafka#producer-1", "brokers": {}}
    ).encode()
    with Agent(settings(unix_socket=str(path))) as agent:
        for document in (*WRONG_TYPES, good_document):
            with socket.socket(socket.AF_UNIX) as sender:
                sender.connect(str(path))
                with contextlib.suppress(OSError):
                    sender.sendall(document + b"\n")
                    sender.shutdown(socket.SHUT_WR)
                    sender.settimeout(2)
                    sender.recv(1)
        name = f"unix:{path}"
        wait_until(lambda: statuses(agent)[name].up and statuses(agent)[name].clients >= 1)
        assert statuses(agent)[name].errors >= 5
        snapshot = agent.snapshot()
        assert snapshot is not None
        assert snapshot.poll.failed_polls == 0


def test_an_inlet_that_cannot_be_opened_is_down_and_tried_again(tmp_path):
    path = tmp_path / "missing" / "statistics.sock"
    with Agent(settings(unix_socket=str(path))) as agent:
        wait_until(lambda: statuses(agent)[f"unix:{path}"].error is not None)
        assert str(path) in (statuses(agent)[f"unix:{path}"].error or "")


def _brokerwire(*arguments, **options):
    command = [Path(sys.executable).parent / "brokerwire", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_a_port_that_is_taken_ends_it_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        begun = time.monotonic()
        with _brokerwire("run", "--web.listen-address", address) as process:
            _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    assert address in said
    assert len(said.strip().splitlines()) == 1
    assert time.monotonic() - begun < 10


def test_a_broken_file_names_every_line(tmp_path):
    file = tmp_path / "brokerwire.yaml"
    file.write_text("poll:\n  intervall: 1s\nbrokers:\n  ports: [0, x]\nsources: 3\n")
    with _brokerwire("run", "--config", file) as process:
        _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    for line in (2, 4, 5):
        assert f"{file}:{line}:" in said


WITHOUT_NETLINK = """
import errno, socket, sys
real = socket.socket
class Refused(real):
    def __init__(self, family=-1, *arguments, **options):
        if family == socket.AF_NETLINK:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        super().__init__(family, *arguments, **options)
socket.socket = Refused
from exporter.cli import main
sys.exit(main(["inspect", "--json", "--for", "1s"]))
"""


def test_without_netlink_it_falls_back_and_says_so():
    """Where a sandbox refuses netlink, psutil reads the table: no byte counts, and it shows."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETLINK],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["agent"]["read_method"] == "psutil"


CLIENT = """
import socket, sys, time
held = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
held.sendall(b"x" * 10)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_client_that_dies_between_two_reads_leaves_nothing(how):
    with socket.create_server(("127.0.0.1", 0)) as broker:
        port = broker.getsockname()[1]
        with (
            serving(good) as (url, _),
            Agent(settings(source("orders", url), ports=(port,))) as agent,
        ):
            client = subprocess.Popen(
                [sys.executable, "-c", CLIENT, str(port)], stdout=subprocess.PIPE
            )
            assert client.stdout is not None
            client.stdout.readline()
            peer, _ = broker.accept()
            wait_until(lambda: any(c.owner.pid == client.pid for c in agent.snapshot().connections))
            os.kill(client.pid, how)
            client.wait(10)
            client.stdout.close()
            wait_until(
                lambda: not any(c.owner.pid == client.pid for c in agent.snapshot().connections)
            )
            assert sum(agent.snapshot().totals.closed.values()) == 1
            assert agent.snapshot().poll.failed_polls == 0
            peer.close()
