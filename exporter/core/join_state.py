"""What the join remembers of one source: its nodes, the sockets of its process, what it learned.

A socket and a node are each remembered as what they counted from when to when. Where two such
times overlap, both counts were true at one moment: so any socket can be held against any node
whenever there is a reason to, and nothing has to be followed before (`join_pair`).
Pure.
"""

from __future__ import annotations

__all__ = ["History", "Listener", "Row", "Socket", "SourceState", "coexist"]

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from exporter.core.join_laws import NOTHING, Counts, Law, Shape, counts_of, shape_of
from exporter.model import ClientKey, ClientKind, Endpoint, Library, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exporter.core.join_handshakes import Handshake
    from exporter.core.join_laws import Bracket
    from exporter.core.join_pair import PairHistory
    from exporter.model import ClientReading, NodeReading, SourceReading

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


def coexist(one: History[T], other: History[Counts]) -> Iterator[tuple[T, Counts, float]]:
    """Yield what both counted at one moment, the oldest first, and for how long it stayed so."""
    mine, others = list(one.entries), list(other.entries)
    i = j = 0
    while i < len(mine) and j < len(others):
        a, b = mine[i], others[j]
        since, until = max(a.since, b.since), min(a.until, b.until)
        if since <= until:
            yield a.value, b.value, until - since
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
    number: int
    """In the order of their first appearance: to sort by."""
    shape: Shape = Shape(exact_out=True, exact_in=True)
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
    looked_up: int = -1
    """What was known of its listener when its nodes were last looked up."""

    @property
    def bracket(self) -> Bracket:
        """What it counts now."""
        return self.history.entries[-1].value

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


@dataclass(slots=True)
class Listener:
    """What was learned of the brokers' listener at one port, for this process."""

    law: Law | None = None
    told: bool = False
    """Whether the clients themselves told the law."""
    rivals: tuple[Law, ...] = ()
    """Laws that what was read so far does not tell from `law`, that one included."""
    votes: Counter[Law] = field(default_factory=Counter)
    handshakes: list[Handshake] = field(default_factory=list)
    tolerance: int = 0
    """How many bytes a handshake is known to vary by."""
    is_steady: bool = False
    """Whether several sockets have shown that it does not vary at all."""
    searched: object = None
    """What the last search for a handshake was made with, when it found none."""
    refined_by: int = 0
    """How many joined sockets were heard on what varies."""
    version: int = 0
    """Grows with what is known."""


