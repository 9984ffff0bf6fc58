"""Finds the owner of a socket: by process, else by cgroup, else by uid.

Nothing is looked up twice: an answer stays with the socket until the process that holds it ends.
"""

from __future__ import annotations

__all__ = ["OwnerLadder"]

import os
import time
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from exporter.kernel.psutil_table import open_socket_table
from exporter.model import Library, Owner, OwnerRung
from exporter.processes.facts import learn_process, library_of, matches
from exporter.processes.inode_search import Holder, InodeSearch
from exporter.processes.port_discovery import inodes_of, remote_ports_of
from exporter.processes.rungs import own_cgroup_id, rung_access
from exporter.processes.watch import ProcessWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from exporter.config.settings import ProcessRule
    from exporter.model import SocketReading
    from exporter.processes.facts import ProcessFacts

# When to look again for the process of a socket that nobody visible held. It may have been opened
# between dump and search; after that the process most likely is out of sight for good.
_RETRY_SECONDS = (0.0, 5.0, 30.0, 120.0)
# A process starts its client's threads before the first connection, but not all of them.
_LIBRARY_LOOKS = 3
# Processes without a socket are remembered too: a health probe comes back each second.
_MOST_IDLE_PROCESSES = 64
# What the ladder can see changes with the pod, not from poll to poll.
_ABILITIES_SECONDS = 60.0
# The root of a hierarchy, which is all that cgroup v1 gives, distinguishes nothing.
_ROOT_CGROUP = 1


@dataclass(slots=True, kw_only=True)
class _Process:
    """A process that holds, or held, sockets; `owner` None: not a client's."""

    facts: ProcessFacts
    owner: Owner | None
    looks: int = 1


@dataclass(slots=True, kw_only=True)
class _Search:
    """How often the process of a socket was looked for in vain, and when to look again."""

    tries: int
    due: float


