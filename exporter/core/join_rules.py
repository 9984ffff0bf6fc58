"""The rules that choose which free socket is which free node, from the surest down.

1. totals     the totals are equal since the socket was opened
2. growth     they grew alike, twice or more
3. handshake  they differ by a handshake or login that other sockets of this process show
4. bounds     the client's totals lay between the socket's before and after, read after read
5. endpoint   the only open node that names this address, for the only socket to it (librdkafka)

Within a rule the assignment is the largest one-to-one matching; a socket that could have had
other nodes as well says so.
Pure.
"""

from __future__ import annotations

__all__ = ["Match", "equal_matches", "next_matches"]

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.join_handshakes import JITTER, ZERO, fits, offsets_of
from exporter.core.join_laws import PLAIN
from exporter.core.join_matching import matched
from exporter.model import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exporter.core.join_matching import Pick
    from exporter.core.join_pair import PairHistory
    from exporter.core.join_state import Look, Row, SourceState

# Two growths that agree: one may agree by chance (1 of 13,000 wrong pairs measured), two do not.
LEAST_GROWTHS = 2

# Clients that do the same at the same time are told apart sooner or later; so long they may wait.
PATIENT_GROWTHS = 4

# Idle totals are believed when two quiet reads found them the same.
LEAST_QUIET = 2

# What cannot be told by figures waits for so many reads for a better rule.
PATIENT_READS = 5

_PATIENT = frozenset({"endpoint"})


class Match(NamedTuple):
    """A socket and the node that it is, by a rule; `equals` could be it as well."""

    cookie: int
    row: Row
    equals: tuple[Row, ...]
    rule: str
    contested: bool = False

    @property
    def is_soft(self) -> bool:
        """Whether there was a choice."""
        return bool(self.equals) or self.contested


Edges = dict[int, list["Row"]]


def next_matches(state: SourceState, looks: Mapping[int, Look]) -> list[Match]:
    """Return the matches of the surest rule that leaves no choice for some socket."""
    for name, rule in _RULES.items():
        edges = rule(state, looks)
        certain = [
            Match(cookie, pick.row, (), name)
            for cookie, pick in matched(edges).items()
            if pick.is_certain and _is_ripe(state, cookie, pick, name)
        ]
        if certain:
            return certain
    return []


def equal_matches(state: SourceState, looks: Mapping[int, Look]) -> list[Match]:
    """Return matches where the figures leave a choice: all sockets at once, each by its best rule.

    To be asked when nothing is certain any more: what is given here in a mere order must not
    make anything else look certain.
    """
    edges: Edges = {}
    rules: dict[int, str] = {}
    for name in ("totals", "growth", "handshake"):
        left = {cookie: look for cookie, look in looks.items() if cookie not in edges}
        for cookie, rows in _RULES[name](state, left).items():
            edges[cookie] = rows
            rules[cookie] = name
    return [
        Match(cookie, pick.row, pick.equals, rules[cookie], pick.contested)
        for cookie, pick in matched(edges).items()
        if _is_ripe(state, cookie, pick, rules[cookie])
    ]


def _is_ripe(state: SourceState, cookie: int, pick: Pick, rule: str) -> bool:
    """Whether a growth in step was seen often enough, and nothing better is to be waited for."""
    if rule == "growth":
        least = LEAST_GROWTHS if pick.is_certain else PATIENT_GROWTHS
        return state.pairs[cookie][pick.row].growths >= least
    if rule in _PATIENT:
        return state.reads.get(cookie, 0) >= PATIENT_READS
    return True


def _edges(
    state: SourceState,
    looks: Mapping[int, Look],
    rule: Callable[[Look, Row, PairHistory], bool],
    *,
    elsewhere: bool = False,
) -> Edges:
    """Return the pairs that a rule allows, those at the node's known address first."""
    edges: Edges = {}
    for cookie, look in sorted(looks.items(), key=lambda item: _age_order(item[1])):
        allowed = [
            row
            for row, pair in state.pairs.get(cookie, {}).items()
            if pair.is_possible and state.rows[row].cookie is None and rule(look, row, pair)
        ]
        here = [row for row in allowed if state.fit_of(row, look.remote) >= 0]
        if here or (elsewhere and allowed):
            edges[cookie] = sorted(here or allowed, key=lambda row: _use_order(state, row))
    return edges