@dataclass(slots=True)
class SourceState:
    """All that is remembered of one source."""

    clients: dict[ClientKey, dict[str, Row]] = field(default_factory=dict)
    sockets: dict[int, Socket] = field(default_factory=dict)
    listeners: dict[int, Listener] = field(default_factory=dict)
    places: dict[tuple[int, int | str], set[Endpoint]] = field(default_factory=dict)
    """Where a broker, or the n-th bootstrap server, was found, by port."""
    at_place: dict[Endpoint, set[int | str]] = field(default_factory=dict)
    read_at: dict[object, deque[float]] = field(default_factory=dict)
    """The last reads, by who was read (librdkafka's clients come singly)."""
    in_round: set[object] = field(default_factory=set)
    """Who was read since the round began: a page is a round, librdkafka's clients come singly."""
    owner_votes: Counter[str] = field(default_factory=Counter)
    numbered: int = 0
    read_number: int = 0
    unsettled_reads: int = 0
    """Reads since anything that is not settled changed."""

    @property
    def rows(self) -> Iterator[Row]:
        """All nodes."""
        return (row for rows in self.clients.values() for row in rows.values())

    def take_rows(self, reading: SourceReading) -> list[Row]:
        """Bring the nodes up to this read and return them; those no longer shown are gone."""
        self._drop_restarted(reading)
        fresh, at = [], reading.ended_at
        whole = any(client.library is not Library.LIBRDKAFKA for client in reading.clients)
        shown = {}
        for client in reading.clients:
            key = _key(reading, client)
            rows = self.clients.setdefault(key, {})
            seen = shown.setdefault(key, set())
            for node in client.nodes:
                row = rows.get(node.node_id)
                if row is None:
                    self.numbered += 1
                    row = rows[node.node_id] = Row(
                        key, node.node_id, client.library, node, self.numbered
                    )
                seen.add(node.node_id)
                row.take(node, client.kind, at)
                fresh.append(row)
        for key, rows in list(self.clients.items()):
            gone = rows.keys() - shown.get(key, set() if whole else rows.keys())
            if gone:
                self.drop([rows[node_id] for node_id in gone])
        return fresh

    def _drop_restarted(self, reading: SourceReading) -> None:
        """Forget what clients counted that have since been made anew: their totals fell.

        A page without one joined socket whose totals fell is another process's: all of it is new,
        also a client that counts just what its forerunner did. librdkafka's nodes begin anew by
        themselves.
        """
        fallen = []
        for client in reading.clients:
            rows = self.clients.get(_key(reading, client), {})
            if client.library is not Library.LIBRDKAFKA and any(
                _has_fallen(rows.get(node.node_id), node) for node in client.nodes
            ):
                fallen += rows.values()
        if fallen:
            joined = any(socket.row is not None for socket in self.sockets.values())
            self.drop(fallen if joined else list(self.rows))

    def drop(self, rows: Iterable[Row]) -> None:
        """Forget nodes that their client no longer shows."""
        gone = set(rows)
        for row in gone:
            known = self.clients[row.client]
            del known[row.node_id]
            if not known:
                del self.clients[row.client]
            if row.cookie is not None:
                self.part(self.sockets[row.cookie])
        for socket in self.sockets.values() if gone else ():
            for row in gone & socket.pairs.keys():
                del socket.pairs[row]

    def begins_round(self, series: object) -> bool:
        """Note who is read; say whether a new round begins, all having been read once."""
        begins = not self.in_round or series in self.in_round
        self.in_round = {series} if begins else self.in_round | {series}
        return begins

    def part(self, socket: Socket) -> None:
        """End what a socket was taken for."""
        if socket.row is not None:
            socket.row.cookie, socket.row.is_settled = None, False
        socket.row, socket.is_settled, socket.rule = None, False, ""
        self.unsettled_reads = 0

    def forget(self, cookie: int) -> None:
        """Forget a socket."""
        socket = self.sockets.pop(cookie, None)
        if socket is not None:
            self.part(socket)

    def listener(self, port: int) -> Listener:
        """Return what is known of a port."""
        return self.listeners.setdefault(port, Listener())

    def fit_of(self, row: Row, remote: Endpoint) -> int:
        """Say whether a node is known to be at an address: 1 yes, -1 elsewhere, 0 not known.

        A bootstrap server is a place in a list, the same list for all clients of most processes.
        """
        place = row.place
        if place is None:
            return 0
        known = self.places.get((remote.port, place))
        if known:
            return 1 if remote in known else -1
        others = self.at_place.get(remote)
        if others and isinstance(place, int) and any(isinstance(other, int) for other in others):
            return -1
        return 0

    def learn_place(self, row: Row, remote: Endpoint) -> bool:
        """Note where a node was found; say whether that was new."""
        place = row.place
        if place is None:
            return False
        known = self.places.setdefault((remote.port, place), set())
        new = remote not in known
        known.add(remote)
        self.at_place.setdefault(remote, set()).add(place)
        return new


def _key(reading: SourceReading, client: ClientReading) -> ClientKey:
    return ClientKey(reading.source, client.kind, client.client_id, client.instance)


def _has_fallen(known: Row | None, node: NodeReading) -> bool:
    if known is None or known.counts is None or node.outgoing_bytes is None:
        return False
    return node.outgoing_bytes < known.counts.outgoing
