"""What the join remembers of one source: its nodes, its free sockets, and what ties them.

Pure.
"""

from __future__ import annotations

__all__ = ["Look", "PortState", "Row", "RowState", "SourceState", "login_length", "take_rows"]

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.join_laws import NOTHING, Counts, Law, Shape, counts_of, shape_of
from exporter.model import ClientKey, Endpoint, Library, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.core.join_handshakes import Handshake
    from exporter.core.join_laws import Bracket
    from exporter.core.join_pair import PairHistory
    from exporter.model import NodeReading, SourceReading

# Changes of a node's totals that are remembered, to know what it had before a socket was opened.
REMEMBERED_COUNTS = 64

# A socket is dated by the poll that first met it: it may have been opened so much earlier.
OPENED_SLACK = 2.0

# An admin client without a configured client.id names itself, and logs in without that name.
_UNNAMED_ADMIN = re.compile(r"adminclient-\d+")


class Row(NamedTuple):
    """One node of one client."""

    client: ClientKey
    node_id: str


class Look(NamedTuple):
    """One free socket at one read."""

    cookie: int
    bracket: Bracket
    remote: Endpoint
    opened_at: float


class _Entry(NamedTuple):
    since: float
    until: float
    counts: Counts


@dataclass(slots=True)
class RowState:
    """What a node counted, and the socket that was found to be it."""

    node: NodeReading
    library: Library
    counts: Counts | None
    shape: Shape
    history: deque[_Entry] = field(default_factory=lambda: deque(maxlen=REMEMBERED_COUNTS))
    cookie: int | None = None
    rule: str = ""
    equals: tuple[Row, ...] = ()
    """Nodes that could have had the socket as well: it was given in a mere order."""
    is_soft: bool = False
    """Whether the socket was given to it where there was a choice."""
    counts_at_match: Counts = NOTHING
    seen_at: float = 0.0
    reads: int = 0

    def take(self, cookie: int, rule: str, equals: tuple[Row, ...], *, is_soft: bool) -> None:
        """Note the socket that this node was found to have."""
        self.cookie, self.rule, self.equals, self.is_soft = cookie, rule, equals, is_soft
        self.mark()

    def free(self) -> None:
        """Note that the node has no socket that is known."""
        self.cookie, self.rule, self.equals, self.is_soft = None, "", (), False

    def mark(self) -> None:
        """Count anew from here on."""
        self.counts_at_match = self.counts or NOTHING

    def counted_since_match(self) -> tuple[int, ...]:
        """Return what was counted since the node got its socket, or was named as an equal."""
        if self.counts is None:
            return ()
        return tuple(
            now - then for now, then in zip(self.counts, self.counts_at_match, strict=True)
        )

    def remember(self, at: float) -> None:
        """Take the present totals into the history."""
        if self.counts is None:
            return
        if self.history and self.history[-1].counts == self.counts:
            self.history[-1] = self.history[-1]._replace(until=at)
        else:
            self.history.append(_Entry(at, at, self.counts))

    def counts_at(self, at: float) -> Counts | None:
        """Return the totals at the read that ended at `at`."""
        for since, until, counts in reversed(self.history):
            if since <= at <= until:
                return counts
            if until < at:
                return None
        return None

    def bases(self, opened_at: float) -> tuple[Counts, ...]:
        """Return what the node may have counted before a socket was opened at about `opened_at`."""
        earlier = opened_at - OPENED_SLACK
        found: list[Counts] = []
        for since, _until, counts in reversed(self.history):
            if since <= opened_at and counts not in found:
                found.append(counts)
            if since <= earlier:
                return tuple(found)
        return (*found, NOTHING)


@dataclass(slots=True)
class PortState:
    """What was learned of the brokers' listener at one port, for this process."""

    law: Law | None = None
    rivals: tuple[Law, ...] = ()
    """Laws that what was read so far does not tell from `law`, that one included."""
    votes: Counter[Law] = field(default_factory=Counter)
    handshakes: list[Handshake] = field(default_factory=list)
    tolerance: int = 0
    """How many bytes a handshake is known to vary by."""
    is_steady: bool = False
    """Whether several sockets have shown that it does not vary at all."""
    given_up: object = None
    """What the last search for a handshake was made with, when it found none."""


