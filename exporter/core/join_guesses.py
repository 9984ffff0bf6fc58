"""What handshakes the sockets of a process could have: guesses, and what each would explain.

Pure.
"""

from __future__ import annotations

__all__ = ["JOINED_WEIGHT", "Guess", "Seen", "guesses_of", "resting_pairs"]

from collections import Counter, defaultdict
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.join_handshakes import (
    CLIENT_ID_REPEATS,
    EXACT,
    JITTER,
    Handshake,
    Offset,
    fits,
    same,
)
from exporter.core.join_laws import NOTHING, Law
from exporter.core.join_matching import largest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from exporter.core.join_memory import Row, Socket
    from exporter.core.join_state import Listener, SourceState

# What a socket that growth joined counts for beside one that only could be.
JOINED_WEIGHT = 3

# A search among idle sockets is a product: of so many sockets and nodes, and of so many Ks.
MOST_SOCKETS = 48
MOST_ROWS = 160
MOST_GUESSES = 8


class Seen(NamedTuple):
    """One pair and what its handshake would be."""

    socket: Socket
    row: Row
    offset: Offset


class Guess(NamedTuple):
    """A possible handshake, with the joined and the idle sockets that it would explain."""

    law: Law
    handshake: Handshake
    joined: frozenset[int]
    idle: dict[int, list[Row]]
    near: bool
    """Whether it would explain more if some bytes were allowed for."""


def resting_pairs(
    state: SourceState, law: Law, resting: Sequence[Socket], rows: Sequence[Row]
) -> Iterator[Seen]:
    """Hold idle sockets against free nodes, as if each pair were one.

    Of many, those that moved the least: the bootstrap connections of a process are among them, and
    what moved little shows its handshake best.
    """
    there = sorted(resting, key=lambda each: (each.bracket.in_low, each.cookie))[:MOST_SOCKETS]
    telling = sorted(
        (row for row in rows if law.shown(row.shape).exact_in),
        key=lambda row: (
            not law.shown(row.shape).exact_out, row.counts or NOTHING, row.number,
        ),
    )[:MOST_ROWS]  # fmt: skip
    for socket in there:
        grown = [row for row, pair in socket.pairs.items() if pair.growths and not row.is_settled]
        for row in grown or telling:
            counts = row.counts
            if counts is None or state.fit_of(row, socket.remote) < 0:
                continue
            if not grown and (socket.is_belied_by(row) or not socket.rests_with(row)):
                continue
            out, incoming = law.paid(counts)
            for base in row.bases(socket.opened_at):
                if counts.outgoing <= base.outgoing or counts.incoming <= base.incoming:
                    continue
                base_out, base_in = law.paid(base)
                k_out = socket.bracket.out_low - out + base_out
                k_in = socket.bracket.in_low - incoming + base_in
                if k_out > 0 and k_in > 0:
                    shape, length = law.shown(row.shape), row.login_length
                    yield Seen(socket, row, Offset(k_out, k_in, shape, length, counts))


def guesses_of(
    known: Listener, law: Law, joined: Sequence[Seen], idle: Sequence[Seen], tolerance: int
) -> list[Guess]:
    """Return Ks that are worth a count, with what each explains."""
    by_in: dict[int, list[Seen]] = defaultdict(list)
    for seen in idle:
        by_in[seen.offset.incoming].append(seen)
    wanted = dict.fromkeys(
        (
            *_shown_by_joined([seen.offset for seen in joined], law, tolerance),
            *_completed(law, joined, idle),
            *_common_to_idle(idle, tolerance),
        )
    )
    found = []
    for handshake in wanted:
        before = [each for each in known.handshakes if same(handshake, each, law)]
        if any(each.shape == EXACT for each in before) or (before and handshake.shape != EXACT):
            continue
        shown = {
            seen.socket.cookie for seen in joined if fits(seen.offset, handshake, law, tolerance)
        }
        near, edges = False, defaultdict(list)
        around = idle
        if handshake.shape.exact_in:
            steps = range(handshake.incoming - JITTER, handshake.incoming + JITTER + 1)
            around = [seen for incoming in steps for seen in by_in.get(incoming, ())]
        for seen in around:
            if fits(seen.offset, handshake, law, tolerance):
                edges[seen.socket.cookie].append(seen.row)
        loose = {seen.socket.cookie for seen in around if fits(seen.offset, handshake, law, JITTER)}
        near = len(loose) > len(edges) or any(
            fits(seen.offset, handshake, law, JITTER)
            and not fits(seen.offset, handshake, law, tolerance)
            for seen in joined
        )
        found.append(Guess(law, handshake, frozenset(shown), dict(edges), near))
    found.sort(key=lambda each: -JOINED_WEIGHT * len(each.joined) - len(largest(each.idle)))
    return found[: 2 * MOST_GUESSES]


def _shown_by_joined(offsets: Sequence[Offset], law: Law, tolerance: int) -> Iterator[Handshake]:
    fresh = [each for each in offsets if each.out > 0 and each.incoming > 0]
    for one in fresh:
        yield Handshake(one.out, one.incoming, one.shape, one.length)
        # A consumer tells the one direction, a producer the other.
        for other in fresh if one.shape.exact_out else ():
            if other.shape.exact_in:
                both = Handshake(one.out, other.incoming, EXACT, one.length)
                if fits(one, both, law, tolerance) and fits(other, both, law, tolerance):
                    yield both


def _completed(law: Law, joined: Sequence[Seen], idle: Sequence[Seen]) -> Iterator[Handshake]:
    """Yield what one joined socket shows of a handshake, with what idle ones show of the rest."""
    for one in (seen.offset for seen in joined if seen.offset.shape != EXACT):
        votes: Counter[Handshake] = Counter()
        for seen in idle:
            other = seen.offset
            if one.shape.exact_out and other.shape.exact_in:
                both = Handshake(one.out, other.incoming, EXACT, one.length)
            elif one.shape.exact_in and other.shape.exact_out:
                both = Handshake(other.out, one.incoming, EXACT, other.length)
            else:
                continue
            if fits(one, both, law, 0) and fits(other, both, law, 0):
                votes[both] += 1
        yield from (both for both, _times in votes.most_common(MOST_GUESSES))


def _common_to_idle(idle: Sequence[Seen], tolerance: int) -> Iterator[Handshake]:
    """Yield what several idle sockets could have, for each way to pay for the client.id."""
    width, shifts = (2 * JITTER, (0, JITTER)) if tolerance else (1, (0,))
    exact = [seen for seen in idle if seen.offset.shape == EXACT]
    for repeats, more_out, more_in in product(CLIENT_ID_REPEATS, shifts, shifts):
        cells: dict[tuple[int, int], dict[tuple[int, int], set[int]]] = defaultdict(dict)
        for seen in exact:
            at = seen.offset.out - repeats * seen.offset.length, seen.offset.incoming
            cell = cells[(at[0] + more_out) // width, (at[1] + more_in) // width]
            cell.setdefault(at, set()).add(seen.socket.cookie)
        crowds = {where: set.union(*cell.values()) for where, cell in cells.items()}
        for where in sorted(crowds, key=lambda at: (-len(crowds[at]), at))[:MOST_GUESSES]:
            if len(crowds[where]) > 1 or len(crowds) <= MOST_GUESSES:
                points = sorted(cells[where])
                outs, ins = sorted(at[0] for at in points), sorted(at[1] for at in points)
                middle = len(points) // 2
                yield Handshake(outs[middle], ins[middle], EXACT, 0, (repeats,))
