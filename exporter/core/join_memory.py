"""What is remembered of one socket and of one node: what each counted, from when to when.

Where two such times overlap, both counts were true at one moment: so any socket can be held
against any node whenever there is a reason to, and nothing has to be followed before.
Pure.
"""

from __future__ import annotations

__all__ = ["History", "Row", "Socket", "pair_of"]

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from exporter.core.join_laws import NOTHING, Counts, Law, Shape, counts_of, shape_of
from exporter.core.join_pair import PairHistory
from exporter.model import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.core.join_laws import Bracket
    from exporter.model import ClientKey, ClientKind, Endpoint, Library, NodeReading

T = TypeVar("T")

# Different counts that are remembered: of a node enough to know what it had counted before a socket
# was opened, of a socket enough to find the last reads of a librdkafka client among many.
REMEMBERED_COUNTS = 64
REMEMBERED_BRACKETS = 32

# A socket is dated by the poll that first met it: it may have been opened so much earlier.
OPENED_SLACK = 2.0

# An admin client without a configured client.id names itself, and logs in without that name.
_UNNAMED_ADMIN = re.compile(r"adminclient-\d+")


@dataclass(slots=True)
class _Entry(Generic[T]):
    since: float
    until: float
    value: T


class History(Generic[T]):
    """What something counted, from when to when it was seen to count just that."""

    __slots__ = ("entries",)

    def __init__(self, most: int) -> None:
        self.entries: deque[_Entry[T]] = deque(maxlen=most)

    def note(self, at: float, value: T) -> bool:
        """Take one look; say whether anything changed."""
        if self.entries and self.entries[-1].value == value:
            self.entries[-1].until = at
            return False
        self.entries.append(_Entry(at, at, value))
        return True

    def at(self, moment: float) -> T | None:
        """Return what was counted at a moment, where that is known."""
        for entry in reversed(self.entries):
            if entry.since <= moment <= entry.until:
                return entry.value
            if entry.until < moment:
                return None
        return None


def _coexist(one: History[T], other: History[Counts]) -> Iterator[tuple[T, Counts]]:
    """Yield what both counted at one moment, the oldest first."""
    mine, others = list(one.entries), list(other.entries)
    i = j = 0
    while i < len(mine) and j < len(others):
        a, b = mine[i], others[j]
        since, until = max(a.since, b.since), min(a.until, b.until)
        if since <= until:
            yield a.value, b.value
        if a.until <= b.until:
            i += 1
        else:
            j += 1


@dataclass(slots=True, eq=False)
class Row:
    """One node of one client, what it counted, and the socket that was found to be it."""

    client: ClientKey
    node_id: str
    library: Library
    node: NodeReading
    shape: Shape
    number: int
    """In the order of their first appearance: to sort by."""
    counts: Counts | None = None
    history: History[Counts] = field(default_factory=lambda: History(REMEMBERED_COUNTS))
    cookie: int | None = None
    is_settled: bool = False
    """Whether its socket is certain, and not only one of several that it could be."""
    moved: bool = True
    seen_at: float = 0.0
    reads: int = 0

    @property
    def place(self) -> int | str | None:
        """By what its address is known: its broker, or its number among the bootstrap servers."""
        if self.node.broker_id is not None:
            return self.node.broker_id
        return self.node_id if self.node.role is Role.BOOTSTRAP else None

    @property
    def login_length(self) -> int:
        """The length of the client.id that a Java client logs in with."""
        name = self.client.client_id
        return 0 if _UNNAMED_ADMIN.fullmatch(name) else len(name)

    def take(self, node: NodeReading, kind: ClientKind, at: float) -> None:
        """Take what the client says of it now."""
        before, self.counts, self.node, self.seen_at = self.counts, counts_of(node), node, at
        self.moved = self.counts != before
        if self.counts is None:
            return
        self.reads += 1
        if self.moved:
            self.shape = shape_of(node, kind)
            if before is not None and self.counts.outgoing < before.outgoing:
                # librdkafka makes a broker anew with totals from 0.
                self.history.entries.clear()
        self.history.note(at, self.counts)

    def bases(self, opened_at: float) -> tuple[Counts, ...]:
        """Return what it may have counted before a socket was opened at about `opened_at`."""
        found: list[Counts] = []
        for entry in reversed(self.history.entries):
            if entry.since <= opened_at and entry.value not in found:
                found.append(entry.value)
            if entry.since <= opened_at - OPENED_SLACK:
                return tuple(found)
        return (*found, NOTHING)


@dataclass(slots=True, eq=False)
class Socket:
    """One socket of the process, what it counted, and the nodes that it may be."""

    cookie: int
    remote: Endpoint
    opened_at: float
    history: History[Bracket] = field(default_factory=lambda: History(REMEMBERED_BRACKETS))
    pairs: dict[Row, PairHistory] = field(default_factory=dict)
    row: Row | None = None
    rule: str = ""
    is_settled: bool = False
    moved: bool = True
    reads: int = 0
    """Rounds of reads at which it was not settled."""
    left_over: int = 0
    """Rounds of reads in a row that found no node for it."""
    looked_up: int = -1
    """What was known of its listener when its nodes were last looked up."""

    @property
    def bracket(self) -> Bracket:
        """What it counts now."""
        return self.history.entries[-1].value

    @property
    def is_resting(self) -> bool:
        """Whether it was seen to count just this at more reads than one."""
        last = self.history.entries[-1]
        return last.value.is_quiet and last.until > last.since

    def rests_with(self, row: Row) -> bool:
        """Whether both were seen to count just this at more reads than one."""
        if not self.bracket.is_quiet or not row.history.entries:
            return False
        mine, other = self.history.entries[-1], row.history.entries[-1]
        return min(mine.until, other.until) > max(mine.since, other.since)

    def is_belied_by(self, row: Row) -> bool:
        """Whether one of both stood still where the other counted on."""
        mine, other = self.history.entries, row.history.entries
        return (
            len(mine) > 1 and mine[-2].value.is_quiet and mine[-2].until >= other[-1].since
        ) or (len(other) > 1 and other[-2].until >= mine[-1].since)


def pair_of(socket: Socket, row: Row, law: Law) -> PairHistory:
    """Hold a socket against a node at all moments at which both are known."""
    pair = PairHistory(law, row.shape, row.bases(socket.opened_at))
    for bracket, counts in _coexist(socket.history, row.history):
        if not pair.observe(bracket, counts):
            break
    return pair
