"""Which nodes a socket might be at all: found by look-up instead of by trying each.

Two figures make a node worth holding against a socket: both grew by the same between two reads, or
the socket's totals are the node's plus a handshake that is known here.
A third reason is that the client names the address (librdkafka).
Pure.
"""

from __future__ import annotations

__all__ = ["find_grown", "find_named", "find_totals", "vote"]

from collections import defaultdict
from typing import TYPE_CHECKING

from exporter.core.join_handshakes import EXACT, JITTER
from exporter.core.join_laws import NOTHING
from exporter.core.join_memory import pair_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from exporter.core.join_handshakes import Handshake
    from exporter.core.join_laws import Bracket, Counts, Law
    from exporter.core.join_memory import Row, Socket
    from exporter.core.join_state import SourceState

    MayBe = Callable[[Row, Socket], bool]

# Nodes that are held against one socket. A figure that more nodes share tells nothing, and to hold
# some of them only would make a choice look certain that is none.
MOST_PAIRS = 128

# A socket that is never quiet is looked up between bounds: so many nodes are looked at.
MOST_BETWEEN = 512

# Reads of the past that are tried to find one at which a socket was quiet.
MOST_EARLIER = 8

# Times of opening for which nodes are looked up that had counted before, at one read.
MOST_OPENINGS = 8

Key = tuple[object, ...]


class _Index:
    """Nodes by a key, and under it by where they are known to be."""

    def __init__(self, state: SourceState) -> None:
        self._state = state
        self._rows: dict[Key, dict[object, list[Row]]] = {}

    def add(self, key: Key, row: Row) -> None:
        """Put a node under a key."""
        self._rows.setdefault(key, {}).setdefault(row.place, []).append(row)

    def at(self, keys: Iterable[Key], socket: Socket, few: int | None = None) -> list[Row]:
        """Return the nodes under some keys that may be at the socket's remote end, else all.

        Nothing where they are a crowd, unless a `few` of each are all that is asked for.
        """
        found: dict[Row, None] = {}
        for key in keys:
            places = self._rows.get(key)
            if places is None:
                continue
            here = [
                rows for rows in places.values() if self._state.fit_of(rows[0], socket.remote) >= 0
            ]
            for rows in here or places.values():
                found.update(dict.fromkeys(rows[:few]))
            if few is None and len(found) > MOST_PAIRS:
                return []
        return list(found)[:few]


def _follow(socket: Socket, row: Row, law: Law) -> None:
    known = socket.pairs.get(row)
    if known is None or known.law != law:
        pair = pair_of(socket, row, law)
        if pair.is_possible and pair.samples:
            socket.pairs[row] = pair


# ---- what grew alike ------------------------------------------------------------------------


def find_grown(
    state: SourceState,
    series: object,
    rows: Sequence[Row],
    sockets: Iterable[Socket],
    law: Law,
    may_be: MayBe,
) -> None:
    """Hold sockets against the nodes that grew by the same since both were known last."""
    for since, there in _moved(state, series, sockets).items():
        index = _grown(state, rows, since, law)
        for socket, before in there:
            for row in index.at(_growth_keys(socket.bracket, before), socket):
                if may_be(row, socket):
                    _follow(socket, row, law)


def vote(
    state: SourceState,
    series: object,
    rows: Sequence[Row],
    sockets: Iterable[Socket],
    law: Law,
    few: int,
) -> Iterator[bool]:
    """Yield for each socket that grew like some node under a law: whether that is told for sure."""
    for since, there in _moved(state, series, sockets).items():
        index = _grown(state, rows, since, law)
        for socket, before in there:
            sure = [
                row.shape.exact_out
                for row in index.at(_growth_keys(socket.bracket, before), socket, few)
                if pair_of(socket, row, law).growths
            ]
            if sure:
                yield any(sure)


def _moved(
    state: SourceState, series: object, sockets: Iterable[Socket]
) -> dict[float, list[tuple[Socket, Bracket]]]:
    """Return sockets that are quiet now and were, with other counts, when these nodes were read.

    By when that was.
    """
    times = list(state.read_at.get(series, ()))[-2 : -2 - MOST_EARLIER : -1]
    found: dict[float, list[tuple[Socket, Bracket]]] = defaultdict(list)
    for socket in sockets:
        if not socket.bracket.is_quiet:
            continue
        for at in times:
            before = socket.history.at(at)
            if before is not None and before.is_quiet:
                if before != socket.bracket:
                    found[at].append((socket, before))
                break
    return found


def _grown(state: SourceState, rows: Iterable[Row], since: float, law: Law) -> _Index:
    index = _Index(state)
    for row in rows:
        earlier, now = row.history.at(since), row.counts
        if earlier is None or now is None or now.outgoing <= earlier.outgoing:
            continue
        out_now, in_now = law.paid(now)
        out_before, in_before = law.paid(earlier)
        exact_out, exact_in = law.shown(row.shape)
        index.add(
            (
                out_now - out_before if exact_out else None,
                in_now - in_before if exact_in else None,
            ),
            row,
        )
    return index


def _growth_keys(now: Bracket, before: Bracket) -> tuple[Key, ...]:
    out, incoming = now.out_low - before.out_low, now.in_low - before.in_low
    return ((out, incoming), (None, incoming), (out, None), (None, None))


# ---- what differs by a handshake -----------------------------------------------------------------


