"""Follows connections across polls: opened, active, closed, vanished.

A connection is known by its kernel cookie: ports and inodes are used again, cookies are not.
Pure: it gets readings and hands out what changed. What only /proc shows (is the descriptor of
a vanished socket still open?) it asks back through `Changes.vanished`.
"""

from __future__ import annotations

__all__ = ["Activity", "Changes", "ClosedConnection", "TrackedConnection", "Tracker"]

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from exporter.connections.activity import Activity
from exporter.connections.endings import (
    ClosedConnection,
    closed_unseen,
    closed_watched,
    judge_together,
)
from exporter.connections.tracked import KeepaliveTimer, TrackedConnection, first_seen, seen_again
from exporter.model import ClosedBy, TcpState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from exporter.model import ClientGroup, Endpoint, KernelReading, Owner, SocketReading

# A descriptor without a socket at this many polls is a ghost; a normal close passes through the
# same condition for an instant (DESIGN section 3).
GHOST_POLLS = 2

# A socket whose end was counted lingers in the kernel for a minute (FIN_WAIT2), while it sends its
# last bytes again for some fifteen; after that no destroy event of it comes any more.
LINGER_SECONDS = 1200.0

# Processes that are remembered once they hold nothing more, to know which connection is a first.
MOST_OWNERS = 10_000

# The client's side has closed and the application's descriptor is gone: the kernel finishes alone.
_FINISHING = frozenset(
    {
        TcpState.FIN_WAIT1,
        TcpState.FIN_WAIT2,
        TcpState.CLOSING,
        TcpState.LAST_ACK,
        TcpState.TIME_WAIT,
    }
)


@dataclass(slots=True)
class Changes:
    """What one poll changed. `vanished` waits for `Tracker.settle_vanished`.

    `excluded` are connections that turned out to be no client's; they did not end.
    `retransmitted` has how many segments were sent again.
    """

    opened: list[TrackedConnection] = field(default_factory=list)
    closed: list[ClosedConnection] = field(default_factory=list)
    active: list[TrackedConnection] = field(default_factory=list)
    vanished: list[TrackedConnection] = field(default_factory=list)
    nothing_happened: bool = False
    """Whether this poll saw just what the last one saw."""
    excluded: list[TrackedConnection] = field(default_factory=list)
    retransmitted: list[tuple[TrackedConnection, int]] = field(default_factory=list)


