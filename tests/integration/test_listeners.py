"""Who serves a page, asked of the real kernel."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from exporter.sources.listeners import Listeners

SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
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


def test_nobody_listens_or_the_page_is_elsewhere():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert Listeners(f"http://127.0.0.1:{port}/metrics").pid() is None
    assert Listeners("http://192.0.2.1:9404/metrics").pid() is None
