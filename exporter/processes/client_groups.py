"""Client groups: the sockets in one epoll instance of a JVM belong to one client.

A Java Kafka client has one Selector, on Linux one epoll instance, and registers every connection
there and nowhere else; `/proc/PID/fdinfo/FD` of the epoll descriptor lists them by inode. That
needs the rights of `/proc/PID/fd`. librdkafka uses poll() and has no epoll; in other runtimes one
epoll serves the whole process, so only JVMs are read.
"""

from __future__ import annotations

__all__ = ["ClientGroups"]

import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exporter.model import (
    ClientGroup,
    ClientKind,
    ClientThreads,
    GroupsReading,
    Library,
    OwnerRung,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from exporter.model import Owner, SocketReading

# Kafka names its threads, HotSpot copies 15 letters of that to the native thread.
_JAVA_THREADS = {
    "kafka-producer-": ClientKind.PRODUCER,
    "kafka-admin-cli": ClientKind.ADMIN,
    "kafka-coordinat": ClientKind.CONSUMER,
    "consumer_backgr": ClientKind.CONSUMER,
}
_RDKAFKA_MAIN = "rdk:main"

# A process may have any number of descriptors and threads; beyond these it is not read at all.
_MOST_DESCRIPTORS = 200_000
_MOST_THREADS = 20_000
_MOST_BYTES = 1 << 20

# A connection is registered with its epoll a moment after it was made, and a client's threads
# start after its construction: a process is read again at so many polls after a change.
_LOOKS_AFTER_CHANGE = 3

# Processes without a connection are remembered, too: one that comes back is not new.
_MOST_IDLE_PROCESSES = 64

_MEMBER = re.compile(rb"^tfd:.* ino:([0-9a-f]{1,16})\b", re.MULTILINE)
_OWN_INODE = re.compile(rb"^ino:\s*(\d{1,20})$", re.MULTILINE)

# Of the time of a core, at most this share goes into reading descriptors.
_SHARE = 0.02


@dataclass(slots=True)
class _Process:
    """One process: what its descriptors were at the last look."""

    owner: Owner
    inodes: frozenset[int] = frozenset()
    looks_left: int = _LOOKS_AFTER_CHANGE
    due: float = 0.0
    names: set[str] = field(default_factory=set)
    epolls: dict[str, frozenset[int]] = field(default_factory=dict)
    """The sockets of each epoll instance at the last look, by descriptor."""
    groups: dict[str, ClientGroup] = field(default_factory=dict)
    """By descriptor; kept when it is closed, so that numbers do not grow with each new client."""
    was_seen: bool = False
    """Whether every connection that it ever had was seen, or it was read before."""
    threads: ClientThreads | None = None
    is_denied: bool = False


class ClientGroups:
    """Reads the groups when connections open or close; for one thread."""

    def __init__(
        self,
        *,
        started: float = 0.0,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Read nothing yet. `started` is the agent's own start in seconds since the epoch."""
        self._started = started
        self._proc = proc
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._processes: dict[str, _Process] = {}
        self._has_forgotten = False
        self._of: dict[int, ClientGroup] = {}
        self._latest: tuple[object, object] = (None, None)
        self._reading = GroupsReading()

    def read(self, sockets: Sequence[SocketReading], owners: Mapping[int, Owner]) -> GroupsReading:
        """Return the groups of these sockets; the same object while nothing changed."""
        latest, self._latest = self._latest, (sockets, owners)
        is_same = latest[0] is sockets and latest[1] is owners
        if is_same and not any(each.looks_left for each in self._processes.values()):
            return self._reading
        held: dict[str, dict[int, int]] = {}
        for reading in sockets:
            owner = owners.get(reading.cookie)
            if owner is None or owner.rung is not OwnerRung.PROC_FD or not reading.inode:
                continue
            if owner.key not in held:
                held[owner.key] = {}
                self._follow(owner)
            held[owner.key][reading.inode] = reading.cookie
        now = self._clock()
        looks = [
            self._look_if_due(process, held.get(key, {}), now)
            for key, process in self._processes.items()
        ]
        if any(looks):
            self._reading = self._summary(held)
        self._forget(held)
        return self._reading

    def _follow(self, owner: Owner) -> None:
        process = self._processes.pop(owner.key, None)
        if process is None:
            is_younger = owner.started is not None and owner.started > self._started
            process = _Process(owner, was_seen=is_younger and not self._has_forgotten)
        process.owner = owner
        # To the end: those without a connection are forgotten from the front.
        self._processes[owner.key] = process

    def _forget(self, held: Mapping[str, Mapping[int, int]]) -> None:
        surplus = len(self._processes) - len(held) - _MOST_IDLE_PROCESSES
        if surplus > 0:
            idle = [key for key in self._processes if key not in held]
            for key in idle[:surplus]:
                del self._processes[key]
            self._has_forgotten = True
        there = {cookie for cookies in held.values() for cookie in cookies.values()}
        for cookie in self._of.keys() - there:
            del self._of[cookie]

    def _look_if_due(self, process: _Process, sockets: Mapping[int, int], now: float) -> bool:
        """Read a process if its sockets changed, or soon after that; say whether it was read."""
        inodes = frozenset(sockets)
        if inodes != process.inodes:
            process.inodes = inodes
            process.looks_left = _LOOKS_AFTER_CHANGE
        if not process.looks_left or now < process.due:
            return False
        process.looks_left -= 1
        begun = self._cpu_clock()
        self._look(process, sockets)
        process.due = now + (self._cpu_clock() - begun) / _SHARE
        return True

    def _look(self, process: _Process, sockets: Mapping[int, int]) -> None:
        owner = process.owner
        folder = f"{self._proc}/{owner.pid}"
        process.threads = _threads_of(folder)
        if owner.library is not Library.JAVA:
            return
        known = {inode for members in process.epolls.values() for inode in members}
        epolls = self._epolls(process, folder, everywhere=not sockets.keys() <= known)
        process.is_denied = epolls is None
        if epolls is None:
            return
        before, process.epolls = process.epolls, epolls
        counted = Counter(inode for members in epolls.values() for inode in members)
        for name, members in sorted(epolls.items(), key=lambda each: int(each[0])):
            # A socket in two epoll instances is no Kafka client's.
            mine = [inode for inode in members & sockets.keys() if counted[inode] == 1]
            if not mine:
                continue
            group = self._group(process, name, before.get(name), members)
            for inode in mine:
                self._of.setdefault(sockets[inode], group)
        process.was_seen = True

    def _group(
        self, process: _Process, name: str, before: frozenset[int] | None, members: frozenset[int]
    ) -> ClientGroup:
        """Return the group of an epoll, numbered at its first connection to a broker.

        A client that is closed gives its descriptor back: with none of its earlier members left it
        may be another client's, or the same one's that has lost all connections.
        """
        known = process.groups.get(name)
        if known is None:
            number = len(process.groups) + 1
            key = f"{process.owner.key}#{number}"
            known = ClientGroup(key=key, number=number, is_whole=process.was_seen)
        elif not before:
            known = replace(known, is_whole=before is None)
        elif not members & before:
            known = replace(known, is_whole=False)
        process.groups[name] = known
        return known

    def _epolls(
        self, process: _Process, folder: str, *, everywhere: bool
    ) -> dict[str, frozenset[int]] | None:
        """Return the members of each epoll instance by descriptor; None: may not look, or gone.

        Without `everywhere` only descriptors that are new are looked at, besides the known epolls.
        """
        try:
            names = os.listdir(f"{folder}/fd")  # noqa: PTH208 - a hot path
        except OSError:
            return None
        if len(names) > _MOST_DESCRIPTORS:
            return None
        before, process.names = process.names, set(names)
        found = {}
        for name in names:
            if not everywhere and name in before and name not in process.epolls:
                continue
            path = f"{folder}/fd/{name}"
            try:
                if os.readlink(path) != "anon_inode:[eventpoll]":  # noqa: PTH115 - a hot path
                    continue
                members = _members(f"{folder}/fdinfo/{name}")
            except OSError:
                # Closed since it was listed.
                continue
            if members is not None:
                found[name] = members
        return found

    def _summary(self, held: Mapping[str, Mapping[int, int]]) -> GroupsReading:
        unlisted: set[int] = set()
        threads = {}
        for key, process in self._processes.items():
            inodes = held.get(key, {}).keys()
            for members in process.epolls.values():
                if members & inodes:
                    unlisted |= members - inodes
            if process.threads is not None:
                threads[key] = process.threads
        java = {key: each for key, each in self._processes.items()
                if key in held and each.owner.library is Library.JAVA}  # fmt: skip
        return GroupsReading(
            of=dict(self._of),
            threads=threads,
            unlisted=frozenset(unlisted),
            readable=frozenset(key for key, each in java.items() if not each.is_denied),
            unreadable=frozenset(key for key, each in java.items() if each.is_denied),
        )


def _members(path: str) -> frozenset[int] | None:
    """Return the inodes of what is registered with an epoll; None where there is too much of it.

    A line is `tfd: 23 events: 19 data: 7f0b00000017  pos:0 ino:3829be sdev:9`, `ino` hexadecimal.
    The epoll's own `ino`, decimal and before these (Linux 5.14), is that of all anonymous files:
    the Selector's eventfd has it in every client.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - a hot path
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        return None
    found = {int(inode, 16) for inode in _MEMBER.findall(text)}
    own = _OWN_INODE.search(text)
    return frozenset(found if own is None else found - {int(own[1])})


def _threads_of(folder: str) -> ClientThreads | None:
    """Count a process's clients by the names of their threads; None where they are not to be seen.

    Names are the process's own to choose: they are counted, never shown.
    """
    try:
        threads = os.listdir(f"{folder}/task")  # noqa: PTH208 - a hot path
    except OSError:
        return None
    if len(threads) > _MOST_THREADS:
        return None
    return _counted(_thread_name(f"{folder}/task/{thread}/comm") for thread in threads)


def _counted(names: Iterable[str]) -> ClientThreads:
    kinds: Counter[ClientKind] = Counter()
    librdkafka = 0
    for name in names:
        kind = _JAVA_THREADS.get(name)
        if kind is not None:
            kinds[kind] += 1
        elif name == _RDKAFKA_MAIN:
            librdkafka += 1
    return ClientThreads(
        producers=kinds[ClientKind.PRODUCER],
        consumers=kinds[ClientKind.CONSUMER],
        admins=kinds[ClientKind.ADMIN],
        librdkafka=librdkafka,
    )


def _thread_name(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a hot path
            return file.read().rstrip("\n")
    except OSError:
        # The thread ended.
        return ""
