"""Learn the handshakes of a process at a listener: from joined sockets, and from idle ones.

Joined sockets show theirs. Idle sockets agree on one: held against the nodes that they are, they
give the same K, and held against others they give different ones.
Pure.
"""

from __future__ import annotations

__all__ = ["learn_handshake"]

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.join_handshakes import (
    CLIENT_ID_REPEATS,
    EXACT,
    JITTER,
    ZERO,
    Handshake,
    Offset,
    fits,
    offsets_of,
    same,
)
from exporter.core.join_laws import LAWS, NOTHING, PLAIN, Law, Shape
from exporter.core.join_state import login_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exporter.core.join_state import Look, PortState, Row, SourceState

# A handshake is believed when so many sockets show it, or one joined beside one that is not.
LEAST_SUPPORT = 3

LEAST_SHARE = 1 / 2

# Without any growth the law itself is a guess: growth is waited for so many reads.
PATIENT_READS = 5

# By so many that agree to the byte a handshake is taken to be always the same.
STEADY_JOINED = 3
STEADY_IDLE = 5

# A search among idle sockets is a product: of so many sockets and nodes.
MOST_SOCKETS = 60
MOST_ROWS = 150
MOST_GUESSES = 8


class _Seen(NamedTuple):
    cookie: int
    row: Row
    offset: Offset
    joined: bool


class _Idle:
    """Idle pairs by their K in, which is exact in all of them."""

    def __init__(self, seen: Iterable[_Seen]) -> None:
        self._seen: dict[int, list[_Seen]] = defaultdict(list)
        for each in seen:
            self._seen[each.offset.incoming].append(each)

    def near(self, handshake: Handshake) -> Iterator[_Seen]:
        """Yield the pairs that may have a handshake, as far as K in tells."""
        if not handshake.shape.exact_in:
            for seen in self._seen.values():
                yield from seen
            return
        for incoming in range(handshake.incoming - JITTER, handshake.incoming + JITTER + 1):
            yield from self._seen.get(incoming, ())


class _Guess(NamedTuple):
    """A possible handshake with the joined and the idle sockets that it would explain."""

    joined: int
    idle: int
    law: Law
    handshake: Handshake
    pairs: frozenset[tuple[int, Row]]
    near: int
    """Sockets that it would explain if some bytes were allowed for."""

    @property
    def total(self) -> int:
        return self.joined + self.idle


def learn_handshake(
    state: SourceState, port: int, free: Sequence[Look], rows: Sequence[Row]
) -> bool:
    """Look for one more handshake at a port; say whether anything was learned.

    `free` are the idle sockets there, `rows` the free nodes.
    """
    known = state.ports[port]
    joined = list(_joined(state, port))
    laws = [known.law] if known.law is not None else _possible_laws(state, rows)
    if known.law is None and any(state.reads[look.cookie] < PATIENT_READS for look in free):
        return False
    if known.rivals and not known.handshakes:
        laws = list(known.rivals)
    signature = (
        known.law, len(joined), known.tolerance, len(known.handshakes),
        tuple((look.cookie, look.bracket) for look in free),
        tuple(state.rows[row].counts for row in rows),
    )  # fmt: skip
    if signature == known.given_up:
        return False
    if known.law is not None and _jitters(known, joined):
        known.tolerance = JITTER
        known.is_steady = False
        return True
    guesses = _counted_guesses(state, known, laws, joined, free, rows)
    sockets = min(len(free), MOST_SOCKETS)
    varies = bool(known.tolerance)
    best = next(
        (
            guess
            for guess in guesses
            if _is_enough(guess, _rivals(guess, guesses), sockets, varies=varies)
        ),
        None,
    )
    if best is None:
        known.given_up = signature
        return False
    # A law that only idle sockets suggest stays open to what growth will tell.
    sure = known.law is not None and not known.rivals
    known.rivals = () if sure or best.joined else tuple(_possible_laws(state, rows))
    known.law = best.law
    known.handshakes = [
        each
        for each in known.handshakes
        if each.shape == EXACT or not same(each, best.handshake, best.law)
    ]
    known.handshakes.append(best.handshake)
    enough = best.joined >= STEADY_JOINED or best.idle >= STEADY_IDLE
    known.is_steady = not known.tolerance and not best.near and (known.is_steady or enough)
    return True


def _rivals(guess: _Guess, guesses: Sequence[_Guess]) -> int:
    return max((_rivalry(each, guess) for each in guesses if each is not guess), default=0)


