"""The Unix socket for librdkafka's statistics, with senders that behave and misbehave."""

from __future__ import annotations

import itertools
import json
import os
import queue
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from exporter.clients import statistics_socket
from exporter.clients.inputs import Inputs
from exporter.clients.statistics_socket import MAX_SENDERS, StatisticsSocket
from exporter.config.settings import SourceSettings, StatisticsSettings
from exporter.errors import SourceDecodeError, SourceUnavailableError
from tests.integration.kernel_support import needs_root

CLIENT = Path(__file__).parents[2] / "clients" / "python"


def document(name="rdkafka#producer-1", **more):
    brokers = {"b": {"name": "b:9092/1", "nodeid": 1, "source": "learned", "txbytes": 5}}
    return json.dumps({"name": name, "client_id": "c", "brokers": brokers, **more}).encode()


class Inlet:
    """A listening socket and what came out of it."""

    def __init__(self, path, **options):
        self.path = str(path)
        self.readings = queue.SimpleQueue()
        self.errors = queue.SimpleQueue()
        self.inlet = StatisticsSocket(self.path, self.readings.put, self.errors.put, **options)
        self.inlet.start()

    def connect(self):
        sender = socket.socket(socket.AF_UNIX)
        # Blocking: with a timeout, Linux answers EAGAIN where the backlog is full.
        sender.connect(self.path)
        sender.settimeout(5)
        return sender

    def reading(self):
        return self.readings.get(timeout=5)

    def error(self):
        return str(self.errors.get(timeout=5))


@pytest.fixture
def inlet(tmp_path):
    made = Inlet(tmp_path / "stats.sock", max_bytes=1_000_000)
    yield made
    made.inlet.stop()


def is_closed(sender):
    with suppress(ConnectionResetError, BrokenPipeError):
        return sender.recv(1) == b""
    return True


def test_a_document_becomes_a_reading_with_its_sender(inlet):
    with inlet.connect() as sender:
        before = time.monotonic()
        sender.sendall(document() + b"\n")
        reading = inlet.reading()
    assert (os.getpid(), f"unix:{inlet.path}") == (reading.sender_pid, reading.source)
    assert reading.clients[0].nodes[0].outgoing_bytes == 5
    assert before - 2 < reading.begun_at <= reading.ended_at <= time.monotonic()


def test_the_documents_own_moment_is_the_readings(inlet):
    taken_at = time.monotonic() - 3
    with inlet.connect() as sender:
        sender.sendall(document(ts=int(taken_at * 1e6)) + b"\n")
        reading = inlet.reading()
    assert reading.begun_at == pytest.approx(taken_at, abs=0.001)
    assert reading.ended_at == pytest.approx(taken_at + 0.1, abs=0.001)


def test_documents_may_come_in_pieces_and_in_heaps(inlet):
    with inlet.connect() as sender:
        body = document() + b"\n"
        for byte in body:
            sender.sendall(bytes([byte]))
        sender.sendall(body * 20 + body[:-1])
        assert [inlet.reading() for _ in range(21)]
        sender.sendall(b"\n\n\r\n")
        assert inlet.reading()
    assert inlet.errors.empty()


def test_a_document_of_a_megabyte_passes(inlet):
    with inlet.connect() as sender:
        sender.sendall(document(topics=["x" * 100] * 9000) + b"\n")
        assert inlet.reading()


def test_half_a_document_at_the_end_says_nothing(inlet):
    with inlet.connect() as sender:
        sender.sendall(document() + b"\n" + document()[:-9])
    assert inlet.reading()
    with inlet.connect() as sender:
        sender.sendall(document("last") + b"\n")
    assert inlet.reading().clients[0].instance == "last"
    assert inlet.errors.empty()


def test_rubbish_is_an_error_and_the_next_document_is_read(inlet):
    with inlet.connect() as sender:
        sender.sendall(b"rubbish\n" + document() + b"\n")
        assert "not JSON" in inlet.error()
        assert inlet.reading()


def test_a_document_beyond_the_limit_closes_its_connection_only(inlet):
    with inlet.connect() as good, inlet.connect() as bad:
        with suppress(BrokenPipeError, ConnectionResetError):
            bad.sendall(b"x" * 3_000_000)
        assert f"more than 1000000 bytes (from process {os.getpid()})" in inlet.error()
        assert is_closed(bad)
        good.sendall(document() + b"\n")
        assert inlet.reading()


def test_unfinished_documents_are_bounded_together(inlet):
    senders = [inlet.connect() for _ in range(4)]
    for sender in senders:
        with suppress(BrokenPipeError, ConnectionResetError):
            sender.sendall(b"x" * 900_000)
    assert "too many unfinished documents" in inlet.error()
    for sender in senders:
        sender.close()


def test_a_document_that_never_ends_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(statistics_socket, "UNFINISHED_SECONDS", 0.2)
    made = Inlet(tmp_path / "s")
    try:
        with made.connect() as sender:
            sender.sendall(b"{")
            assert "unfinished for 0.2 s" in made.error()
            assert is_closed(sender)
    finally:
        made.inlet.stop()


def test_those_that_only_hold_on_do_not_lock_others_out(inlet):
    holders = [inlet.connect() for _ in range(MAX_SENDERS + 20)]
    with inlet.connect() as sender:
        sender.sendall(document() + b"\n")
        assert inlet.reading()
    assert len(inlet.inlet._senders) <= MAX_SENDERS
    for holder in holders:
        holder.close()


