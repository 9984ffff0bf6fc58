"""What goes wrong in the end-to-end run, by real means: signals, limits and a client that leaks."""

from __future__ import annotations

__all__ = ["LeakyClient", "limit_open_files", "probing", "stopped_poll"]

import ctypes
import os
import re
import resource
import socket
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

from tests.e2e.monitoring import REPOSITORY, get
from tests.lab.processes import ManagedProcess, wait_until
from tests.lab.repeating import repeating

if TYPE_CHECKING:
    from collections.abc import Iterator

# Two polls and more.
BLIND_SECONDS = 2.5
# linux/ptrace.h
_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
# linux/wait.h: children that are threads, too.
_WALL = 0x40000000


@contextmanager
def probing(address: str, *, interval: float = 1.0) -> Iterator[None]:
    """Connect and hang up each second, as a TCP health check does."""
    host, _, port = address.rpartition(":")

    def probe() -> None:
        socket.create_connection((host, int(port)), timeout=5).close()

    with repeating(probe, interval=interval):
        yield


class LeakyClient:
    """A process with one connection, which it writes to after its end and then does not close."""

    # What the process calls itself.
    NAME = "leaky"

    def __init__(self, folder: Path, address: str, topic: str) -> None:
        # The agent knows the processes of the scene by its folder in their command lines.
        command = [sys.executable, "-m", "tests.e2e.leaky", str(folder), address, topic]
        self._process = ManagedProcess(
            self.NAME,
            command,
            folder / "leaky.log",
            environment={"PYTHONPATH": str(REPOSITORY)},
            answers=True,
        )
        self._said("connected")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def meet_the_reset(self) -> None:
        """Write to the connection, which its broker has ended, until the error comes."""
        self._process.stdin.write(b"write\n")
        self._process.stdin.flush()
        self._said("reset")

    def _said(self, word: str) -> None:
        line = self._process.stdout.readline().decode().strip()
        if line != word:
            raise self._process.failure(f"it said {line!r} and not {word!r}")


def limit_open_files(pid: int, share: float) -> None:
    """Give a process the limit of open files (`ulimit -n`) of which it now uses this share."""
    limit = int(psutil.Process(pid).num_fds() / share)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))


@contextmanager
def stopped_poll(pid: int, address: str) -> Iterator[float]:
    """Stop the thread of an agent that polls, as if a read of the kernel's hung; the others go on.

    Gives the time at which it stopped. The threads have no names: those that run most are tried
    first, and the right one is known by its effect, that the agent answers and does not poll.
    """
    for thread in _busiest_first(pid):
        _trace(_SEIZE, thread)
        try:
            _trace(_INTERRUPT, thread)
            os.waitpid(thread, _WALL)
            stopped_at = time.time()
            if _is_blind(address):
                yield stopped_at
                return
        finally:
            _trace(_DETACH, thread)
        # One that was stopped with a lock in its hand stopped all others.
        wait_until("the agent to serve again", lambda: _polls(address) is not None)
    raise AssertionError("no thread of the agent's is the one that polls")


def _busiest_first(pid: int) -> list[int]:
    """Return the threads of a process, the one that ran most in the last second first."""
    before = _run_times(pid)
    time.sleep(1.0)
    after = _run_times(pid)
    return sorted(after, key=lambda thread: before.get(thread, 0) - after[thread])


def _run_times(pid: int) -> dict[int, int]:
    """Return how long each thread has run, in nanoseconds."""
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # It has ended meanwhile.
            times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return times


def _is_blind(address: str) -> bool:
    """Whether it answers all the time in which two polls and more were due, and polls no more."""
    first = _polls(address)
    until = time.monotonic() + BLIND_SECONDS
    while time.monotonic() < until:
        if first is None or _polls(address) != first:
            return False
        time.sleep(0.2)
    return True


def _polls(address: str) -> float | None:
    with suppress(OSError):
        text = get(f"http://{address}/metrics", timeout=3.0).decode()
        found = re.search(r"^brokerwire_polls_total (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else None
    return None


def _trace(request: int, thread: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace({request:#x}): {os.strerror(error)}")
