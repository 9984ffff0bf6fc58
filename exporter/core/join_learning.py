"""Learn the laws and the handshakes of a process at a listener: from joined sockets and idle ones.

Clients tell what TLS they use, or growth does. Joined sockets show their handshakes. Idle sockets
agree on theirs: held against the nodes that they are, they give few different Ks, and held against
others they give many. So that set of Ks is looked for that explains the most sockets at once, each
by a node of its own.
Pure.
"""

from __future__ import annotations

__all__ = ["elect_law", "learn_handshakes"]

from collections import Counter, defaultdict
from itertools import combinations, product
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
from exporter.core.join_laws import LAWS, NOTHING, PLAIN, Law
from exporter.core.join_matching import largest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exporter.core.join_state import Listener, Row, Socket, SourceState

# A law is believed when so many votes agree with it, and twice as many as with another.
LEAST_VOTES = 3

# A handshake that no joined socket shows must explain so many idle ones, and a good part of them:
# among many pairs some agree by chance.
LEAST_SUPPORT = 3
LEAST_SHARE = 1 / 2

# By so many that agree to the byte a handshake is taken to be always the same.
STEADY_JOINED = 4
STEADY_IDLE = 5

# What a socket that growth joined counts for beside one that only could be.
JOINED_WEIGHT = 3

# A search among idle sockets is a product: of so many sockets and nodes, and of so many Ks.
MOST_SOCKETS = 48
MOST_ROWS = 160
MOST_GUESSES = 8

# Without any growth the law itself is a guess: growth is waited for so many reads.
PATIENT_READS = 4


class _Seen(NamedTuple):
    """One pair and what its handshake would be."""

    socket: Socket
    row: Row
    offset: Offset


class _Guess(NamedTuple):
    """A possible handshake, with the joined and the idle sockets that it would explain."""

    law: Law
    handshake: Handshake
    joined: frozenset[int]
    idle: dict[int, list[Row]]
    near: bool
    """Whether it would explain more if some bytes were allowed for."""


def elect_law(known: Listener) -> None:
    """Believe the law with the most votes; of laws that differ in the records only, the simplest.

    Producers alone do not tell how many records a request is; the others stay its rivals.
    """
    ranked = [law for law, _votes in known.votes.most_common()]
    if not ranked or known.votes[ranked[0]] < LEAST_VOTES:
        return
    close = [law for law in ranked if 2 * known.votes[law] > known.votes[ranked[0]]]
    if len({law[:2] for law in close}) == 1:
        law = min(close, key=lambda law: law.per_request)
        known.rivals = tuple(close) if len(close) > 1 else ()
        if known.law != law:
            known.law = law
            known.version += 1
            known.handshakes.clear()


def learn_handshakes(
    state: SourceState, port: int, sockets: Sequence[Socket], rows: Sequence[Row]
) -> list[Handshake]:
    """Return what was learned of handshakes at a port, from its open sockets and free nodes."""
    known = state.listener(port)
    joined = list(_joined(state, port))
    refined = _refine(state, known, port)
    if known.law is not None and _jitters(known, joined):
        known.tolerance, known.is_steady = JITTER, False
        known.version += 1
        return list(known.handshakes)
    resting = [socket for socket in sockets if socket.bracket.is_quiet and socket.reads > 1]
    if known.law is None and any(socket.reads <= PATIENT_READS for socket in resting):
        return refined
    searched = (
        known.version, len(joined), tuple((each.cookie, each.bracket) for each in resting),
        tuple(row.counts for row in rows),
    )  # fmt: skip
    if searched == known.searched:
        return refined
    known.searched = searched
    laws = [known.law] if known.law is not None else _possible_laws(rows)
    if known.rivals and not known.handshakes:
        laws = list(known.rivals)
    idle = {law: list(_idle(state, law, resting, rows)) for law in laws}
    for tolerance in dict.fromkeys((known.tolerance, JITTER)):
        found = [_best(known, law, joined, idle[law], tolerance) for law in laws]
        best = max(found, key=lambda each: each[0])
        if best[1] and not any(each[0] >= best[0] for each in found if each is not best):
            known.tolerance = tolerance
            for guess in best[1]:
                _believe(known, guess, rows)
            known.version += 1
            return [guess.handshake for guess in best[1]]
    return refined


