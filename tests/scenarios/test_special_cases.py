"""Cases at the edge: ghosts, sudden deaths, an agent that comes late or has no rights."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exporter.config.settings import (
    BrokerSettings,
    ClientSettings,
    PortRange,
    ProcessRule,
    Settings,
)
from tests.scenarios.scoring import agent_for, score, wait_for

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[2]

# Each broker gets another share: nodes that count the same cannot be told apart.
LEADERS = [1, 2, 2, 3, 3, 3]
ALL = range(len(LEADERS))

# Keeps its descriptor whatever happens to the socket, as a client that swallows an error.
KEEPER = """
import socket, sys
kept = socket.create_connection((sys.argv[1], int(sys.argv[2])))
kept.sendall(b"x" * 40)
kept.recv(100)
print("connected", flush=True)
sys.stdin.read()
"""

# The agent in a process of its own: settings on standard input, connections on standard output.
UNPRIVILEGED = """
import pickle, sys, time
from exporter.agent import Agent
settings, seconds = pickle.load(sys.stdin.buffer)
with Agent(settings) as agent:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(1)
        snapshot = agent.snapshot()
        if sum(c.client_id is None for c in snapshot.connections) <= 1 < len(snapshot.connections):
            break
    answer = tuple(snapshot.connections), snapshot.poll.owner_rungs, snapshot.poll.capabilities
sys.stdout.buffer.write(pickle.dumps(answer))
"""


@pytest.fixture
def server():
    """A port that is called a broker's."""
    with socket.create_server(("127.0.0.88", 0)) as listening:
        listening.settimeout(20)
        yield listening


@pytest.fixture
def keeper(server):
    host, port = server.getsockname()
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, host, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        peer, _ = server.accept()
        peer.recv(100)
        peer.sendall(b"y" * 30)
        assert process.stdout.readline() == b"connected\n"
        yield process, peer
        process.kill()


def settings_around(server):
    port = server.getsockname()[1]
    mark = ProcessRule(command=f"127.0.0.88 {port}")
    return Settings(
        brokers=BrokerSettings(ports=(PortRange(port, port),)),
        clients=ClientSettings(processes=(mark,)),
    )


def test_a_reset_with_the_descriptor_kept_is_a_ghost_until_the_process_ends(server, keeper):
    process, peer = keeper
    with agent_for(settings_around(server)) as agent:
        wait_for(agent, lambda s: len(s.connections) == 1, seconds=20, what="the connection")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        snapshot = wait_for(
            agent,
            lambda s: [c for c in s.connections if c.connection_class == "ghost"],
            seconds=20,
            what="the ghost",
        )
        [ghost] = snapshot.connections
        assert ghost.owner.pid == process.pid
        assert "descriptor is still open" in ghost.evidence[0]
        snapshot = wait_for(agent, lambda s: s.findings, seconds=20, what="the finding")
        assert [finding.name for finding in snapshot.findings] == ["KafkaClientGhostDescriptors"]
        listing = subprocess.run(["ss", "-tnH"], capture_output=True, text=True, check=True).stdout
        assert str(ghost.local) not in listing
        process.send_signal(signal.SIGKILL)
        snapshot = wait_for(agent, lambda s: not s.connections, seconds=20, what="its end")
        assert {str(by): n for (_key, by), n in snapshot.totals.closed.items()} == {"broker": 1}


def test_a_process_that_is_killed_closed_its_connections(server, keeper):
    process, peer = keeper
    with agent_for(settings_around(server)) as agent:
        wait_for(agent, lambda s: len(s.connections) == 1, seconds=20, what="the connection")
        process.send_signal(signal.SIGKILL)
        process.wait()
        snapshot = wait_for(agent, lambda s: not s.connections, seconds=20, what="its end")
        assert {str(by): n for (_key, by), n in snapshot.totals.closed.items()} == {"client": 1}
        peer.close()