def find_totals(
    state: SourceState,
    rows: Sequence[Row],
    sockets: Sequence[Socket],
    law: Law,
    handshakes: Sequence[Handshake],
    may_be: MayBe,
) -> None:
    """Hold sockets against nodes whose totals are theirs less a handshake."""
    if not sockets or not rows or not handshakes:
        return
    whole = _Totals(state, law, handshakes)
    for row in rows:
        whole.add(row, NOTHING)
    openings: dict[float, list[Socket]] = defaultdict(list)
    partial = any(each.shape != EXACT for each in handshakes)
    for socket in sockets:
        found = whole.rows_for(socket)
        _follow_all(socket, found, law, may_be)
        if found and partial:
            # What half a handshake does not tell of may be this socket as well.
            untold = [row for row in rows if law.shown(row.shape) != EXACT][:MOST_BETWEEN]
            _follow_all(socket, untold, law, may_be)
        openings[socket.opened_at // 1.0].append(socket)
    earliest = min(
        (row.history.entries[0].since for row in rows if row.history.entries), default=0.0
    )
    late = [moment for moment in sorted(openings, reverse=True) if moment + 1.0 >= earliest]
    for moment in late[:MOST_OPENINGS]:
        there = openings[moment]
        since = _Totals(state, law, handshakes)
        for row in rows:
            for base in row.bases(there[0].opened_at):
                if base.outgoing:
                    since.add(row, base)
        for socket in there:
            _follow_all(socket, since.rows_for(socket), law, may_be)


def _follow_all(socket: Socket, rows: Iterable[Row], law: Law, may_be: MayBe) -> None:
    for row in rows:
        if may_be(row, socket):
            _follow(socket, row, law)


class _Totals:
    """Nodes by their totals, records paid: in cells, so that some bytes may lack."""

    def __init__(self, state: SourceState, law: Law, handshakes: Sequence[Handshake]) -> None:
        self._index = _Index(state)
        self._law = law
        self._handshakes = handshakes
        self._repeats = sorted({each for known in handshakes for each in known.repeats})
        self._all: list[tuple[int, int, Row]] = []

    def add(self, row: Row, base: Counts) -> None:
        counts = row.counts
        if counts is None or counts.outgoing <= base.outgoing or counts.incoming <= base.incoming:
            return
        law = self._law
        out, incoming = law.paid(counts)
        base_out, base_in = law.paid(base)
        out, incoming = out - base_out, incoming - base_in
        if row.moved:
            self._all.append((out, incoming, row))
        exact_out, exact_in = law.shown(row.shape)
        length = row.login_length
        for repeats in self._repeats:
            cell_out, cell_in = (out + repeats * length) // 8, incoming // 8
            if exact_out and exact_in:
                self._index.add((repeats, cell_out, cell_in), row)
                self._index.add((repeats, cell_out, "any"), row)
                self._index.add((repeats, "any", cell_in), row)
            elif exact_in:
                self._index.add((repeats, None, cell_in), row)
            elif exact_out:
                self._index.add((repeats, cell_out, None), row)

    def rows_for(self, socket: Socket) -> list[Row]:
        """Return the nodes that fit under some handshake; nothing where they are a crowd."""
        if not socket.bracket.is_quiet:
            rows = list(
                dict.fromkeys(
                    row for each in self._handshakes for row in self._between(socket.bracket, each)
                )
            )
            return rows if len(rows) <= MOST_PAIRS else []
        return self._index.at(
            [key for each in self._handshakes for key in _keys(socket.bracket, each)], socket
        )

    def _between(self, bracket: Bracket, handshake: Handshake) -> Iterator[Row]:
        """Yield nodes whose totals lie between the bounds of a socket that is not quiet."""
        slack_out = bracket.out_high - bracket.out_low if self._law.out else 0
        slack_in = bracket.in_high - bracket.in_low if self._law.incoming else 0
        high_out = bracket.out_high - handshake.out + slack_out
        high_in = bracket.in_high - handshake.incoming + slack_in
        low_out = bracket.out_low - handshake.out - slack_out
        low_in = bracket.in_low - handshake.incoming - slack_in
        for out, incoming, row in self._all[:MOST_BETWEEN]:
            exact_out, exact_in = self._law.shown(row.shape)
            if out <= high_out and incoming <= high_in:
                enough_out = out >= low_out or not exact_out
                if enough_out and (incoming >= low_in or not exact_in) and (exact_out or exact_in):
                    yield row


def _keys(bracket: Bracket, handshake: Handshake) -> Iterator[Key]:
    """Yield the keys of the nodes that a socket may have under a handshake."""
    incoming = bracket.in_low - handshake.incoming
    cells_in = sorted({(incoming - JITTER) // 8, (incoming + JITTER) // 8})
    exact_out, exact_in = handshake.shape
    for repeats in handshake.repeats:
        out = bracket.out_low - handshake.out + repeats * handshake.length
        cells_out = sorted({(out - JITTER) // 8, (out + JITTER) // 8})
        if exact_in:
            yield from ((repeats, None, cell) for cell in cells_in)
        if exact_out:
            yield from ((repeats, cell, None) for cell in cells_out)
        if exact_out and exact_in:
            yield from ((repeats, one, two) for one in cells_out for two in cells_in)
        elif exact_in:
            yield from ((repeats, "any", cell) for cell in cells_in)
        elif exact_out:
            yield from ((repeats, cell, "any") for cell in cells_out)


# ---- what is named -------------------------------------------------------------------------------


def find_named(rows: Iterable[Row], sockets: Iterable[Socket], law: Law, may_be: MayBe) -> None:
    """Hold nodes that name their address against every socket to it (librdkafka)."""
    named = [row for row in rows if row.node.remote_name is not None]
    for socket in sockets if 0 < len(named) <= MOST_PAIRS else ():
        for row in named:
            if row.counts is not None and may_be(row, socket):
                _follow(socket, row, law)
