"""Which free nodes a free socket might be at all: found by look-up instead of by trying each.

Two things make a pair worth following: both grew by the same between two reads (`join_growth`), or
the socket's totals are the node's plus a handshake that is known here (`join_offsets`).
A third is that the client names the address.
Pure.
"""

from __future__ import annotations

__all__ = ["find_pairs", "observe_pairs"]

from typing import TYPE_CHECKING

from exporter.core.join_growth import elect_law, grown_alike
from exporter.core.join_handshakes import ZERO
from exporter.core.join_index import MOST_PAIRS, grouped
from exporter.core.join_laws import LAWS, PLAIN
from exporter.core.join_offsets import pair_by_offset
from exporter.core.join_pair import PairHistory
from exporter.core.join_state import PortState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.core.join_laws import Law
    from exporter.core.join_read import Read
    from exporter.core.join_state import Look, Row, SourceState

# What a growth weighs for a law: a producer's own records are not told, it agrees with several.
SURE_VOTE = 3
UNSURE_VOTE = 1

# Sockets that are asked for their law at one read.
VOTERS = 64
FEW = 8


def observe_pairs(read: Read) -> None:
    """Follow the pairs of free sockets, and of those that could have other nodes as well."""
    state = read.state
    for cookie, pairs in state.pairs.items():
        bracket = read.brackets.get(cookie)
        if bracket is None:
            continue
        mine = state.joined[cookie][1] if cookie in state.joined else None
        for row in [row for row in pairs if row in read.fresh and pairs[row] is not mine]:
            counts = state.rows[row].counts
            if counts is None or not pairs[row].observe(bracket, counts):
                del pairs[row]


def find_pairs(read: Read, looks: Iterable[Look]) -> None:
    """Begin to follow every pair of a free node and a free socket that this read suggests."""
    state, rows = read.state, read.free_rows()
    for port, there in grouped(looks, lambda look: look.remote.port).items():
        known = state.ports.setdefault(int(port), PortState())
        if known.law is None or known.rivals:
            _vote(read, known, rows, there[:VOTERS])
            elect_law(known)
        _drop_other_laws(state, known.law, there)
        if known.law is not None:
            for look, row, pair in grown_alike(read, rows, there, known.law):
                _follow(state, look, row, pair)
        handshakes = list(known.handshakes)
        if known.law is None or known.law == PLAIN:
            handshakes.append(ZERO)
        if handshakes:
            pair_by_offset(read, rows, there, known.law or PLAIN, handshakes)
        _pair_by_name(read, rows, there, known.law or PLAIN)


def _vote(read: Read, known: PortState, rows: Sequence[Row], looks: Sequence[Look]) -> None:
    """Let each socket that grew like some node under a law vote for that law, once a read."""
    for law in _laws_of(read.state, rows):
        votes: dict[int, int] = {}
        for look, _row, pair in grown_alike(read, rows, looks, law, few=FEW):
            vote = SURE_VOTE if pair.shape.exact_out else UNSURE_VOTE
            votes[look.cookie] = max(vote, votes.get(look.cookie, 0))
        known.votes[law] += sum(votes.values())


def _laws_of(state: SourceState, rows: Iterable[Row]) -> Mapping[Law, None]:
    return {law: None for row in rows for law in LAWS[state.rows[row].library]}


def _drop_other_laws(state: SourceState, law: Law | None, looks: Iterable[Look]) -> None:
    for look in looks:
        pairs = state.pairs.get(look.cookie, {})
        for row in [row for row, pair in pairs.items() if law not in (None, pair.law)]:
            del pairs[row]


def _follow(state: SourceState, look: Look, row: Row, pair: PairHistory) -> None:
    """Follow a pair that grew alike, unless its history is longer and unshaken."""
    pairs = state.pairs.setdefault(look.cookie, {})
    known = pairs.get(row)
    if known is not None and known.law == pair.law and not known.rebased:
        # It was followed for another reason; a rival must not look better for that.
        known.growths = max(known.growths, pair.growths)
        return
    pairs[row] = pair


def _pair_by_name(read: Read, rows: Sequence[Row], looks: Iterable[Look], law: Law) -> None:
    """Follow nodes that name their address against every socket to it (librdkafka)."""
    state = read.state
    named = [row for row in rows if state.rows[row].node.remote_name is not None]
    for look in looks if 0 < len(named) <= MOST_PAIRS else ():
        pairs = state.pairs.setdefault(look.cookie, {})
        for row in named:
            counts = state.rows[row].counts
            if row not in pairs and counts is not None and read.may_be(row, look):
                bases = state.rows[row].bases(look.opened_at)
                pair = pairs[row] = PairHistory(law, state.rows[row].shape, bases)
                pair.observe(look.bracket, counts)
