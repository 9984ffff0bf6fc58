"""Processes that hold sockets (no network: a socket pair will do), and readings of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from exporter.model import Endpoint, SocketReading, TcpState
from exporter.processes.owners import OwnerLadder

HOLDER = """
import os, socket, sys, threading
pair = socket.socketpair()
for name in sys.argv[2:]:
    ready = threading.Event()
    def run():
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
            file.write(name)
        ready.set()
        threading.Event().wait()
    threading.Thread(target=run, daemon=True).start()
    ready.wait()
print(os.fstat(pair[0].fileno()).st_ino, flush=True)
sys.stdin.readline()
"""
NOBODY_HOLDS = 1


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Holder:
    """A process that holds a socket; `inode` is its number."""

    def __init__(self, *threads, program=sys.executable, word="holder") -> None:
        self.process = subprocess.Popen(
            [program, "-c", HOLDER, word, *threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self.process.pid
        self.inode = int(self.process.stdout.readline())

    def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture(name="clock")
def clock_fixture():
    return Clock()


@pytest.fixture(name="start")
def start_fixture():
    started = []

    def start_holder(*threads, **options):
        started.append(Holder(*threads, **options))
        return started[-1]

    yield start_holder
    for holder in started:
        holder.end()


@pytest.fixture(name="holder")
def holder_fixture(start):
    return start()


def reading(inode, cookie=1, cgroup_id=None, uid=1234):
    return SocketReading(
        at=0.0,
        cookie=cookie,
        local=Endpoint("10.0.0.1", 40000 + cookie),
        remote=Endpoint("10.0.0.2", 9092),
        tcp_state=TcpState.ESTABLISHED,
        inode=inode,
        uid=uid,
        cgroup_id=cgroup_id,
        receive_queue=0,
        send_queue=0,
        retransmits=0,
        info=None,
    )


def ladder_with(clock, *rules, proc="/proc", own_pid=None):
    return OwnerLadder(rules, clock=clock, cpu_clock=clock, proc=str(proc), own_pid=own_pid)


def only_these(folder, *pids):
    """A /proc in which only these processes can be seen."""
    for pid in pids:
        (folder / str(pid)).symlink_to(f"/proc/{pid}")
    return folder
