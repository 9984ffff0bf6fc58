"""The rules that choose which open socket is which free node, from the surest down.

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

__all__ = ["NAMES", "Match", "certain_matches", "evidence_of", "left_open", "names_of"]

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.join_handshakes import (
    EXACT,
    JITTER,
    ZERO,
    could_fit,
    offsets_of,
    tells_of,
)
from exporter.core.join_laws import PLAIN
from exporter.core.join_matching import matched
from exporter.model import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.core.join_matching import Pick
    from exporter.core.join_memory import Row, Socket
    from exporter.core.join_pair import PairHistory
    from exporter.core.join_state import SourceState

# Two growths that agree: one may agree by chance (1 of 13,000 wrong pairs measured), two do not.
LEAST_GROWTHS = 2

# Clients that do the same at the same time are told apart sooner or later; so long they may wait.
PATIENT_GROWTHS = 4

# A node that has just begun to count has not had the time to grow in step: so many reads are waited
# for that, if the socket has not been there much longer.
YOUNG_READS = 2

# What cannot be told by figures waits for so many reads for a better rule.
PATIENT_READS = 5

NAMES = ("totals", "growth", "handshake", "bounds", "endpoint")

# Names of equals that are shown; of a hundred equal clients nobody reads them all.
MOST_EQUALS = 32

_Edges = dict[int, list["Row"]]


class Match(NamedTuple):
    """A socket and the node that it is, by a rule; `equals` could be it as well."""

    socket: Socket
    row: Row
    rule: str
    equals: tuple[Row, ...] = ()
    contested: bool = False


def certain_matches(state: SourceState, sockets: Sequence[Socket], rule: str) -> list[Match]:
    """Return what a rule leaves no choice for."""
    by_cookie = {socket.cookie: socket for socket in sockets}
    edges, untold = _edges(state, sockets, rule)
    young = _young_rows(state) if rule == "growth" and edges else []
    return [
        Match(by_cookie[cookie], pick.row, rule)
        for cookie, pick in matched(edges).items()
        if pick.is_certain
        and (cookie, pick.row) not in untold
        and _is_ripe(by_cookie[cookie], pick, rule)
        and not any(_may_yet_grow(state, by_cookie[cookie], row) for row in young)
    ]


def _young_rows(state: SourceState) -> list[Row]:
    return [
        row
        for row in state.rows
        if row.counts is not None and not row.is_settled and row.reads <= YOUNG_READS
    ]


def _may_yet_grow(state: SourceState, socket: Socket, row: Row) -> bool:
    """Whether a young node may turn out to grow in step with a socket that is as young."""
    pair = socket.pairs.get(row)
    return (
        socket.reads <= row.reads + YOUNG_READS
        and state.fit_of(row, socket.remote) >= 0
        and (pair is None or not pair.growths)
    )


def left_open(state: SourceState, sockets: Sequence[Socket]) -> list[Match]:
    """Return matches where the figures leave a choice: all sockets at once, each by its best rule.

    To be asked when nothing is certain any more: what is given here in a mere order must not
    make anything else look certain.
    """
    by_cookie = {socket.cookie: socket for socket in sockets}
    edges: _Edges = {}
    rules: dict[int, str] = {}
    untold: set[tuple[int, Row]] = set()
    for rule in ("totals", "growth", "handshake"):
        rest = [socket for socket in sockets if socket.cookie not in edges]
        found, more = _edges(state, rest, rule)
        untold |= more
        for cookie, rows in found.items():
            edges[cookie] = rows
            rules[cookie] = rule
    return [
        Match(by_cookie[cookie], pick.row, rules[cookie], pick.equals, pick.contested)
        for cookie, pick in matched(edges).items()
        if (cookie, pick.row) not in untold and _is_ripe(by_cookie[cookie], pick, rules[cookie])
    ]


def _is_ripe(socket: Socket, pick: Pick[Row], rule: str) -> bool:
    """Whether a growth in step was seen often enough, and nothing better is to be waited for."""
    if rule == "growth":
        least = LEAST_GROWTHS if pick.is_certain else PATIENT_GROWTHS
        return socket.pairs[pick.row].growths >= least
    if rule == "bounds":
        return socket.pairs[pick.row].is_bounded
    if rule == "endpoint":
        return socket.reads >= PATIENT_READS
    return True


def _edges(
    state: SourceState, sockets: Sequence[Socket], rule: str
) -> tuple[_Edges, set[tuple[int, Row]]]:
    """Return the pairs that a rule allows, those at the node's known address first.

    Second those of them that only might be: they keep others from looking certain.
    """
    allows = _Rule(state, sockets, rule)
    edges: _Edges = {}
    for socket in sorted(sockets, key=_age_order):
        allowed = [
            row
            for row, pair in socket.pairs.items()
            if not row.is_settled and pair.is_possible and allows(socket, row, pair)
        ]
        here = [row for row in allowed if state.fit_of(row, socket.remote) >= 0]
        if here or (rule in ("totals", "growth") and allowed):
            unshaken = [row for row in here or allowed if not socket.pairs[row].rebased]
            edges[socket.cookie] = sorted(
                unshaken or here or allowed, key=lambda row: _use_order(socket, row)
            )
    return edges, allows.untold


def _age_order(socket: Socket) -> tuple[int, float, int]:
    """Order sockets so that of equal ones the first opened comes first.

    A client connects to a bootstrap server before it learns of the broker behind it, and with a
    full handshake (more bytes in); only later connections to the same broker resume it.
    """
    return -socket.bracket.in_low, socket.opened_at, socket.cookie


def _use_order(socket: Socket, row: Row) -> tuple[bool, bool, tuple[str, ...]]:
    client = row.client
    return (
        row is not socket.row,
        row.node.role is not Role.BOOTSTRAP,
        (client.kind, client.client_id, client.instance, row.node_id),
    )


class _Rule:
    """Whether a rule allows a pair, with what it needs to know of all sockets at once."""

    def __init__(self, state: SourceState, sockets: Iterable[Socket], rule: str) -> None:
        self._state = state
        self._allows = getattr(self, f"_{rule}")
        self.untold: set[tuple[int, Row]] = set()
        self._crowd = (
            Counter(socket.remote for socket in sockets) if rule == "endpoint" else Counter()
        )

    def __call__(self, socket: Socket, row: Row, pair: PairHistory) -> bool:
        return bool(self._allows(socket, row, pair))

    def _totals(self, _socket: Socket, _row: Row, pair: PairHistory) -> bool:
        return pair.is_exact

    def _growth(self, socket: Socket, _row: Row, pair: PairHistory) -> bool:
        """Pairs that grew alike once are in, so that no rival is overlooked."""
        return pair.growths > 0 and pair.law == self._state.listener(socket.remote.port).law

    def _handshake(self, socket: Socket, row: Row, pair: PairHistory) -> bool:
        known = self._state.listener(socket.remote.port)
        if known.law is None or pair.law != known.law or not known.handshakes:
            return False
        if not pair.growths and not socket.rests_with(row):
            return False
        allowed = 0 if known.is_steady else JITTER
        could = [
            (offset, handshake)
            for offset in offsets_of(row, pair)
            for handshake in known.handshakes
            if could_fit(offset, handshake, known.law, allowed)
        ]
        if could and not any(tells_of(*each) for each in could):
            self.untold.add((socket.cookie, row))
            return any(handshake.shape != EXACT for _offset, handshake in could)
        return bool(could)

    def _bounds(self, socket: Socket, row: Row, pair: PairHistory) -> bool:
        """Pairs that were read once are in, so that no rival is overlooked."""
        known = self._state.listener(socket.remote.port)
        if known.law not in (None, pair.law):
            return False
        handshakes = [*known.handshakes, *([ZERO] if pair.law == PLAIN else [])]
        varies = bool(known.handshakes) and not known.is_steady
        return any(
            pair.may_have(
                each.out + repeats * (row.login_length - each.length),
                each.incoming,
                JITTER if varies else 0,
            )
            for each in handshakes
            for repeats in each.repeats
        )

    def _endpoint(self, socket: Socket, row: Row, _pair: PairHistory) -> bool:
        """Only where one socket goes to that address: among several, order would decide."""
        node = row.node
        return (
            node.remote_name is not None
            and node.connection_state == "UP"
            and self._crowd[socket.remote] == 1
        )


def evidence_of(row: Row, rule: str, remote: object) -> str:
    """Say by which rule a socket is a node."""
    counts = row.counts
    figures = f"{counts.outgoing} B out and {counts.incoming} B in" if counts else "no bytes"
    claim = f"the client counts {figures} for node {row.node_id}"
    return {
        "totals": f"{claim}, and the kernel the same for this socket",
        "growth": f"{claim}; they grow in step with this socket's and with no other's",
        "handshake": f"{claim}; this socket has those and the handshake that its siblings have",
        "bounds": f"{claim}; read after read that lies between this socket's before and after",
        "endpoint": f"{claim}, its only open node at {remote}",
    }[rule]


def names_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """Name clients' nodes in words."""
    known: Mapping[tuple[str, ...], Row] = {
        (row.client.kind, row.client.client_id, row.client.instance, row.node_id): row
        for row in rows
    }
    return tuple(
        f"{row.client.kind} {row.client.client_id!r} node {row.node_id}"
        for _name, row in sorted(known.items())[:MOST_EQUALS]
    )
