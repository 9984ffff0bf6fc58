"""Learn the laws and the handshakes of a process at a listener: from joined sockets and idle ones.

Clients tell what TLS they use, or growth does. Joined sockets show their handshakes. Idle sockets
agree on theirs: held against the nodes that they are, they give few different Ks, and held against
others they give many. So that set of Ks is looked for that explains the most sockets at once, each
by a node of its own.
Pure.
"""

from __future__ import annotations

__all__ = ["elect_law", "learn_handshakes"]

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING

from exporter.core.join_guesses import (
    JOINED_WEIGHT,
    Guess,
    Seen,
    guesses_of,
    resting_pairs,
)
from exporter.core.join_handshakes import (
    EXACT,
    JITTER,
    ZERO,
    Handshake,
    fits,
    offsets_of,
    same,
)
from exporter.core.join_laws import LAWS, PLAIN, Law
from exporter.core.join_matching import largest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exporter.core.join_handshakes import Offset
    from exporter.core.join_memory import Row, Socket
    from exporter.core.join_state import Listener, SourceState

# A law is believed when so many votes agree with it, and twice as many as with another.
LEAST_VOTES = 3

# A handshake that no joined socket shows must explain so many idle ones, and a good part of them:
# among many pairs some agree by chance.
LEAST_SUPPORT = 3
LEAST_SHARE = 1 / 2

# By so many that agree to the byte a handshake is taken to be always the same.
STEADY_JOINED = 4
STEADY_IDLE = 5

# Without any growth the law itself is a guess: growth is waited for so many reads.
PATIENT_READS = 4


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
            known.believe(law)


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
    resting = [socket for socket in sockets if socket.is_resting and socket.reads > 1]
    if all(socket.row is not None for socket in sockets):
        return refined
    if known.law is None and any(socket.reads <= PATIENT_READS for socket in resting):
        return refined
    searched = (
        known.version, len(joined), tuple((each.cookie, each.bracket) for each in resting),
        tuple(row.counts for row in rows if not row.moved),
    )  # fmt: skip
    if searched == known.searched:
        return refined
    known.searched = searched
    laws = [known.law] if known.law is not None else _possible_laws(rows)
    if known.rivals and not known.handshakes:
        laws = list(known.rivals)
    if not laws:
        return refined
    idle = {law: list(resting_pairs(state, law, resting, rows)) for law in laws}
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


def _believe(known: Listener, guess: Guess, rows: Sequence[Row]) -> None:
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
    known: Listener, law: Law, joined: Sequence[Seen], idle: Sequence[Seen], tolerance: int
) -> tuple[float, list[Guess]]:
    """Return the Ks that explain the most, and how much that is, if nothing explains as much."""
    unexplained = [seen for seen in joined if not _is_known(known, seen, law)]
    explained = {seen.socket.cookie for seen in idle if _is_known(known, seen, law)}
    idle = [seen for seen in idle if seen.socket.cookie not in explained]
    left = len({seen.socket.cookie for seen in idle})
    guesses = guesses_of(known, law, unexplained, idle, tolerance)
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
        alike = {each for each in range(len(guesses)) if _agree(guesses[number], guesses[each])}
        rival = next((other for other, without in sets if not alike & set(without)), 0.0)
        if weight > rival and _is_enough(guess, weight - rival, left, tolerance):
            believed.append(guess)
    return (weight if believed else 0.0), believed


def _merged(guess: Guess, guesses: Sequence[Guess]) -> Guess:
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
    repeats = tuple(
        sorted(each for each, k in alike.items() if abs(k + each * length - out) <= JITTER)
    )
    return guess._replace(handshake=Handshake(out, one.incoming, EXACT, length, repeats))


def _agree(one: Guess, other: Guess) -> bool:
    """Whether two Ks explain mostly the same sockets by the same nodes: they are one, then."""
    if one is other:
        return True
    mine = {(cookie, row) for cookie, rows in one.idle.items() for row in rows}
    others = {(cookie, row) for cookie, rows in other.idle.items() for row in rows}
    alike = len(mine & others) + len(one.joined & other.joined)
    return alike > len(others - mine) + len(other.joined - one.joined)


def _weight(guesses: Sequence[Guess], chosen: Iterable[int]) -> float:
    """Say how much some Ks explain, less what it costs to assume one more."""
    joined: set[int] = set()
    edges: dict[int, list[Row]] = defaultdict(list)
    for number in chosen:
        joined |= guesses[number].joined
        for cookie, rows in guesses[number].idle.items():
            edges[cookie] += rows
    return JOINED_WEIGHT * len(joined) + len(largest(edges)) - 1.5 * len(tuple(chosen))


def _is_enough(guess: Guess, lead: float, left: int, tolerance: int) -> bool:
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
                fits(each, handshake._replace(repeats=(repeats,)), law, tolerance) for each in near
            )
        )
        if repeats:
            refined = handshake._replace(repeats=repeats)
            known.handshakes[number] = _centred(refined, near) if tolerance else refined
            exact += len({each.length for each in near}) and len(near)
    if not known.tolerance and exact >= STEADY_JOINED + STEADY_IDLE:
        known.is_steady = True
    if before == (known.handshakes, known.is_steady):
        return []
    known.version += 1
    return list(known.handshakes)


def _centred(handshake: Handshake, near: Sequence[Offset]) -> Handshake:
    """Return what varies by some bytes from its middle: it was learned from any of its values."""
    whole = [each for each in near if each.shape == EXACT]
    if handshake.shape != EXACT or len(whole) < LEAST_SUPPORT:
        return handshake
    repeats = handshake.repeats[0]
    outs = [each.out - repeats * (each.length - handshake.length) for each in whole]
    ins = [each.incoming for each in whole]
    return handshake._replace(out=(min(outs) + max(outs)) // 2, incoming=(min(ins) + max(ins)) // 2)


def _joined(state: SourceState, port: int) -> Iterator[Seen]:
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
                yield Seen(socket, row, offset)


def _is_known(known: Listener, seen: Seen, law: Law) -> bool:
    handshakes = [ZERO, *known.handshakes] if law == PLAIN else known.handshakes
    return any(
        each.shape == EXACT and fits(seen.offset, each, law, max(known.tolerance, JITTER))
        for each in handshakes
    )


def _jitters(known: Listener, joined: Sequence[Seen]) -> bool:
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