class Tracker:
    """All connections, carried from poll to poll.

    `started` is the agent's own start in seconds since the epoch: nobody knows which connections a
    process had before. Beyond `most` connections new ones are not followed, but counted in
    `beyond_limit`: what a hostile neighbour opens must not eat the agent's memory.
    """

    def __init__(self, started: float = 0.0, most: int = 10_000) -> None:
        self._started = started
        self._most = most
        self.beyond_limit = 0
        self._connections: dict[int, TrackedConnection] = {}
        self._owners_seen: dict[str, None] = {}
        self._polled_at: float | None = None
        self._first_at = float("inf")
        # What the last poll was given: readers hand out the same objects while nothing happens.
        self._sockets: tuple[SocketReading, ...] = ()
        self._owners: Mapping[int, Owner] = {}
        self._groups: Mapping[int, ClientGroup] = {}
        self._unseen: AbstractSet[int] = frozenset()
        # Whose destroy event is not to be counted (again): not a client's, or closed at a poll.
        self._counted: dict[int, float] = {}

    @property
    def connections(self) -> Mapping[int, TrackedConnection]:
        """The connections that are open now, ghosts included, by cookie."""
        return self._connections

    def update(
        self,
        kernel: KernelReading,
        owners: Mapping[int, Owner],
        groups: Mapping[int, ClientGroup] | None = None,
    ) -> Changes:
        """Take one whole reading of the socket table.

        `owners` holds the owner of every socket; one that is not in there is no client's.
        `groups` holds the client group of each socket that has one.
        """
        changes = Changes()
        self._first_at = min(self._first_at, kernel.at)
        seen: set[int] = set()
        known = self._connections
        groups = self._groups if groups is None else groups
        if (
            kernel.sockets is self._sockets
            and owners is self._owners
            and groups is self._groups
            and not kernel.closed
        ):
            changes.nothing_happened = True
            changes.vanished += [known[cookie] for cookie in self._unseen if cookie in known]
            self._polled_at = kernel.at
            return changes
        self._sockets, self._owners, self._groups = kernel.sockets, owners, groups
        beyond = 0
        for reading in kernel.sockets:
            cookie = reading.cookie
            seen.add(cookie)
            owner = owners.get(cookie)
            tracked = known.get(cookie)
            if owner is None:
                self._exclude(cookie, kernel.at, changes)
            elif tracked is None:
                if len(known) >= self._most:
                    beyond += 1
                elif reading.tcp_state not in _FINISHING:
                    self._open(reading, owner, kernel, changes)
            elif tracked.reading is not reading or tracked.owner is not owner:
                tracked.owner = owner
                self._advance(tracked, reading, changes)
        for cookie in groups.keys() & known.keys():
            known[cookie].group = groups[cookie]
        self.beyond_limit = beyond
        _keep_lone_firsts(changes.opened)
        self._take_events(kernel, changes)
        if any(ended.closed_by is ClosedBy.UNKNOWN for ended in changes.closed):
            changes.closed = judge_together(
                changes.closed, known.values(), self._half_closed_lately(kernel.at)
            )
        self._unseen = known.keys() - seen
        changes.vanished += [known[cookie] for cookie in self._unseen]
        self._remember_owners(changes.opened)
        self._forget_lingering(kernel.at)
        self._polled_at = kernel.at
        return changes

    def settle_vanished(
        self, held: Mapping[int, bool | None], now: float, *, events_complete: bool
    ) -> list[ClosedConnection]:
        """Say of vanished sockets whether their descriptor is still open (None: cannot look).

        Open at two polls makes a ghost. Where nobody may look, a socket that left without a destroy
        event still has its descriptor, provided that no event was lost.
        """
        closed = []
        for cookie, is_held in held.items():
            tracked = self._connections.get(cookie)
            if tracked is None:
                continue
            if is_held or (is_held is None and events_complete):
                tracked.vanished_polls += 1
                tracked.descriptor_seen = bool(is_held)
                if tracked.vanished_polls >= GHOST_POLLS and not tracked.ghost:
                    tracked.ghost = True
                    tracked.ghost_since = now
                continue
            del self._connections[cookie]
            self._counted[cookie] = now
            closed.append(closed_watched(tracked, now, None))
        return closed

    def _exclude(self, cookie: int, at: float, changes: Changes) -> None:
        """Leave out what is no client's, also where that was found out late."""
        self._counted.pop(cookie, None)  # to the end: `_forget_lingering` begins in front
        self._counted[cookie] = at
        tracked = self._connections.pop(cookie, None)
        if tracked is not None:
            changes.excluded.append(tracked)

    def _open(
        self, reading: SocketReading, owner: Owner, kernel: KernelReading, changes: Changes
    ) -> None:
        tracked = first_seen(
            reading,
            owner,
            kernel.at,
            self._polled_at,
            timer=KeepaliveTimer(kernel.keepalive_ms, self._age_of(owner, kernel.at)),
            # Its siblings of this same poll are looked at afterwards (_keep_lone_firsts).
            is_first=self._is_new(owner),
        )
        self._connections[reading.cookie] = tracked
        changes.opened.append(tracked)

    def _age_of(self, owner: Owner, at: float) -> float | None:
        """Return how old a process is, as far as the agent's own start is known."""
        if not self._started or owner.started is None:
            return None
        return self._started + (at - self._first_at) - owner.started

    def _is_new(self, owner: Owner) -> bool:
        """Whether every connection that a process ever had was seen here."""
        if owner.key in self._owners_seen:
            return False
        return not self._started or (owner.started is not None and owner.started > self._started)

    def _advance(
        self, tracked: TrackedConnection, reading: SocketReading, changes: Changes
    ) -> None:
        progress = seen_again(tracked, reading)
        if progress.moved:
            changes.active.append(tracked)
        if progress.retransmits > 0:
            changes.retransmitted.append((tracked, progress.retransmits))
        if reading.tcp_state in _FINISHING and reading.inode == 0:
            # The application has let go of it, whatever TCP still has to do.
            del self._connections[reading.cookie]
            changes.closed.append(closed_watched(tracked, reading.at, None))
            self._counted[reading.cookie] = reading.at

    def _take_events(self, kernel: KernelReading, changes: Changes) -> None:
        reachable: frozenset[str] | None = None
        for event in kernel.closed:
            tracked = self._connections.pop(event.cookie, None)
            if tracked is not None:
                changes.closed.append(closed_watched(tracked, event.at, event))
            elif self._counted.pop(event.cookie, None) is None:
                if reachable is None:
                    reachable = self._reachable()
                is_reachable = event.remote.port == 0 and event.remote.address in reachable
                changes.closed.append(
                    closed_unseen(event, self._polled_at, is_reachable=is_reachable)
                )

    def _half_closed_lately(self, at: float) -> frozenset[Endpoint]:
        """Return the brokers whose FIN is new at this poll or was at the last one."""
        since = at if self._polled_at is None else self._polled_at
        return frozenset(
            tracked.reading.remote
            for tracked in self._connections.values()
            if tracked.reading.tcp_state is TcpState.CLOSE_WAIT and tracked.state_since >= since
        )

    def _reachable(self) -> frozenset[str]:
        """Return the addresses that connections are established to."""
        return frozenset(
            tracked.reading.remote.address
            for tracked in self._connections.values()
            if tracked.reading.tcp_state is TcpState.ESTABLISHED
        )

    def _forget_lingering(self, at: float) -> None:
        """Forget cookies that no poll has seen for long: the oldest are in front."""
        while self._counted:
            cookie, seen_at = next(iter(self._counted.items()))
            if at - seen_at < LINGER_SECONDS:
                return
            del self._counted[cookie]

    def _remember_owners(self, opened: list[TrackedConnection]) -> None:
        for tracked in opened:
            self._owners_seen[tracked.owner.key] = None
        surplus = len(self._owners_seen) - MOST_OWNERS
        if surplus > 0:
            busy = {tracked.owner.key for tracked in self._connections.values()}
            old = [key for key in self._owners_seen if key not in busy]
            for key in islice(old, surplus):
                del self._owners_seen[key]


def _keep_lone_firsts(opened: list[TrackedConnection]) -> None:
    """Of several that an owner opened between two polls, none is known to be the first."""
    owners = Counter(tracked.owner.key for tracked in opened)
    for tracked in opened:
        if owners[tracked.owner.key] > 1:
            tracked.first_for_owner = False
