"""The user's three lines: real librdkafka clients that send their statistics to the agent."""

from __future__ import annotations

import http.server
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import brokerwire_client
import pytest
from brokerwire_client import send_statistics
from confluent_kafka import Consumer, Producer, libversion

from exporter.clients.librdkafka import readings_from_statistics
from exporter.clients.statistics_socket import StatisticsSocket
from exporter.model import ClientKind, Role

CLIENT = Path(__file__).parents[2] / "clients" / "python"


@pytest.fixture
def received(tmp_path):
    """A listening agent: its path and a queue of readings."""
    path = tmp_path / "stats.sock"
    readings = queue.SimpleQueue()
    inlet = StatisticsSocket(str(path), readings.put, readings.put)
    inlet.start()
    yield path, readings
    inlet.stop()


def mock_cluster(**more):
    return {
        "bootstrap.servers": "unused:9092",
        "test.mock.num.brokers": 2,
        "statistics.interval.ms": 100,
        "log_level": 0,
        **more,
    }


def wait_for(readings, is_wanted, poll):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        poll(0.05)
        while not readings.empty():
            reading = readings.get()
            if is_wanted(reading):
                return reading
    pytest.fail("no such reading came")


def test_a_real_producer_is_heard_with_its_figures(received):
    path, readings = received
    producer = Producer(
        mock_cluster(**{"client.id": "orders", "stats_cb": send_statistics(f"unix://{path}")})
    )
    producer.produce("t", b"x")

    def has_sent(reading):
        (client,) = reading.clients
        return any(node.partitions and node.requests for node in client.nodes)

    reading = wait_for(readings, has_sent, producer.poll)
    (client,) = reading.clients
    assert ("orders", ClientKind.PRODUCER, os.getpid()) == (
        client.client_id,
        client.kind,
        reading.sender_pid,
    )
    node = next(node for node in client.nodes if node.partitions and node.requests)
    assert Role.DATA is node.role
    assert node.outgoing_bytes > 0
    assert node.connection_state == "UP"
    assert client.version == libversion()[0]
    # librdkafka's clock is ours.
    assert 0 <= time.monotonic() - reading.begun_at < 5
    assert reading.ended_at - reading.begun_at <= 0.1


def test_statistics_fetched_late_are_of_their_own_moment(received):
    path, readings = received
    producer = Producer(mock_cluster(stats_cb=send_statistics(f"unix://{path}")))
    time.sleep(1.0)
    reading = wait_for(readings, lambda _: True, producer.poll)
    assert time.monotonic() - reading.begun_at > 0.5


def test_one_sender_serves_several_clients(received):
    path, readings = received
    callback = send_statistics(f"unix://{path}")
    producer = Producer(mock_cluster(stats_cb=callback))
    consumer = Consumer(mock_cluster(**{"stats_cb": callback, "group.id": "g"}))
    seen = set()

    def both(reading):
        seen.add(reading.clients[0].kind)
        return len(seen) == 2

    def poll(seconds):
        producer.poll(seconds)
        consumer.poll(seconds)

    wait_for(readings, both, poll)
    consumer.close()
    assert seen == {ClientKind.PRODUCER, ClientKind.CONSUMER}


def test_the_agent_may_come_later_and_come_again(tmp_path):
    path = tmp_path / "stats.sock"
    callback = send_statistics(f"unix://{path}")
    document = '{"client_id": "c", "brokers": {}}'
    callback(document)

    def send_again(seconds):
        callback(document)
        time.sleep(seconds)

    for _ in range(2):
        readings = queue.SimpleQueue()
        inlet = StatisticsSocket(str(path), readings.put, readings.put)
        inlet.start()
        wait_for(readings, lambda _: True, send_again)
        inlet.stop()


def test_calling_never_waits_and_never_raises(tmp_path):
    """Nobody there, nobody who accepts, nobody who reads, somebody who hangs up."""
    document = "x" * 1_000_000
    with socket.socket(socket.AF_UNIX) as deaf, socket.create_server(("127.0.0.1", 0)) as mute:
        deaf.bind(str(tmp_path / "deaf"))
        deaf.listen(0)
        targets = [
            f"unix://{tmp_path}/absent",
            f"unix://{tmp_path}/deaf",
            "http://127.0.0.1:1",
            f"http://127.0.0.1:{mute.getsockname()[1]}",
        ]
        for target in targets:
            callback = send_statistics(target)
            begun = time.perf_counter()
            for _ in range(100):
                callback(document)
            assert (time.perf_counter() - begun) / 100 < 0.005
            assert len(callback._waiting) <= brokerwire_client.MAX_WAITING


def test_what_cannot_be_a_statistic_does_not_raise(received):
    path, readings = received
    callback = send_statistics(f"unix://{path}")
    callback("\ud800")
    callback('{"client_id": "c", "brokers": {}}')
    wait_for(readings, lambda reading: not isinstance(reading, Exception), time.sleep)


def test_a_client_works_on_while_nobody_listens(tmp_path):
    callback = send_statistics(f"unix://{tmp_path}/absent")
    producer = Producer(mock_cluster(stats_cb=callback))
    producer.produce("t", b"x")
    assert producer.flush(10) == 0


def test_statistics_can_be_posted():
    bodies = queue.SimpleQueue()

    class Web(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.put((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        callback = send_statistics(f"http://127.0.0.1:{server.server_port}")
        producer = Producer(mock_cluster(stats_cb=callback))
        deadline = time.monotonic() + 10
        while bodies.empty() and time.monotonic() < deadline:
            producer.poll(0.05)
        path, body = bodies.get(timeout=1)
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
    assert path == "/api/v1/statistics"
    (reading,) = readings_from_statistics(body, source="http", received_at=time.monotonic())
    assert reading.clients[0].client_id == "rdkafka"


@pytest.mark.parametrize(
    "target",
    ["", "/run/s.sock", "unix://", "unix://host/path", "https://a", "http://", "tcp://127.0.0.1:1"],
)
def test_a_target_that_cannot_be_is_told_at_once(target):
    with pytest.raises(ValueError, match="must be unix:///path or http://host:port"):
        send_statistics(target)


FORKING = """
import os, sys
from brokerwire_client import send_statistics

callback = send_statistics("unix://" + sys.argv[1])
callback('{"client_id": "parent", "brokers": {}}')
child = os.fork()
if child == 0:
    callback('{"client_id": "child", "brokers": {}}')
    import time
    time.sleep(0.5)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_process_sends_by_itself(received):
    path, readings = received
    subprocess.run([sys.executable, "-c", FORKING, str(path)], cwd=CLIENT, check=True, timeout=20)
    senders = {}
    while len(senders) < 2:
        reading = readings.get(timeout=5)
        senders[reading.clients[0].client_id] = reading.sender_pid
    assert senders["parent"] != senders["child"]


def test_an_ending_interpreter_says_nothing(tmp_path):
    program = FORKING.partition("child =")[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(tmp_path / "absent")],
        cwd=CLIENT,
        check=True,
        timeout=20,
        capture_output=True,
        text=True,
    )
    assert done.stdout + done.stderr == ""


def test_it_imports_the_standard_library_only():
    program = (
        "import sys; before = set(sys.modules); import brokerwire_client; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CLIENT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "['brokerwire_client']"
