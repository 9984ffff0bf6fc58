"""Pods as the kernel has them: a process with a network, and a cgroup, of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

# Of no other test and no other run: the machine's other namespaces must have no client of this
# agent.
PORT = 20_000 + os.getpid() % 10_000
SECONDS = 15.0

# A pod: its own loopback, a "broker" at the address that all of them use, a client's connections,
# a page of metrics if asked; each line that comes in makes a connection more, or lets the broker
# close one.
POD = """
import http.server, pathlib, socket, sys, threading
port, count, page = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
broker = socket.create_server(("127.0.0.1", port))
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = pathlib.Path(page).read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
if page:
    server = http.server.HTTPServer(("127.0.0.1", 19404), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
print("ready", flush=True)
for line in sys.stdin:
    if line == "close\\n":
        broker.accept()[0].close()
    else:
        held.append(socket.create_connection(("127.0.0.1", port)))
    print("done", flush=True)
"""


@dataclass
class RealPod:
    process: subprocess.Popen
    inode: str = field(init=False)

    def __post_init__(self):
        assert self.process.stdout.readline() == "ready\n"
        link = str(Path(f"/proc/{self.process.pid}/ns/net").readlink())
        self.inode = link.removeprefix("net:[").removesuffix("]")

    def connect(self):
        self._tell("connect")

    def close_at_the_broker(self):
        self._tell("close")

    def _tell(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def pod(count, *, page="", uid=None, user=0):
    """Run a pod as `user`; with `uid` in a cgroup that is named as a kubelet names it."""
    client = [sys.executable, "-c", POD, str(PORT), str(count), str(page)]
    if user:
        client = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *client]
    alone = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    command = [*alone, *client]
    with cgroup_of(uid) as folder:
        if folder is not None:
            command = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh", *command]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            yield RealPod(process)
        finally:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def cgroup_of(uid):
    if uid is None:
        yield None
        return
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    (root, *_) = [Path(words[1]) for words in mounts if words[2] == "cgroup2"] or [None]
    if root is None:
        pytest.skip("needs cgroup v2")
    folder = root / f"brokerwire-test-{os.getpid()}-pod{uid}" / ("0123456789abcdef" * 4)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"needs a cgroup v2 that may be written: {error}")
    try:
        yield folder
    finally:
        wait_for(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()
        folder.parent.rmdir()


def wait_for(holds, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
    return found