def _rivalry(guess: _Guess, best: _Guess) -> int:
    """Count the sockets that a guess explains, but otherwise than the best one does."""
    if guess.law != best.law:
        return guess.total
    return len({cookie for cookie, row in guess.pairs - best.pairs})


def _counted_guesses(
    state: SourceState,
    known: PortState,
    laws: Iterable[Law],
    joined: Sequence[_Seen],
    free: Sequence[Look],
    rows: Sequence[Row],
) -> list[_Guess]:
    """Return what could be a handshake here and is not known yet, the most supported first."""
    found = []
    for law in laws:
        unexplained = [seen for seen in joined if not _is_known(known, seen, law, EXACT)]
        idle = list(_idle(state, law, free, rows))
        table = _Idle(idle)
        explained = {
            seen.cookie
            for each in known.handshakes
            for seen in table.near(each)
            if _is_known(known, seen, law, EXACT)
        }
        idle = [seen for seen in idle if seen.cookie not in explained]
        table = _Idle(idle)
        for guess in _guesses(unexplained, idle, law, known.tolerance):
            before = [each for each in known.handshakes if same(guess, each, law)]
            if any(each.shape == EXACT for each in before) or (before and guess.shape != EXACT):
                continue
            shown, could, pairs = _support(guess, unexplained, table, law, known.tolerance)
            loose = _support(guess, unexplained, table, law, JITTER)
            near = max(0, loose[0] + loose[1] - shown - could)
            found.append(_Guess(shown + len(before), could, law, guess, pairs, near))
    # What joined sockets show comes before what any number of idle ones could.
    found.sort(
        key=lambda each: (min(each.joined, 2), each.total, each.joined, each.handshake.shape),
        reverse=True,
    )
    return found


def _is_enough(best: _Guess, rivals: int, sockets: int, *, varies: bool) -> bool:
    """Whether a handshake may be believed: seen at joined sockets, or by many more than another.

    Among many pairs some agree by chance: what only idle sockets show, a good part must show.
    """
    if not best.joined and best.total < LEAST_SHARE * sockets:
        return False
    if best.joined > 1:
        # Others explain other sockets: a process has more handshakes than one.
        return True
    if best.handshake.shape != EXACT and not best.joined:
        # Whole records more or less: idle sockets agree on that by chance too.
        return False
    if varies and not best.joined:
        # With some bytes more or less, chance agrees much more often.
        return best.total >= STEADY_IDLE and best.total > 2 * rivals
    if best.total >= LEAST_SUPPORT:
        return best.total > rivals
    # Two idle ones may agree by chance, unless there are no more.
    return best.total == LEAST_SUPPORT - 1 > rivals and (best.joined > 0 or sockets == best.idle)


def _joined(state: SourceState, port: int) -> Iterator[_Seen]:
    for cookie, (row, pair, remote) in state.joined.items():
        row_state = state.rows[row]
        if remote.port != port or row_state.rule not in ("growth", "totals", "bounds"):
            continue
        if len(pair.bases) == 1 and pair.law[:2] == (state.ports[port].law or pair.law)[:2]:
            for offset in offsets_of(row, pair):
                yield _Seen(cookie, row, offset, joined=True)


def _is_known(known: PortState, seen: _Seen, law: Law, shape: Shape | None = None) -> bool:
    handshakes = [ZERO, *known.handshakes] if law == PLAIN else known.handshakes
    return any(
        fits(seen.offset, each, law, max(known.tolerance, JITTER))
        for each in handshakes
        if shape in (None, each.shape)
    )


def _jitters(known: PortState, joined: Sequence[_Seen]) -> bool:
    """Whether joined sockets show a handshake that is known, but for a few bytes."""
    law = known.law
    if law is None or known.tolerance:
        return False
    return any(
        fits(seen.offset, each, law, JITTER) and not fits(seen.offset, each, law, 0)
        for each in known.handshakes
        for seen in joined
        if not any(fits(seen.offset, other, law, 0) for other in known.handshakes)
    )


def _possible_laws(state: SourceState, rows: Iterable[Row]) -> list[Law]:
    return list(dict.fromkeys(law for row in rows for law in LAWS[state.rows[row].library]))


