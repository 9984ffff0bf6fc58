"""Which assignments of sockets to nodes the laws allow, and what all of them share.

Nothing is preferred: a node is an option for a socket while one whole assignment has it there.
Pure.
"""

from __future__ import annotations

__all__ = ["Problem", "Search", "saturating"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from exporter.core.join_laws import PLAIN
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from exporter.core.join_history import Row, Socket
    from exporter.core.join_pairs import Pair
    from exporter.model import ClientKey

Left = TypeVar("Left", bound="Hashable")
Right = TypeVar("Right", bound="Hashable")

# Steps of one search: a client with eight connections takes some hundred, and this many 20 ms.
_MOST_STEPS = 3_000

# A search that was given up is not tried at each read.
_READS_OF_REST = 5

# Two full handshakes with one broker differ by signatures and nonces alone, two resumed ones by
# their tickets: up to 16 bytes were seen (research, TLS section 1 and 4).
_JITTER = 16

# A resumed handshake lacks the broker's certificates: 900 bytes less for the smallest chain.
_FULL_IS_MORE = 256

# Ages of two sockets are compared with the kernel's ticks and a thread that was interrupted.
_ORDER_SLACK = 0.05


@dataclass(slots=True)
class Problem:
    """Sockets, and for each the pairs that it may be.

    `is_complete`: these sockets are all the connections that their clients ever opened.
    """

    options: dict[Socket, list[Pair]]
    is_complete: bool = False
    most: Mapping[ClientKey, int] = field(default_factory=dict)
    """How many of the sockets each client may have, by client, where that is known."""


class _TooManyError(Exception):
    """The search was given up: nothing may be concluded."""


class Search:
    """The search for one set of sockets and nodes, over reads.

    Reads only narrow what a pair may be. So what no assignment had once has none later, and an
    assignment that was found is tried again before another one is searched.
    """

    def __init__(self) -> None:
        self._sides: object = None
        self._with_addresses = True
        self._excluded: set[Pair] = set()
        self._known: list[dict[Socket, Pair]] = []
        self._rest = 0
        self._begin(Problem({}))

    def _begin(self, problem: Problem) -> None:
        self._problem = problem
        self._order = sorted(problem.options, key=lambda each: len(problem.options[each]))
        self._steps = 0
        self._agreed: dict[tuple[Pair, Pair], bool] = {}
        self._clear()

    def _clear(self) -> None:
        self._chosen: dict[Socket, Pair] = {}
        self._used: set[Row] = set()
        self._held: dict[ClientKey, int] = {}

    def options(self, problem: Problem) -> dict[Socket, list[Pair]] | None:
        """Return for each socket the pairs that some whole assignment has; None: there is none.

        Empty where there are too many assignments to know. The first pair of each list is that of
        one and the same assignment.
        """
        sides = (
            frozenset(problem.options),
            frozenset(pair.row for pairs in problem.options.values() for pair in pairs),
        )
        if sides != self._sides:
            self._sides, self._with_addresses, self._rest = sides, True, 0
            self._excluded.clear()
            self._known.clear()
        if self._rest > 0:
            self._rest -= 1
            return {}
        self._begin(problem)
        try:
            found = self._run()
            if found is None and self._with_addresses:
                # Brokers behind one address, or one broker behind several.
                self._with_addresses = False
                self._excluded.clear()
                self._agreed.clear()
                found = self._run()
        except _TooManyError:
            self._rest = _READS_OF_REST
            return {}
        return found

    def _run(self) -> dict[Socket, list[Pair]] | None:
        self._known = [known for known in self._known if self._is_valid(known)]
        if not self._known:
            first = self._solve()
            if first is None:
                return None
            self._known.append(first)
        found: dict[Socket, dict[Pair, None]] = {each: {} for each in self._problem.options}
        for known in self._known:
            for socket, pair in known.items():
                found[socket][pair] = None
        for socket, pairs in self._problem.options.items():
            for pair in pairs:
                if pair in found[socket] or pair in self._excluded:
                    continue
                more = self._solve(fixed=(socket, pair))
                if more is None:
                    self._excluded.add(pair)
                    continue
                self._known.append(more)
                for other, its in more.items():
                    found[other][its] = None
        return {socket: list(pairs) for socket, pairs in found.items()}

    def _is_valid(self, known: Mapping[Socket, Pair]) -> bool:
        """Whether an assignment that was found is one still."""
        self._clear()
        for socket, pair in known.items():
            if pair not in self._problem.options.get(socket, ()) or not self._may_add(pair):
                return False
            self._add(socket, pair)
        return not self._problem.is_complete or _metadata_came_first(self._chosen.values())

    def _solve(self, fixed: tuple[Socket, Pair] | None = None) -> dict[Socket, Pair] | None:
        self._clear()
        if fixed is not None:
            self._add(*fixed)
        rest = [socket for socket in self._order if socket not in self._chosen]
        return dict(self._chosen) if self._extend(rest, 0) else None

    def _extend(self, rest: Sequence[Socket], place: int) -> bool:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooManyError
        if place == len(rest):
            return not self._problem.is_complete or _metadata_came_first(self._chosen.values())
        socket = rest[place]
        for pair in self._problem.options[socket]:
            if pair not in self._excluded and self._may_add(pair):
                self._add(socket, pair)
                if self._extend(rest, place + 1):
                    return True
                self._remove(socket)
        return False

    def _may_add(self, pair: Pair) -> bool:
        if pair.row in self._used:
            return False
        most = self._problem.most.get(pair.row.client)
        if most is not None and self._held.get(pair.row.client, 0) >= most:
            return False
        return all(self._agree(pair, other) for other in self._chosen.values())

    def _agree(self, one: Pair, other: Pair) -> bool:
        known = self._agreed.get((one, other))
        if known is None:
            known = _agree(one, other, self._problem, with_addresses=self._with_addresses)
            self._agreed[one, other] = self._agreed[other, one] = known
        return known

    def _add(self, socket: Socket, pair: Pair) -> None:
        self._chosen[socket] = pair
        self._used.add(pair.row)
        self._held[pair.row.client] = self._held.get(pair.row.client, 0) + 1

    def _remove(self, socket: Socket) -> None:
        pair = self._chosen.pop(socket)
        self._used.discard(pair.row)
        self._held[pair.row.client] -= 1


def _agree(one: Pair, other: Pair, problem: Problem, *, with_addresses: bool) -> bool:
    """Whether two sockets of one process may be these two nodes at once."""
    is_here = one.socket.remote == other.socket.remote
    if one.row.client == other.row.client:
        if one.law != other.law:
            return False
        mine, others = one.row.node.broker_id, other.row.node.broker_id
        if with_addresses and None not in (mine, others) and (mine == others) != is_here:
            return False
        if problem.is_complete and not _in_order(one, other):
            return False
        if one.law == PLAIN and not _equal_handshakes(one, other):
            return False
    elif one.law != other.law:
        return True
    if is_here and one.row.library is other.row.library is Library.LIBRDKAFKA:
        # It never resumes a session and counts its logins (research, TLS sections 1 and 4).
        return _equal_handshakes(one, other)
    if not is_here or one.law == PLAIN:
        return True
    return _certificates_agree(one, other, problem)


def _in_order(one: Pair, other: Pair) -> bool:
    """Whether bootstrap connections were opened before all others: those come from metadata."""
    if one.row.is_learned == other.row.is_learned:
        return True
    early, late = (other, one) if one.row.is_learned else (one, other)
    return early.socket.opened_from <= late.socket.opened_by


def _equal_handshakes(one: Pair, other: Pair) -> bool:
    """Whether two handshakes or logins weigh the same, but for nonces and signatures."""
    return all(
        mine.distance(others) <= _JITTER
        for mine, others in zip(one.handshake(), other.handshake(), strict=True)
    )


def _certificates_agree(one: Pair, other: Pair, problem: Problem) -> bool:
    """Whether one broker sent both what it sends: its certificates, or nothing but a resumption.

    A session is resumed only after a full handshake with the same broker, and learned
    connections come after bootstrap ones.
    """
    mine, others = one.handshake()[1], other.handshake()[1]
    apart = mine.distance(others)
    if apart <= _JITTER:
        return True
    if max(mine.high - others.low, others.high - mine.low) <= _FULL_IS_MORE:
        return False
    if not problem.is_complete or one.row.client != other.row.client:
        return True
    if one.row.is_learned == other.row.is_learned:
        return True
    first, later = (others, mine) if one.row.is_learned else (mine, others)
    return first.high + _JITTER >= later.low


def _metadata_came_first(chosen: Iterable[Pair]) -> bool:
    """Whether each client's brokers were learned by a connection that was not used afterwards.

    It is open: all that the client ever opened are. So it has been silent for longer than any
    connection that was opened with what it brought.
    """
    bootstrap: dict[object, float] = {}
    learned: dict[object, float] = {}
    for pair in chosen:
        times = learned if pair.row.is_learned else bootstrap
        at = pair.socket.active_at
        times[pair.row.client] = min(at, times.get(pair.row.client, at))
    return all(
        client in bootstrap and bootstrap[client] <= at + _ORDER_SLACK
        for client, at in learned.items()
    )


def saturating(
    edges: Mapping[Left, Sequence[Right]], must: Iterable[Left]
) -> dict[Right, list[Left]] | None:
    """Return for each right side that every matching of all `must` uses who may have it there.

    None where there is no such matching.
    """
    needed = set(must)
    if not _covers(edges, needed, set()):
        return None
    owners: dict[Right, list[Left]] = {}
    for left, rights in edges.items():
        for right in rights:
            if _covers(edges, needed - {left}, {right}):
                owners.setdefault(right, []).append(left)
    return {right: who for right, who in owners.items() if not _covers(edges, needed, {right})}


def _covers(
    edges: Mapping[Left, Sequence[Right]], sources: Iterable[Left], taken: set[Right]
) -> bool:
    """Whether all sources can be matched at once, without what is taken (augmenting paths)."""
    matched: dict[Right, Left] = {}

    def augment(source: Left, seen: set[Right]) -> bool:
        for target in edges.get(source, ()):
            if target in seen or target in taken:
                continue
            seen.add(target)
            if target not in matched or augment(matched[target], seen):
                matched[target] = source
                return True
        return False

    return all(augment(source, set()) for source in sources)