def _believe(known: Listener, guess: _Guess, rows: Sequence[Row]) -> None:
    # A law that only idle sockets suggest stays open to what growth will tell.
    sure = known.told or (known.law is not None and not known.rivals) or guess.joined
    known.rivals = () if sure else tuple(_possible_laws(rows))
    known.law = guess.law
    known.handshakes = [
        each
        for each in known.handshakes
        if each.shape == EXACT or not same(each, guess.handshake, guess.law)
    ]
    known.handshakes.append(guess.handshake)
    enough = len(guess.joined) >= STEADY_JOINED or len(largest(guess.idle)) >= STEADY_IDLE
    varies = known.tolerance or guess.near
    known.is_steady = not varies and (known.is_steady or enough)


def _best(
    known: Listener, law: Law, joined: Sequence[_Seen], idle: Sequence[_Seen], tolerance: int
) -> tuple[float, list[_Guess]]:
    """Return the Ks that explain the most, and how much that is, if nothing explains as much."""
    unexplained = [seen for seen in joined if not _is_known(known, seen, law)]
    explained = {seen.socket.cookie for seen in idle if _is_known(known, seen, law)}
    idle = [seen for seen in idle if seen.socket.cookie not in explained]
    left = len({seen.socket.cookie for seen in idle})
    guesses = _guesses(known, law, unexplained, idle, tolerance)
    sets = [
        (_weight(guesses, chosen), chosen)
        for size in (1, 2)
        for chosen in combinations(range(len(guesses)), size)
    ]
    sets.sort(key=lambda each: (-each[0], len(each[1]), each[1]))
    if not sets:
        return 0.0, []
    weight, chosen = sets[0]
    believed = []
    for number in chosen:
        guess = _merged(guesses[number], guesses)
        alike = {
            each for each in range(len(guesses)) if _agree(guesses[number], guesses[each])
        }
        rival = next((other for other, without in sets if not alike & set(without)), 0.0)
        if weight > rival and _is_enough(guess, weight - rival, left, tolerance):
            believed.append(guess)
    return (weight if believed else 0.0), believed