def test_many_senders_at_once_are_all_heard(inlet):
    def send(number):
        with inlet.connect() as sender:
            for _ in range(10):
                sender.sendall(document(f"client-{number}") + b"\n")

    threads = [threading.Thread(target=send, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    readings = [inlet.reading() for _ in range(200)]
    for thread in threads:
        thread.join(5)
    assert len({reading.clients[0].instance for reading in readings}) == 20


def test_the_socket_is_for_owner_and_group(inlet):
    assert stat.S_IMODE(os.lstat(inlet.path).st_mode) == 0o660


# The helper that the examples name, by a process that was root only to read it.
SENDER = """
import os, sys, time
from brokerwire_client import send_statistics
send = send_statistics(f"unix://{sys.argv[1]}")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
send(sys.argv[2])
print("sent", flush=True)
time.sleep(60)
"""


@needs_root
@pytest.mark.root
@pytest.mark.parametrize(("mode", "heard"), [(0o660, 0), (0o666, 1)], ids=["0660", "0666"])
def test_the_mode_decides_whether_another_uid_is_heard(mode, heard):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = f"{folder}/statistics.sock"
        settings = StatisticsSettings(unix_socket=path, unix_socket_mode=mode)
        inputs = Inputs(
            SourceSettings(librdkafka=settings), (), lambda: None, time.monotonic, time.time
        )
        inputs.start()
        try:
            assert stat.S_IMODE(os.lstat(path).st_mode) == mode
            arrived = []
            with subprocess.Popen(
                [sys.executable, "-c", SENDER, path, document().decode()],
                cwd=CLIENT, stdout=subprocess.PIPE,
            ) as sender:  # fmt: skip
                assert sender.stdout.readline() == b"sent\n"
                end = time.monotonic() + (20 if heard else 1)
                while time.monotonic() < end and not arrived:
                    arrived += inputs.take()
                    time.sleep(0.05)
                sender.kill()
        finally:
            inputs.stop()
    assert len(arrived) == heard


def test_the_file_of_an_agent_that_died_is_replaced(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    made = Inlet(path)
    with made.connect() as sender:
        sender.sendall(document() + b"\n")
        assert made.reading()
    made.inlet.stop()


def unavailable(path, message):
    made = StatisticsSocket(str(path), print, print)
    with pytest.raises(SourceUnavailableError, match=message):
        made.start()
    made.stop()


def test_a_living_agent_is_not_robbed(inlet):
    unavailable(inlet.path, "another process does")
    with inlet.connect() as sender:
        sender.sendall(document() + b"\n")
        assert inlet.reading()


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "symlink", "dangling"])
def test_what_is_no_socket_stays(tmp_path, kind):
    path = tmp_path / "s"
    target = tmp_path / "target"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(target))
        match kind:
            case "file":
                path.write_text("precious")
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "symlink":
                path.symlink_to(target)
            case "dangling":
                path.symlink_to(tmp_path / "nowhere")
    unavailable(path, "there is something else than a socket")
    assert os.path.lexists(path)
    assert target.exists()


def test_a_path_that_cannot_be_is_unavailable(tmp_path):
    unavailable(tmp_path / "absent" / "s", "No such file or directory")
    unavailable(tmp_path / ("x" * 200), "longer than 107 bytes")


def test_stopping_takes_its_own_file_away_and_no_other(tmp_path):
    path = tmp_path / "s"
    made = Inlet(path)
    path.unlink()
    path.write_text("somebody else's")
    made.inlet.stop()
    assert path.read_text() == "somebody else's"


def test_stopping_closes_everything(tmp_path):
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    made = Inlet(tmp_path / "s")
    sender = made.connect()
    sender.sendall(b"{")
    made.inlet.stop()
    assert is_closed(sender)
    sender.close()
    assert before == descriptors()
    assert not any(thread.name == "brokerwire-statistics" for thread in threading.enumerate())


def test_an_error_is_of_the_declared_kind(inlet):
    with inlet.connect() as sender:
        sender.sendall(b"[]\n")
        assert isinstance(inlet.errors.get(timeout=5), SourceDecodeError)


def test_a_flood_of_documents_takes_a_third_of_a_processor_at_most(inlet):
    body = (document() + b"\n") * 200
    begun_cpu, begun = time.process_time(), time.monotonic()
    with inlet.connect() as sender:
        sender.settimeout(0.1)
        while time.monotonic() - begun < 1.5:
            with suppress(TimeoutError):
                sender.send(body)
    used = (time.process_time() - begun_cpu) / (time.monotonic() - begun)
    assert not inlet.readings.empty()
    assert used < 0.6


def test_small_documents_count_as_one_large_one_does(inlet, monkeypatch):
    # Each look at this clock finds a millisecond of work: less than any that needs a rest alone.
    work = itertools.count()
    monkeypatch.setattr(statistics_socket.time, "thread_time", lambda: next(work) / 1000)
    begun = time.monotonic()
    with inlet.connect() as sender:
        for _ in range(200):
            sender.sendall(document() + b"\n")
            inlet.reading()
    assert time.monotonic() - begun > 200 * 0.001 * 2