@dataclass(slots=True)
class SourceState:
    """All that is remembered of one source."""

    rows: dict[Row, RowState] = field(default_factory=dict)
    pairs: dict[int, dict[Row, PairHistory]] = field(default_factory=dict)
    """Free sockets with the free nodes that they might be; nothing else is followed."""
    joined: dict[int, tuple[Row, PairHistory, Endpoint]] = field(default_factory=dict)
    ports: dict[int, PortState] = field(default_factory=dict)
    places: dict[tuple[int, int | str], Counter[Endpoint]] = field(default_factory=dict)
    """Where a broker, or the n-th bootstrap server, was found, by port."""
    at_place: dict[Endpoint, Counter[int | str]] = field(default_factory=dict)
    quiet: dict[object, dict[int, tuple[float, Bracket]]] = field(default_factory=dict)
    """Each free socket's last quiet read, by who was read (librdkafka's clients come singly)."""
    reads: dict[int, int] = field(default_factory=dict)
    """Rounds of reads at which a socket was free."""
    free_ports: dict[int, int] = field(default_factory=dict)
    """The port that each of them goes to."""
    in_round: set[object] = field(default_factory=set)
    """Who was read since the round began: a page is a round, librdkafka's clients come singly."""
    owner: str | None = None
    owner_votes: Counter[str] = field(default_factory=Counter)
    first_read_at: float | None = None
    read_number: int = 0

    def drop(self, rows: Iterable[Row]) -> None:
        """Forget nodes that their client no longer shows."""
        gone = set(rows)
        for row in gone:
            cookie = self.rows.pop(row).cookie
            if cookie is not None:
                self.joined.pop(cookie, None)
        if gone:
            for pairs in self.pairs.values():
                for row in gone & pairs.keys():
                    del pairs[row]

    def begins_round(self, series: object) -> bool:
        """Note who is read; say whether a new round begins, all having been read once."""
        begins = not self.in_round or series in self.in_round
        self.in_round = {series} if begins else self.in_round | {series}
        return begins

    def forget(self, cookie: int) -> None:
        """Forget a socket."""
        self.pairs.pop(cookie, None)
        self.reads.pop(cookie, None)
        self.free_ports.pop(cookie, None)
        for known in self.quiet.values():
            known.pop(cookie, None)

    def settle(self, cookie: int, row: Row) -> None:
        """Stop to look for a node for this socket, and for a socket for this node."""
        self.forget(cookie)
        for pairs in self.pairs.values():
            pairs.pop(row, None)

    def fit_of(self, row: Row, remote: Endpoint) -> int:
        """Say whether a node is known to be at an address: 1 yes, -1 elsewhere, 0 not known.

        A bootstrap server is a place in a list, the same list for all clients of most processes.
        """
        key = place_of(row, self.rows[row].node)
        if key is None:
            return 0
        known = self.places.get((remote.port, key))
        if known:
            return 1 if remote in known else -1
        others = self.at_place.get(remote)
        if others and isinstance(key, int) and any(isinstance(other, int) for other in others):
            return -1
        return 0

    def learn_place(self, row: Row, remote: Endpoint) -> bool:
        """Note where a node was found; say whether that was new."""
        key = place_of(row, self.rows[row].node)
        if key is None:
            return False
        known = self.places.setdefault((remote.port, key), Counter())
        new = remote not in known
        known[remote] += 1
        self.at_place.setdefault(remote, Counter())[key] += 1
        return new


def place_of(row: Row, node: NodeReading) -> int | str | None:
    """Return by what a node's address is known: its broker, or its number among the bootstraps."""
    if node.broker_id is not None:
        return node.broker_id
    return row.node_id if node.role is Role.BOOTSTRAP else None


def login_length(row: Row) -> int:
    """Return the length of the client.id that a Java client logs in with."""
    name = row.client.client_id
    return 0 if _UNNAMED_ADMIN.fullmatch(name) else len(name)


def _drop_restarted(state: SourceState, reading: SourceReading) -> None:
    """Forget what clients counted that have since been made anew: their totals fell.

    A page without one joined socket whose totals fell is another process's: all of it is new, also
    a client that counts just what its forerunner did. librdkafka's nodes begin anew by themselves.
    """
    fallen = set()
    for client in reading.clients:
        key = ClientKey(reading.source, client.kind, client.client_id, client.instance)
        if client.library is not Library.LIBRDKAFKA and any(
            _has_fallen(state.rows.get(Row(key, node.node_id)), node) for node in client.nodes
        ):
            fallen.add(key)
    if fallen:
        everything = not state.joined
        state.drop([row for row in state.rows if everything or row.client in fallen])


def _has_fallen(known: RowState | None, node: NodeReading) -> bool:
    if known is None or known.counts is None or node.outgoing_bytes is None:
        return False
    return node.outgoing_bytes < known.counts.outgoing


def take_rows(state: SourceState, reading: SourceReading) -> set[Row]:
    """Bring the rows up to this read and return them; rows that are no longer shown are gone."""
    _drop_restarted(state, reading)
    seen = set()
    for client in reading.clients:
        key = ClientKey(reading.source, client.kind, client.client_id, client.instance)
        for node in client.nodes:
            row = Row(key, node.node_id)
            seen.add(row)
            known = state.rows.get(row)
            if known is None:
                known = state.rows[row] = RowState(
                    node, client.library, counts_of(node), shape_of(node, client.kind)
                )
            else:
                earlier = known.counts
                known.node, known.counts = node, counts_of(node)
                known.shape = shape_of(node, client.kind)
                if earlier and known.counts and known.counts.outgoing < earlier.outgoing:
                    # librdkafka makes a broker anew with totals from 0.
                    known.history.clear()
            known.seen_at = reading.ended_at
            known.reads += known.counts is not None
    # A page shows all clients of its process; librdkafka's statistics are one client's alone.
    whole = any(client.library is not Library.LIBRDKAFKA for client in reading.clients)
    shown = {row.client for row in seen}
    state.drop([row for row in state.rows if row not in seen and (whole or row.client in shown)])
    return seen