def _idle(
    state: SourceState, law: Law, free: Sequence[Look], rows: Sequence[Row]
) -> Iterator[_Seen]:
    """Hold idle sockets against free nodes, as if each pair were one.

    Of many, those that moved the least: the bootstrap connections of a process are among them, and
    what moved little shows its handshake best.
    """
    looks = sorted(free, key=lambda look: (look.bracket.in_low, look.cookie))[:MOST_SOCKETS]
    shapes = {row: _shape(law, state.rows[row].shape) for row in rows}
    telling = sorted(
        (row for row in rows if shapes[row].exact_in),
        key=lambda row: (not shapes[row].exact_out, state.rows[row].counts or NOTHING),
    )[:MOST_ROWS]
    for look in looks:
        for row in telling:
            row_state = state.rows[row]
            counts = row_state.counts
            if counts is None or state.fit_of(row, look.remote) < 0:
                continue
            out, incoming = law.paid(counts)
            for base in row_state.bases(look.opened_at):
                if counts.outgoing <= base.outgoing or counts.incoming <= base.incoming:
                    continue
                base_out, base_in = law.paid(base)
                k_out = look.bracket.out_low - out + base_out
                k_in = look.bracket.in_low - incoming + base_in
                if k_out > 0 and k_in > 0:
                    offset = Offset(k_out, k_in, shapes[row], login_length(row), counts)
                    yield _Seen(look.cookie, row, offset, joined=False)


def _shape(law: Law, shape: Shape) -> Shape:
    return Shape(shape.exact_out or not law.out, shape.exact_in or not law.incoming)


def _guesses(
    joined: Sequence[_Seen], idle: Sequence[_Seen], law: Law, tolerance: int
) -> list[Handshake]:
    """Return handshakes worth a count: those of joined sockets, and the commonest of idle ones."""
    return list(
        dict.fromkeys(
            (
                *_shown_by_joined([seen.offset for seen in joined], law, tolerance),
                *_common_to_idle(idle, tolerance),
                *_common_but_for_records(idle, law),
            )
        )
    )


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


def _common_to_idle(idle: Sequence[_Seen], tolerance: int) -> Iterator[Handshake]:
    """Yield what several idle sockets could have, for each way to pay for the client.id."""
    width = 2 * JITTER if tolerance else 1
    for repeats in CLIENT_ID_REPEATS:
        cells: dict[tuple[int, int], dict[tuple[int, int], set[int]]] = defaultdict(dict)
        for seen in idle:
            if seen.offset.shape == EXACT:
                at = seen.offset.out - repeats * seen.offset.length, seen.offset.incoming
                cell = cells[at[0] // width, at[1] // width]
                cell.setdefault(at, set()).add(seen.cookie)
        crowds = {where: set.union(*cell.values()) for where, cell in cells.items()}
        for where in sorted(crowds, key=lambda at: (-len(crowds[at]), at))[:MOST_GUESSES]:
            if len(crowds[where]) > 1 or len(crowds) <= MOST_GUESSES:
                here = cells[where]
                out, incoming = max((len(cookies), at) for at, cookies in here.items())[1]
                yield Handshake(out, incoming, EXACT, 0, (repeats,))


def _common_but_for_records(idle: Sequence[_Seen], law: Law) -> Iterator[Handshake]:
    """Yield what idle producers could have, where only they would show it."""
    cells: dict[tuple[int, int], set[int]] = defaultdict(set)
    for seen in idle:
        if seen.offset.shape != EXACT and seen.offset.shape.exact_in and law.out:
            cells[seen.offset.out % law.out, seen.offset.incoming].add(seen.cookie)
    for at in sorted(cells, key=lambda at: (-len(cells[at]), at))[:MOST_GUESSES]:
        if len(cells[at]) > 1:
            yield Handshake(*at, Shape(exact_out=False, exact_in=True), 0, (0,))


def _support(
    guess: Handshake, joined: Sequence[_Seen], idle: _Idle, law: Law, tolerance: int
) -> tuple[int, int, frozenset[tuple[int, Row]]]:
    """Count the joined and the idle sockets that a handshake explains; return the pairs too."""
    shown = {seen.cookie for seen in joined if fits(seen.offset, guess, law, tolerance)}
    could = [seen for seen in idle.near(guess) if fits(seen.offset, guess, law, tolerance)]
    rows = {seen.row for seen in could}
    pairs = frozenset((seen.cookie, seen.row) for seen in could)
    return len(shown), min(len({seen.cookie for seen in could}), len(rows)), pairs
