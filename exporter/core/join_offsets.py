"""Pairs in which the socket's totals are the node's plus a handshake that is known.

Pure.
"""

from __future__ import annotations

__all__ = ["pair_by_offset"]

from bisect import bisect_left
from typing import TYPE_CHECKING

from exporter.core.join_handshakes import CLIENT_ID_REPEATS, JITTER
from exporter.core.join_index import MOST_PAIRS, Index, Key, grouped
from exporter.core.join_pair import PairHistory
from exporter.core.join_state import login_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exporter.core.join_handshakes import Handshake
    from exporter.core.join_laws import Counts, Law
    from exporter.core.join_read import Read
    from exporter.core.join_state import Look, Row, RowState, SourceState

# Sockets are looked up together when they were opened between the same reads: so many groups.
MOST_GROUPS = 8


def pair_by_offset(
    read: Read,
    rows: Sequence[Row],
    looks: Sequence[Look],
    law: Law,
    handshakes: Sequence[Handshake],
) -> None:
    """Pair sockets with nodes whose totals are theirs less a handshake."""
    state = read.state
    groups = grouped(looks, lambda look: _epoch(state, look))
    keys = sorted(groups)
    if len(keys) > MOST_GROUPS:
        start = state.read_number % len(keys)
        keys = [*keys[-2:], *(keys + keys)[start : start + MOST_GROUPS - 2]]
    repeats = tuple(
        each for each in CLIENT_ID_REPEATS if any(each in known.repeats for known in handshakes)
    )
    for key in keys:
        there = groups[key]
        index = _OffsetIndex(state, rows, law, repeats, max(look.opened_at for look in there))
        for look in there:
            known = state.pairs.setdefault(look.cookie, {})
            found = {row for row in index.rows_for(look, handshakes) if read.may_be(row, look)}
            for row in found - known.keys():
                row_state = state.rows[row]
                if row_state.counts is not None:
                    bases = row_state.bases(look.opened_at)
                    pair = known[row] = PairHistory(law, row_state.shape, bases)
                    pair.observe(look.bracket, row_state.counts)


def _epoch(state: SourceState, look: Look) -> float:
    """Group sockets that were opened before the first read, or in the same seconds after it."""
    if state.first_read_at is None or look.opened_at < state.first_read_at:
        return 0.0
    return look.opened_at // 1.0


class _OffsetIndex:
    """Rows by their totals since a moment, records paid: in cells, so that some bytes may lack."""

    def __init__(
        self,
        state: SourceState,
        rows: Sequence[Row],
        law: Law,
        repeats: Sequence[int],
        opened_at: float,
    ) -> None:
        self._index = Index(state)
        self._law = law
        self._repeats = repeats
        self._sorted_out: list[tuple[int, int, Row]] = []
        self._sorted_in: list[tuple[int, int, Row]] = []
        for row in rows:
            row_state = state.rows[row]
            counts = row_state.counts
            if counts is None:
                continue
            for base in row_state.bases(opened_at):
                if counts.outgoing > base.outgoing and counts.incoming > base.incoming:
                    self._add(row, row_state, base, counts)
        self._sorted_out.sort(key=lambda each: each[:2])
        self._sorted_in.sort(key=lambda each: each[:2])

    def _add(self, row: Row, row_state: RowState, base: Counts, counts: Counts) -> None:
        law, shape = self._law, row_state.shape
        out, incoming = (
            now - before for now, before in zip(law.paid(counts), law.paid(base), strict=True)
        )
        exact_out, exact_in = shape.exact_out or not law.out, shape.exact_in or not law.incoming
        length = login_length(row)
        if exact_out:
            self._sorted_out.append((out, incoming, row))
        elif exact_in:
            self._sorted_in.append((incoming, out, row))
        for repeats in self._repeats:
            cell_out, cell_in = (out + repeats * length) // 8, incoming // 8
            if exact_out and exact_in:
                self._index.add((repeats, cell_out, cell_in), row)
                self._index.add((repeats, "any out", cell_in), row)
                self._index.add((repeats, cell_out, "any in"), row)
            elif exact_in:
                self._index.add((repeats, "in", cell_in), row)
            elif exact_out:
                self._index.add((repeats, "out", cell_out), row)

    def rows_for(self, look: Look, handshakes: Iterable[Handshake]) -> set[Row]:
        """Return the rows that fit under some handshake; nothing where they are a crowd."""
        if not look.bracket.is_quiet:
            rows = {row for each in handshakes for row in self._between(look, each)}
            return rows if len(rows) <= MOST_PAIRS else set()
        return self._index.at([key for each in handshakes for key in _keys(look, each)], look)

    def _between(self, look: Look, handshake: Handshake) -> Iterator[Row]:
        """Yield rows whose totals lie between the bounds of a socket that is never quiet."""
        bracket = look.bracket
        slack_out = bracket.out_high - bracket.out_low if self._law.out else 0
        slack_in = bracket.in_high - bracket.in_low if self._law.incoming else 0
        low_out = bracket.out_low - handshake.out - slack_out
        high_out = bracket.out_high - handshake.out + slack_out
        low_in = bracket.in_low - handshake.incoming - slack_in
        high_in = bracket.in_high - handshake.incoming + slack_in
        for known, low, high, other_low, other_high in (
            (self._sorted_out, low_out, high_out, low_in, high_in),
            (self._sorted_in, low_in, high_in, low_out, high_out),
        ):
            start = bisect_left(known, (low,), key=lambda each: each[:1])
            for value, other, row in known[start : start + 4 * MOST_PAIRS]:
                if value > high:
                    break
                if other <= other_high and (self._law.incoming or other >= other_low):
                    yield row


def _keys(look: Look, handshake: Handshake) -> Iterator[Key]:
    """Yield the keys of the nodes that a socket may have under a handshake."""
    incoming = look.bracket.in_low - handshake.incoming
    cells_in = {(incoming - JITTER) // 8, (incoming + JITTER) // 8}
    for repeats in handshake.repeats:
        out = look.bracket.out_low - handshake.out + repeats * handshake.length
        cells_out = {(out - JITTER) // 8, (out + JITTER) // 8}
        if handshake.shape.exact_in:
            yield from ((repeats, "in", cell) for cell in cells_in)
        if not handshake.shape.exact_out:
            yield from ((repeats, "any out", cell) for cell in cells_in)
            continue
        yield from ((repeats, "out", cell) for cell in cells_out)
        if handshake.shape.exact_in:
            yield from ((repeats, one, two) for one in cells_out for two in cells_in)
        else:
            yield from ((repeats, cell, "any in") for cell in cells_out)