def _merged(guess: _Guess, guesses: Sequence[_Guess]) -> _Guess:
    """Leave open how often a login holds the client.id where the sockets do not tell."""
    one = guess.handshake
    if one.length or one.shape != EXACT or len(one.repeats) > 1:
        return guess
    alike = {one.repeats[0]: one.out}
    for each in guesses:
        other = each.handshake
        if (
            other.length == 0
            and len(other.repeats) == 1
            and _agree(guess, each)
            and len(each.idle) >= len(guess.idle) - 1
        ):
            alike.setdefault(other.repeats[0], other.out)
    if len(alike) == 1:
        return guess
    lengths = sorted(row.login_length for rows in guess.idle.values() for row in rows)
    length = lengths[len(lengths) // 2]
    out = one.out + one.repeats[0] * length
    repeats = tuple(sorted(each for each, k in alike.items() if abs(k + each * length - out) <= JITTER))
    return guess._replace(handshake=Handshake(out, one.incoming, EXACT, length, repeats))


def _agree(one: _Guess, other: _Guess) -> bool:
    """Whether two Ks explain mostly the same sockets by the same nodes: they are one, then."""
    if one is other:
        return True
    mine = {(cookie, row) for cookie, rows in one.idle.items() for row in rows}
    others = {(cookie, row) for cookie, rows in other.idle.items() for row in rows}
    alike = len(mine & others) + len(one.joined & other.joined)
    return alike > len(others - mine) + len(other.joined - one.joined)


def _weight(guesses: Sequence[_Guess], chosen: Iterable[int]) -> float:
    """Say how much some Ks explain, less what it costs to assume one more."""
    joined: set[int] = set()
    edges: dict[int, list[Row]] = defaultdict(list)
    for number in chosen:
        joined |= guesses[number].joined
        for cookie, rows in guesses[number].idle.items():
            edges[cookie] += rows
    return JOINED_WEIGHT * len(joined) + len(largest(edges)) - 1.5 * len(tuple(chosen))


def _is_enough(guess: _Guess, lead: float, left: int, tolerance: int) -> bool:
    """Whether a handshake may be believed: seen at joined sockets, or needed to explain many."""
    joined, idle = len(guess.joined), len(largest(guess.idle))
    if joined > 1 or (joined and idle):
        return True
    if joined or guess.handshake.shape != EXACT:
        # Whole records more or less: idle sockets agree on that by chance too.
        return False
    if tolerance:
        # With some bytes more or less, chance agrees much more often.
        return idle >= STEADY_IDLE and lead > 1
    if idle >= LEAST_SUPPORT:
        return idle >= LEAST_SHARE * left or lead > 1
    # Two idle ones may agree by chance, unless there are no more.
    return idle == LEAST_SUPPORT - 1 and left == idle


def _refine(state: SourceState, known: Listener, port: int) -> list[Handshake]:
    """See by all that was joined whether handshakes vary, and what of a login they hold."""
    settled = [
        (row, pair)
        for socket in state.sockets.values()
        if (row := socket.row) is not None
        and socket.is_settled
        and socket.remote.port == port
        and (pair := socket.pairs.get(row)) is not None
    ]
    law = known.law
    if law is None or len(settled) == known.refined_by:
        return []
    known.refined_by = len(settled)
    offsets = [
        offset
        for row, pair in settled
        if pair.law == law and len(pair.bases) == 1
        for offset in offsets_of(row, pair)
    ]
    before = list(known.handshakes), known.is_steady
    exact = 0
    for number, handshake in enumerate(known.handshakes):
        near = [each for each in offsets if fits(each, handshake, law, JITTER)]
        tolerance = known.tolerance and JITTER
        repeats = tuple(
            repeats
            for repeats in handshake.repeats
            if all(
                fits(each, handshake._replace(repeats=(repeats,)), law, tolerance)
                for each in near
            )
        )
        if repeats:
            known.handshakes[number] = handshake._replace(repeats=repeats)
            exact += len({each.length for each in near}) and len(near)
    if not known.tolerance and exact >= STEADY_JOINED + STEADY_IDLE:
        known.is_steady = True
    if before == (known.handshakes, known.is_steady):
        return []
    known.version += 1
    return list(known.handshakes)


def _joined(state: SourceState, port: int) -> Iterator[_Seen]:
    law = state.listener(port).law
    for socket in state.sockets.values():
        row = socket.row
        if row is None or not socket.is_settled or socket.remote.port != port:
            continue
        pair = socket.pairs.get(row)
        if pair is None or socket.rule not in ("growth", "totals", "bounds"):
            continue
        if len(pair.bases) == 1 and (law is None or pair.law[:2] == law[:2]):
            for offset in offsets_of(row, pair):
                yield _Seen(socket, row, offset)


def _is_known(known: Listener, seen: _Seen, law: Law) -> bool:
    handshakes = [ZERO, *known.handshakes] if law == PLAIN else known.handshakes
    return any(
        each.shape == EXACT and fits(seen.offset, each, law, max(known.tolerance, JITTER))
        for each in handshakes
    )


def _jitters(known: Listener, joined: Sequence[_Seen]) -> bool:
    """Whether joined sockets show a handshake that is known, but for a few bytes."""
    law = known.law
    if law is None or known.tolerance:
        return False
    return any(
        any(fits(seen.offset, each, law, JITTER) for each in known.handshakes)
        and not any(fits(seen.offset, each, law, 0) for each in known.handshakes)
        for seen in joined
    )


def _possible_laws(rows: Iterable[Row]) -> list[Law]:
    return list(dict.fromkeys(law for row in rows for law in LAWS[row.library]))


def _idle(
    state: SourceState, law: Law, resting: Sequence[Socket], rows: Sequence[Row]
) -> Iterator[_Seen]:
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
                    yield _Seen(socket, row, Offset(k_out, k_in, shape, length, counts))


def _guesses(
    known: Listener, law: Law, joined: Sequence[_Seen], idle: Sequence[_Seen], tolerance: int
) -> list[_Guess]:
    """Return Ks that are worth a count, with what each explains."""
    by_in: dict[int, list[_Seen]] = defaultdict(list)
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
            seen.socket.cookie
            for seen in joined
            if fits(seen.offset, handshake, law, tolerance)
        }
        near, edges = False, defaultdict(list)
        around = (
            [seen for step in range(-JITTER, JITTER + 1) for seen in by_in.get(handshake.incoming + step, ())]
            if handshake.shape.exact_in
            else idle
        )  # fmt: skip
        for seen in around:
            if fits(seen.offset, handshake, law, tolerance):
                edges[seen.socket.cookie].append(seen.row)
        loose = {
            seen.socket.cookie for seen in around if fits(seen.offset, handshake, law, JITTER)
        }
        near = len(loose) > len(edges) or any(
            fits(seen.offset, handshake, law, JITTER)
            and not fits(seen.offset, handshake, law, tolerance)
            for seen in joined
        )
        found.append(_Guess(law, handshake, frozenset(shown), dict(edges), near))
    found.sort(key=lambda each: (-JOINED_WEIGHT * len(each.joined) - len(largest(each.idle))))
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


def _completed(
    law: Law, joined: Sequence[_Seen], idle: Sequence[_Seen]
) -> Iterator[Handshake]:
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


def _common_to_idle(idle: Sequence[_Seen], tolerance: int) -> Iterator[Handshake]:
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
