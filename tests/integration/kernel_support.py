"""Real sockets in a network namespace of the test's own, and the agent's view as another user."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import resource
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

CLONE_NEWNET = 0x40000000
SO_COOKIE = 57
NOBODY, SOMEBODY = 65534, 65533
ROOT = Path(__file__).parents[2]
libc = ctypes.CDLL(None, use_errno=True)
numbers = itertools.count()

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace")


@pytest.fixture(name="own_network")
def own_network_fixture():
    """Run the test in a network namespace with nothing but loopback."""
    with Path("/proc/self/ns/net").open("rb") as before:
        if libc.unshare(CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


@pytest.fixture(name="many_files")
def many_files_fixture():
    """Let this process open more files than the usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(address, port, *, mapped=False):
    """Connect as a C client does, or as Java does: AF_INET6 with a mapped address."""
    if not mapped:
        return socket.create_connection((address, port))
    client = socket.socket(socket.AF_INET6)
    try:
        client.connect((f"::ffff:{address}", port))
    except OSError:
        client.close()
        raise
    return client


def cookie_of(each):
    return struct.unpack("=Q", each.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]


def reset_on_close(each):
    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def as_user(uid, code, *arguments):
    """Run Python code under this uid with no capability at all; return what it prints as JSON."""
    command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    command += ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    command += [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextlib.contextmanager
def cgroup():
    """A cgroup of its own, as a container has one; its id is its inode."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    if not roots:
        pytest.skip("needs cgroup v2")
    folder = roots[0] / f"brokerwire-test-{os.getpid()}-{next(numbers)}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"needs a cgroup v2 that may be written: {error}")
    try:
        yield folder
    finally:
        folder.rmdir()


HOLDER = """
import socket, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = [socket.create_connection((address, port)) for _ in range(count)]
never_connected, listening = socket.socket(), socket.create_server((address, 0))
print("ready", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def client_process(port, count=1, *, uid=0, address="127.0.0.1", folder=None):
    """A process of this user that holds connections, an unconnected socket and a listener.

    `folder` is the cgroup that it starts in.
    """
    command = [sys.executable, "-c", HOLDER, address, str(port), str(count)]
    if uid:
        command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]
    if folder is not None:
        command = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh", *command]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()
