"""Finds the process that holds a socket, most likely candidates first."""

from __future__ import annotations

__all__ = ["Holder", "InodeSearch"]

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from exporter.processes.facts import all_pids, start_ticks
from exporter.processes.socket_finder import SocketFinder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Whoever may not look into a process will not be allowed to a second later.
_DENIED_SECONDS = 30.0
# A look at all processes of a node may take long; it may take this share of the time.
_WIDE_SHARE = 0.05
# An owner that is not known for longer than this is missed by people.
_LONGEST_REST_SECONDS = 5.0


class Holder(NamedTuple):
    """A process that held a socket while it had this start time."""

    pid: int
    ticks: int


class InodeSearch:
    """Scans the descriptors of processes; remembers who may not be looked at.

    `pids` lists the processes that come into question; without it all of `proc` do.
    """

    def __init__(
        self,
        *,
        proc: str,
        own_pid: int,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        pids: Callable[[], Iterable[int]] | None = None,
    ) -> None:
        self._proc = proc
        self._list_pids = pids or (lambda: all_pids(proc))
        self._own_pid = own_pid
        self._clock = clock
        # The scan's own work: what others do to a busy host must not keep owners unknown.
        self._cpu_clock = cpu_clock
        self._sizes: dict[int, int] = {}
        self._denied: dict[int, float] = {}
        self._next_wide = float("-inf")
        self._finders: dict[int, tuple[int, SocketFinder]] = {}

    def find(self, inodes: Iterable[int], likely: Iterable[int]) -> tuple[dict[int, Holder], bool]:
        """Return the holder of each inode for which one can be seen; `likely` pids come first.

        The second value is False where it was too early to look everywhere again.
        """
        wanted = set(inodes)
        found: dict[int, Holder] = {}
        first = dict.fromkeys((*likely, self._own_pid))
        self._scan(first, wanted, found, everywhere=False)
        if not wanted or self._clock() < self._next_wide:
            return found, not wanted
        begun = self._cpu_clock()
        self._scan(first, wanted, found, everywhere=True)
        self._scan(self._others(first), wanted, found, everywhere=True)
        cost = self._cpu_clock() - begun
        self._next_wide = self._clock() + min(cost / _WIDE_SHARE, _LONGEST_REST_SECONDS)
        kept = first.keys() | {holder.pid for holder in found.values()}
        self._finders = {pid: self._finders[pid] for pid in self._finders.keys() & kept}
        return found, True

    def _scan(
        self, pids: Iterable[int], wanted: set[int], found: dict[int, Holder], *, everywhere: bool
    ) -> None:
        now = self._clock()
        for pid in pids:
            if not wanted:
                return
            if self._denied.get(pid, now) > now:
                continue
            # The start time is read first: whoever has it afterwards is the one who was scanned.
            ticks = start_ticks(pid, proc=self._proc)
            if ticks is None:
                continue
            here = self._finder(pid, ticks).look(wanted, everywhere=everywhere)
            if here is None:
                self._denied[pid] = now + _DENIED_SECONDS
                continue
            found.update(dict.fromkeys(here, Holder(pid, ticks)))
            wanted -= here

    def _finder(self, pid: int, ticks: int) -> SocketFinder:
        known = self._finders.get(pid)
        if known is not None and known[0] == ticks:
            return known[1]
        finder = SocketFinder(pid, proc=self._proc)
        self._finders[pid] = (ticks, finder)
        return finder

    def _others(self, first: Iterable[int]) -> list[int]:
        others = set(self._list_pids()).difference(first)
        sizes = {pid: self._size(pid) for pid in others}
        before, self._sizes = self._sizes, sizes
        self._denied = {pid: until for pid, until in self._denied.items() if pid in others}
        # An equal number of descriptors says that a process probably opened nothing, but it may
        # have closed one and opened another: those come last, not never.
        return sorted(others, key=lambda pid: sizes[pid] == before.get(pid, -1))

    def _size(self, pid: int) -> int:
        """Return the number of descriptors; a kernel before 6.2 always says 0."""
        try:
            return os.stat(f"{self._proc}/{pid}/fd").st_size  # noqa: PTH116 - a hot path
        except OSError:
            return 0
