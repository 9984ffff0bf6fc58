"""What a program costs, with all that it starts: user and system time, wall time, peak memory.

A JVM that outlives the Python that started it would escape `RUSAGE_CHILDREN`: as a subreaper we
inherit such orphans, so their time is counted too.
"""

from __future__ import annotations

__all__ = ["Cost", "run"]

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).parent.parent
_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.25
_ORPHAN_SECONDS = 60


class Cost(NamedTuple):
    """What one run of a program took."""

    cpu: float
    seconds: float
    peak_mib: float
    """Resident memory of all its processes together at the worst moment seen."""
    said: str
    complaints: str


def run(*command: str) -> Cost:
    """Run `python COMMAND` to its end, and wait for what it leaves behind.

    Raises:
        SystemExit: it failed.

    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    memory = _Memory()
    said, complaints = _both(process)
    status, cpu = _reap(process.pid)
    peak = memory.stop()
    if status != 0:
        raise SystemExit(f"{' '.join(command)}\n{complaints[-4000:]}")
    return Cost(cpu, time.monotonic() - begun, peak, said, complaints)


def _both(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Read both pipes to their ends; the process stays a zombie for `_reap`."""
    complaints: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    errors = process.stderr
    reader = threading.Thread(target=lambda: complaints.append(errors.read()))
    reader.start()
    said = process.stdout.read()
    reader.join()
    return said, complaints[0]


def _reap(pid: int) -> tuple[int, float]:
    """Wait for the process and for every orphan of it; add up their times."""
    status, cpu = 0, 0.0
    deadline = time.monotonic() + _ORPHAN_SECONDS
    while True:
        try:
            ended, code, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return status, cpu
        if ended == 0:
            assert time.monotonic() < deadline, "a program left a process behind"
            time.sleep(0.02)
            continue
        cpu += usage.ru_utime + usage.ru_stime
        if ended == pid:
            status = os.waitstatus_to_exitcode(code)


class _Memory:
    """Adds up the resident memory of all that we started, again and again."""

    def __init__(self) -> None:
        self._most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> float:
        """Return the most that was seen, in MiB."""
        self._ended.set()
        self._thread.join()
        return self._most / 2**20

    def _look(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            now = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    now += process.memory_info().rss
                except psutil.Error:
                    continue
            self._most = max(self._most, now)
