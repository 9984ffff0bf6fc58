"""Who serves a page, asked of the real kernel."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from exporter.kernel.sock_diag import LISTENERS
from exporter.processes.holders import Holders
from exporter.processes.listeners import Listeners
from exporter.processes.posters import Posters

SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))):
    sys.stdin.read()
"""


@pytest.fixture
def server():
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield process, int(process.stdout.readline())
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_process_behind_a_page_is_the_one_that_listens(server, host):
    process, port = server
    listeners = Listeners(f"http://{host}:{port}/metrics")
    assert listeners.pid() == process.pid
    listeners.close()


def test_who_posts_is_the_process_at_the_other_end():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        sender = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(port)],
            stdin=subprocess.PIPE,
        )
        accepted, place = listener.accept()
        posters = Posters([port])
        with accepted:
            assert posters.pid_of(*place) == sender.pid
            assert posters.pid_of(place[0], place[1] + 1) is None
        posters.close()
        assert sender.stdin is not None
        sender.stdin.close()
        sender.wait(10)


def test_several_processes_are_nobody(server):
    process, port = server
    holders = Holders(states=LISTENERS)
    assert holders.lone_pid(lambda reading: reading.local.port == port) == process.pid
    second = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert second.stdin is not None
    assert second.stdout is not None
    places = {port, int(second.stdout.readline())}
    assert holders.lone_pid(lambda reading: reading.local.port in places) is None
    second.stdin.close()
    second.wait(10)
    second.stdout.close()
    assert holders.lone_pid(lambda reading: reading.local.port in places) == process.pid
    holders.close()


def test_nobody_listens_or_the_page_is_elsewhere():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for page in (f"http://127.0.0.1:{port}/metrics", "http://192.0.2.1:9404/metrics"):
        listeners = Listeners(page)
        assert listeners.pid() is None
        listeners.close()