@pytest.mark.lab
def test_an_agent_that_comes_late_knows_everything_too(shared_cluster_3, stage):
    shared_cluster_3.create_topic("early", len(LEADERS), leaders=LEADERS)
    play = stage(shared_cluster_3)
    clients = {"java": play.java("4.4.0"), "rd": play.librdkafka()}
    for label, client in clients.items():
        client.producer(f"p-{label}")
        client.send(f"p-{label}", "early", partitions=ALL, rounds=-1, interval=1, wait=False)
        client.consumer(f"c-{label}", topics=["early"], group=f"early-{client.pid}")
        client.wait_assignment(f"c-{label}", partitions=len(LEADERS))
    started = time.monotonic()
    watch = play.watch()
    snapshot = watch.wait_right()
    # A Java client's connections have exact ages all the same, by their keep-alive timers.
    watched = time.monotonic() - started
    older = [c for c in snapshot.connections if not c.age_is_exact or c.age_seconds > watched]
    assert len(older) >= 12
    for label in clients:
        assert watch.expected(f"p-{label}") == 3
        assert watch.expected(f"c-{label}") == 4
    # What was open before the agent was is no surge of its start.
    assert sum(snapshot.totals.opened.values()) <= len(snapshot.connections) - len(older)


@pytest.mark.lab
def test_a_client_process_that_dies_leaves_nothing_and_disturbs_nobody(shared_cluster_3, stage):
    shared_cluster_3.create_topic("deaths", len(LEADERS), leaders=LEADERS)
    play = stage(shared_cluster_3)
    doomed = play.java("3.9.2")
    survivor = play.java("4.4.0")
    watch = play.watch()
    for name, client in (("doomed", doomed), ("survivor", survivor)):
        client.producer(name)
        client.send(name, "deaths", partitions=ALL, rounds=-1, interval=0.5, wait=False)
    watch.wait_data(("doomed", "survivor"), 3)
    watch.wait_right()
    del play.processes["3.9.2"]
    doomed.end()
    watch.wait(lambda _: not watch.of("doomed"), "the dead client's connections to go")
    # Its kernel resets what holds an answer that was not read yet.
    assert "client" in watch.closed("doomed")
    assert set(watch.closed("doomed")) <= {"client", "abort"}
    watch.wait(
        lambda _: watch.findings("BrokerwireSourceDown", source="3.9.2"), "the finding of its page"
    )
    watch.wait_right()
    assert watch.classes("survivor")["data"] == 3
    assert watch.findings("KafkaClientConnectionChurn") == []


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)
def test_an_agent_of_another_user_without_capabilities_joins_as_well(shared_cluster_3, stage):
    """It sees no descriptors: owners are known by cgroup or uid, and bytes join all the same."""
    shared_cluster_3.create_topic("foreign", len(LEADERS), leaders=LEADERS)
    play = stage(shared_cluster_3)
    client = play.java("3.9.2")
    client.producer("foreign")
    client.send("foreign", "foreign", partitions=ALL, rounds=-1, interval=0.5, wait=False)
    client.consumer("reader", topics=["foreign"], group=f"foreign-{client.pid}")
    client.wait_assignment("reader", partitions=len(LEADERS))
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    drop += ["--bounding-set=-all", "--inh-caps=-all"]
    done = subprocess.run(
        [*drop, sys.executable, "-c", UNPRIVILEGED],
        input=pickle.dumps((play.settings(), 60.0)),
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=120,
    )
    connections, rungs, capabilities = pickle.loads(done.stdout)
    assert set(map(str, rungs)) <= {"cgroup", "uid"}
    assert any("proc_fd: no" in ability for ability in capabilities), capabilities

    class Answer:
        def __init__(self):
            self.connections = connections

    result = score(Answer(), play.truth())
    assert result.wrong == []
    assert result.missing == []
    assert result.unknown <= 1
    assert result.right >= 7