class OwnerLadder:
    """Finds the owners of sockets; keeps what it found.

    `pids` lists the processes that come into question; without it all that can be seen do.
    """

    def __init__(
        self,
        rules: Sequence[ProcessRule],
        *,
        proc: str = "/proc",
        own_pid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        pids: Callable[[], Iterable[int]] | None = None,
    ) -> None:
        self._rules = tuple(rules)
        self._pids = pids
        self._proc = proc
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self._clock = clock
        self._search = InodeSearch(
            proc=proc, own_pid=self._own_pid, clock=clock, cpu_clock=cpu_clock, pids=pids
        )
        self._watch = ProcessWatch(proc=proc)
        self._processes: dict[int, _Process] = {}
        self._replaced: list[_Process] = []
        self._held: dict[int, _Process] = {}
        self._fallen: dict[int, Owner] = {}
        self._searches: dict[int, _Search] = {}
        self._abilities: tuple[str, ...] = ()
        self._abilities_due = float("-inf")
        self._own_cgroup_id: int | None = None
        self._latest: tuple[Sequence[SocketReading], Mapping[int, Owner]] = ((), {})

    def owners_of(self, readings: Sequence[SocketReading]) -> Mapping[int, Owner]:
        """Return cookie → owner.

        A socket that is not there is no client's: the agent's own, or that of a process which no
        rule means.
        """
        now = self._clock()
        before, owners = self._latest
        if readings is before and not self._is_due(now):
            self._doubt_ended(now)
            return owners
        unknown = self._unknown(readings, now)
        if unknown:
            self._resolve(unknown, now)
        self._doubt_ended(now)
        self._forget(readings)
        found = {}
        for reading in readings:
            process = self._held.get(reading.cookie)
            owner = self._fallen.get(reading.cookie) if process is None else process.owner
            if owner is not None:
                found[reading.cookie] = owner
        self._latest = (readings, found)
        return found

    def _doubt_ended(self, now: float) -> None:
        """Have the sockets of ended processes looked at once more at the next poll.

        Until then they keep their owner: most have ended, or are its last trace.
        """
        gone = [self._processes.pop(pid) for pid in self._watch.ended()] + self._replaced
        self._replaced = []
        if not gone:
            return
        for cookie, process in self._held.items():
            if any(process is ended for ended in gone):
                self._searches[cookie] = _Search(tries=0, due=now)

    def _is_due(self, now: float) -> bool:
        return any(search.due <= now for search in self._searches.values())

    def _unknown(self, readings: Sequence[SocketReading], now: float) -> list[SocketReading]:
        unknown = []
        for reading in readings:
            cookie = reading.cookie
            search = self._searches.get(cookie)
            if search is not None:
                if search.due <= now:
                    unknown.append(reading)
            elif cookie not in self._held and cookie not in self._fallen:
                unknown.append(reading)
        return unknown

    def _resolve(self, unknown: Sequence[SocketReading], now: float) -> None:
        inodes = {reading.inode for reading in unknown if reading.inode}
        holders, wide = self._search.find(inodes, self._processes) if inodes else ({}, True)
        for reading in unknown:
            holder = holders.get(reading.inode)
            process = None if holder is None else self._process(holder)
            if process is None:
                self._fall(reading, now, searched=wide)
            else:
                self._held[reading.cookie] = process
                self._fallen.pop(reading.cookie, None)
                self._searches.pop(reading.cookie, None)

    def _process(self, holder: Holder) -> _Process | None:
        """Return what is known of the holder; None when it ended or its pid changed hands."""
        known = self._processes.get(holder.pid)
        if known is not None and known.facts.ticks == holder.ticks:
            self._look_again(known)
            return known
        facts = learn_process(holder.pid, proc=self._proc)
        if facts is None or facts.ticks != holder.ticks:
            return None
        if known is not None:
            # It ended and another has its pid since the watch was asked.
            self._watch.remove(holder.pid)
            self._replaced.append(self._processes.pop(holder.pid))
        if not self._watch.add(facts):
            return None
        learned = _Process(facts=facts, owner=self._owner(facts))
        self._processes[holder.pid] = learned
        return learned

    def _owner(self, facts: ProcessFacts) -> Owner | None:
        if facts.pid == self._own_pid or (self._rules and not matches(facts, self._rules)):
            return None
        return Owner(
            key=facts.key,
            rung=OwnerRung.PROC_FD,
            name=facts.name,
            pid=facts.pid,
            started=facts.started,
            uid=facts.uid,
            library=library_of(facts, proc=self._proc),
        )

    def _look_again(self, process: _Process) -> None:
        owner = process.owner
        if owner is None or owner.library is not Library.UNKNOWN:
            return
        if process.looks < _LIBRARY_LOOKS:
            process.looks += 1
            process.owner = replace(owner, library=library_of(process.facts, proc=self._proc))

    def _fall(self, reading: SocketReading, now: float, *, searched: bool) -> None:
        """Take the next rung for a socket whose process is not to be seen."""
        cookie = reading.cookie
        search = self._searches.pop(cookie, None)
        if not reading.inode and cookie in self._held:
            # The process has closed it or ended; what is left in the kernel is its last trace.
            return
        self._held.pop(cookie, None)
        self._fallen.setdefault(cookie, _lower_owner(reading))
        tries = 0 if search is None else search.tries
        if not searched:
            self._searches[cookie] = _Search(tries=tries, due=now)
        elif reading.inode and tries < len(_RETRY_SECONDS):
            self._searches[cookie] = _Search(tries=tries + 1, due=now + _RETRY_SECONDS[tries])

    def _forget(self, readings: Sequence[SocketReading]) -> None:
        """Drop what belongs to sockets that are gone."""
        if len(self._held) + len(self._fallen) > len(readings):
            there = {reading.cookie for reading in readings}
            for table in (self._held, self._fallen, self._searches):
                for cookie in table.keys() - there:
                    del table[cookie]
        if len(self._processes) > _MOST_IDLE_PROCESSES:
            self._forget_processes()

    def _forget_processes(self) -> None:
        busy = {process.facts.pid for process in self._held.values()}
        idle = [pid for pid in self._processes if pid not in busy]
        # The oldest first: dicts keep their order.
        for pid in islice(idle, len(self._processes) - _MOST_IDLE_PROCESSES):
            self._watch.remove(pid)
            del self._processes[pid]

    def abilities(self) -> tuple[str, ...]:
        """Return for each lookup method whether it works here, and what would enable it."""
        now = self._clock()
        if now >= self._abilities_due:
            self._abilities_due = now + _ABILITIES_SECONDS
            if self._own_cgroup_id is None:
                self._own_cgroup_id = own_cgroup_id()
            tried = rung_access(
                proc=self._proc,
                own_pid=self._own_pid,
                cgroup_id=self._own_cgroup_id,
                pids=None if self._pids is None else self._pids(),
            )
            self._abilities = tuple(
                f"owner by {access.rung}: {'yes' if access.is_open else 'no'}, {access.reason}"
                for access in tried
            )
        return self._abilities

    def remote_ports_of_matching(self) -> frozenset[int]:
        """Return the ports that processes of `any_port` rules connected to; dear, so seldom.

        Raises:
            SourceError: the socket table cannot be read.
        """
        if not any(rule.any_port for rule in self._rules):
            return frozenset()
        return self.remote_ports_of(inodes_of(self._rules, proc=self._proc))

    def remote_ports_of(self, inodes: Collection[int]) -> frozenset[int]:
        """Return the ports to which these sockets connected; the cost is that of a whole dump.

        Raises:
            SourceError: the socket table cannot be read.
        """
        table = open_socket_table((), clock=self._clock, events=False, listening=True)
        try:
            return remote_ports_of(inodes, table)
        finally:
            table.close()

    def close(self) -> None:
        """Watch no process any longer."""
        self._watch.close()


def _lower_owner(reading: SocketReading) -> Owner:
    """Return the cgroup, else the uid, else nobody.

    A record without an inode is a socket that its process has closed: its uid is 0 by default.
    """
    if reading.cgroup_id is not None and reading.cgroup_id > _ROOT_CGROUP:
        name = f"cgroup:{reading.cgroup_id}"
        return Owner(
            key=name,
            rung=OwnerRung.CGROUP,
            name=name,
            uid=reading.uid,
            cgroup_id=reading.cgroup_id,
        )
    if reading.inode:
        name = f"uid:{reading.uid}"
        return Owner(key=name, rung=OwnerRung.UID, name=name, uid=reading.uid)
    return Owner(key=OwnerRung.NONE.value, rung=OwnerRung.NONE, name=OwnerRung.NONE.value)
