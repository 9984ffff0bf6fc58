"""Pairs whose bytes grew alike between two reads, and the law that such pairs show.

Pure.
"""

from __future__ import annotations

__all__ = ["elect_law", "grown_alike"]

from typing import TYPE_CHECKING

from exporter.core.join_index import Index, Key, grouped
from exporter.core.join_pair import PairHistory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from exporter.core.join_laws import Bracket, Counts, Law, Shape
    from exporter.core.join_read import Read
    from exporter.core.join_state import Look, PortState, Row, SourceState

# A law is believed when so many votes agree with it, and twice as many as with another.
LEAST_VOTES = 3


def grown_alike(
    read: Read, rows: Sequence[Row], looks: Sequence[Look], law: Law, *, few: int | None = None
) -> Iterator[tuple[Look, Row, PairHistory]]:
    """Yield the pairs that grew by the same since the socket's last quiet read.

    All of them, or none of a crowd; with `few`, so many for each figure, crowd or not.
    """
    state = read.state
    last = state.quiet.get(read.series, {})
    moved = [
        look
        for look in looks
        if look.bracket.is_quiet and look.cookie in last and last[look.cookie][1] != look.bracket
    ]
    for since, there in grouped(moved, lambda look: last[look.cookie][0]).items():
        index = Index(state)
        for row in rows:
            row_state = state.rows[row]
            earlier, now = row_state.counts_at(since), row_state.counts
            if earlier is not None and now is not None and now.outgoing > earlier.outgoing:
                index.add(_growth_key(law, row_state.shape, earlier, now), row)
        for look in there:
            before = last[look.cookie][1]
            out = look.bracket.out_low - before.out_low
            incoming = look.bracket.in_low - before.in_low
            keys = (("both", out, incoming), ("in", incoming), ("out", out), ("none",))
            for row in index.at(keys, look, few=few):
                if read.may_be(row, look):
                    pair = _pair_since(state, row, look, law, (since, before))
                    if pair is not None:
                        yield look, row, pair


def _growth_key(law: Law, shape: Shape, earlier: Counts, now: Counts) -> Key:
    out_now, in_now = law.paid(now)
    out_before, in_before = law.paid(earlier)
    exact_out, exact_in = shape.exact_out or not law.out, shape.exact_in or not law.incoming
    if exact_out and exact_in:
        return ("both", out_now - out_before, in_now - in_before)
    if exact_in:
        return ("in", in_now - in_before)
    if exact_out:
        return ("out", out_now - out_before)
    return ("none",)


def _pair_since(
    state: SourceState, row: Row, look: Look, law: Law, before: tuple[float, Bracket]
) -> PairHistory | None:
    """Return the history of a pair from the socket's last quiet read on, if both grew alike."""
    row_state = state.rows[row]
    earlier = row_state.counts_at(before[0])
    if earlier is None or row_state.counts is None:
        return None
    pair = PairHistory(law, row_state.shape, row_state.bases(look.opened_at))
    pair.observe(before[1], earlier)
    pair.observe(look.bracket, row_state.counts)
    return pair if pair.growths else None


def elect_law(port: PortState) -> None:
    """Believe the law with the most votes; of laws that differ in the records only, the simplest.

    Producers alone do not tell how many records a request is; the others stay its rivals.
    """
    ranked = [law for law, _votes in port.votes.most_common()]
    if not ranked or port.votes[ranked[0]] < LEAST_VOTES:
        return
    close = [law for law in ranked if 2 * port.votes[law] > port.votes[ranked[0]]]
    if len({law[:2] for law in close}) == 1:
        law = min(close, key=lambda law: law.per_request)
        port.rivals = tuple(close) if len(close) > 1 else ()
        if port.law != law:
            port.law = law
            port.handshakes.clear()