def _age_order(look: Look) -> tuple[int, float, int]:
    """Order sockets so that of equal ones the first opened comes first.

    A client connects to a bootstrap server before it learns of the broker behind it, and with a
    full handshake (more bytes in); only later connections to the same broker resume it.
    """
    return -look.bracket.in_low, look.opened_at, look.cookie


def _use_order(state: SourceState, row: Row) -> tuple[bool, Row]:
    return state.rows[row].node.role is not Role.BOOTSTRAP, row


def _by_totals(state: SourceState, looks: Mapping[int, Look]) -> Edges:
    return _edges(state, looks, lambda _look, _row, pair: pair.is_exact, elsewhere=True)


def _by_growth(state: SourceState, looks: Mapping[int, Look]) -> Edges:
    """Pairs that grew alike once are in, so that no rival is overlooked."""

    def grew_alike(look: Look, _row: Row, pair: PairHistory) -> bool:
        return pair.growths > 0 and pair.law == state.ports[look.remote.port].law

    return _edges(state, looks, grew_alike, elsewhere=True)


def _by_handshake(state: SourceState, looks: Mapping[int, Look]) -> Edges:
    if not any(known.handshakes for known in state.ports.values()):
        return {}
    edges = _edges(state, looks, _handshake_rule(state, None))
    closest = _handshake_rule(state, 0)
    for cookie, rows in edges.items():
        if len(rows) > 1:
            # Where bytes may lack, the nodes that lack none come first; the others stay equals.
            pairs, look = state.pairs[cookie], looks[cookie]
            rows.sort(key=lambda row: not closest(look, row, pairs[row]))
    return edges


def _handshake_rule(
    state: SourceState, tolerance: int | None
) -> Callable[[Look, Row, PairHistory], bool]:
    """Return the rule; without a tolerance, handshakes may vary where they were not seen steady."""

    def agrees(look: Look, row: Row, pair: PairHistory) -> bool:
        known = state.ports[look.remote.port]
        law = known.law
        if law is None or pair.law != law or not known.handshakes:
            return False
        if pair.quiet_samples < LEAST_QUIET and not pair.growths:
            return False
        allowed = tolerance
        if allowed is None:
            allowed = 0 if known.is_steady else JITTER
        return any(
            fits(offset, handshake, law, allowed)
            for offset in offsets_of(row, pair)
            for handshake in known.handshakes
        )

    return agrees


def _by_bounds(state: SourceState, looks: Mapping[int, Look]) -> Edges:
    def bounded(look: Look, _row: Row, pair: PairHistory) -> bool:
        known = state.ports[look.remote.port]
        if known.law not in (None, pair.law):
            return False
        handshakes = [*known.handshakes, *([ZERO] if pair.law == PLAIN else [])]
        return any(pair.may_have(each.out, each.incoming) for each in handshakes)

    return _edges(state, looks, bounded)


def _by_endpoint(state: SourceState, looks: Mapping[int, Look]) -> Edges:
    """Only where one socket goes to that address: among several, order would decide."""
    crowd = Counter(look.remote for look in looks.values())
    crowd.update(remote for row, _pair, remote in state.joined.values() if state.rows[row].is_soft)

    def names_it(look: Look, row: Row, _pair: PairHistory) -> bool:
        node = state.rows[row].node
        return (
            node.remote_name is not None
            and node.connection_state == "UP"
            and crowd[look.remote] == 1
        )

    return _edges(state, looks, names_it)


_RULES: dict[str, Callable[[SourceState, Mapping[int, Look]], Edges]] = {
    "totals": _by_totals,
    "growth": _by_growth,
    "handshake": _by_handshake,
    "bounds": _by_bounds,
    "endpoint": _by_endpoint,
}
