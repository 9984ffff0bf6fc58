"""Finds which of a few processes have ended, without being fooled by a pid that is reused."""

from __future__ import annotations

__all__ = ["ProcessWatch"]

import os
import select
from typing import TYPE_CHECKING

from exporter.processes.facts import start_ticks

if TYPE_CHECKING:
    from exporter.processes.facts import ProcessFacts

# A pidfd for each process costs one system call for all of them at each poll; the rest, and all
# where the kernel refuses pidfds, are looked up in /proc one by one.
_MOST_HANDLES = 32


class ProcessWatch:
    """Watches processes until they end or are removed."""

    def __init__(self, *, proc: str = "/proc", most_handles: int = _MOST_HANDLES) -> None:
        self._proc = proc
        # Another /proc than our own numbers its processes for another namespace.
        self._most_handles = most_handles if proc == "/proc" else 0
        self._poll = select.poll()
        self._pids: dict[int, int] = {}
        self._handles: dict[int, int] = {}
        self._ticks: dict[int, int] = {}

    def add(self, process: ProcessFacts) -> bool:
        """Watch a process; False when it has ended already."""
        handle = self._open(process.pid)
        # Only now it is certain that the handle is this process's and not a successor's.
        if start_ticks(process.pid, proc=self._proc) != process.ticks:
            if handle is not None:
                os.close(handle)
            return False
        if handle is None:
            self._ticks[process.pid] = process.ticks
        else:
            self._pids[handle] = process.pid
            self._handles[process.pid] = handle
            self._poll.register(handle, select.POLLIN)
        return True

    def _open(self, pid: int) -> int | None:
        if len(self._handles) >= self._most_handles:
            return None
        try:
            return os.pidfd_open(pid)
        except OSError:
            # ENOSYS before Linux 5.3, EPERM under a seccomp profile, EMFILE.
            return None

    def ended(self) -> frozenset[int]:
        """Return the pids of the processes that have ended; they are watched no longer."""
        gone = {self._pids[handle] for handle, _ in self._poll.poll(0)} if self._pids else set()
        for pid, ticks in self._ticks.items():
            if start_ticks(pid, proc=self._proc) != ticks:
                gone.add(pid)
        for pid in gone:
            self.remove(pid)
        return frozenset(gone)

    def remove(self, pid: int) -> None:
        """Watch this process no longer."""
        self._ticks.pop(pid, None)
        handle = self._handles.pop(pid, None)
        if handle is not None:
            del self._pids[handle]
            self._poll.unregister(handle)
            os.close(handle)

    def close(self) -> None:
        """Watch nothing any longer."""
        for pid in (*self._handles, *self._ticks):
            self.remove(pid)
