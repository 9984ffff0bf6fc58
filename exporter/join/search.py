"""Which assignments of sockets to nodes the laws allow, and what all of them share.

Nothing is preferred: a node is an option for a socket while one whole assignment has it there.
Pure.
"""

from __future__ import annotations

__all__ = ["MOST_STEPS", "Left", "Problem", "Right", "Search", "certificates_agree", "saturating"]

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

from exporter.join.laws import PLAIN
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from exporter.join.history import Row, Socket
    from exporter.join.pairs import Pair
    from exporter.model import ClientKey

Left = TypeVar("Left", bound="Hashable")
Right = TypeVar("Right", bound="Hashable")

# Looks at pairs in all searches of one read: so many take half a second.
MOST_STEPS = 200_000

# A search that took so long is not done again at each read.
_READS_OF_REST = 10

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
    """The search was given up: what it was to disprove stays possible."""


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
        self._last: dict[Socket, list[Pair]] = {}
        self._rest = 0
        self._most_steps = MOST_STEPS
        self._begin(Problem({}))

    def _begin(self, problem: Problem) -> None:
        self._problem = problem
        self.steps = 0
        self._agreed: dict[tuple[Pair, Pair], bool] = {}

    def options(
        self, problem: Problem, most_steps: int = MOST_STEPS
    ) -> dict[Socket, list[Pair]] | None:
        """Return for each socket the pairs that no law excludes; None: there is no assignment.

        The first pair of each list is that of one and the same assignment, where one was found.
        """
        self.steps, self._most_steps = 0, most_steps
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
            # Empty where the last search disproved every assignment: then it is made again.
            left = {
                socket: [pair for pair in self._last.get(socket, ()) if pair in pairs]
                for socket, pairs in problem.options.items()
            }
            if all(left.values()):
                return left
        self._begin(problem)
        found = self._run()
        if found is None and self._with_addresses:
            # Brokers behind one address, or one broker behind several.
            self._with_addresses = False
            self._excluded.clear()
            self._agreed.clear()
            found = self._run()
        if self.steps > self._most_steps:
            self._rest = _READS_OF_REST
        self._last = found or {}
        return found

    def _run(self) -> dict[Socket, list[Pair]] | None:
        self._known = [known for known in self._known if self._is_valid(known)]
        domains = {
            socket: [pair for pair in pairs if pair not in self._excluded]
            for socket, pairs in self._problem.options.items()
        }
        found: dict[Socket, dict[Pair, None]] = {each: {} for each in domains}
        if not self._known:
            try:
                first = self._solve(domains, {})
            except _TooManyError:
                first = {}
            if first is None:
                return None
            self._known = [first] if first else []
        for known in self._known:
            for socket, pair in known.items():
                found[socket][pair] = None
        for socket, pairs in domains.items():
            for pair in list(pairs):
                if pair not in found[socket]:
                    self._try(domains, pair, found)
        return (
            {socket: list(pairs) for socket, pairs in found.items()}
            if all(domains.values())
            else None
        )

    def _try(
        self,
        domains: dict[Socket, list[Pair]],
        pair: Pair,
        found: dict[Socket, dict[Pair, None]],
    ) -> None:
        """Note an assignment that has a pair, or that there is none."""
        more = self._with(domains, pair)
        if more is None:
            self._excluded.add(pair)
            domains[pair.socket].remove(pair)
            return
        if more:
            self._known.append(more)
        for other, its in (more or {pair.socket: pair}).items():
            found[other][its] = None

    def _with(
        self, domains: Mapping[Socket, Sequence[Pair]], pair: Pair
    ) -> dict[Socket, Pair] | None:
        """Return an assignment that has a pair; None: there is none; empty: it takes too long."""
        narrowed = self._narrow(domains, pair, {})
        if narrowed is None:
            return None
        if self.steps > self._most_steps:
            return {}
        try:
            return self._solve(narrowed, {pair.socket: pair})
        except _TooManyError:
            return {}

    def _is_valid(self, known: Mapping[Socket, Pair]) -> bool:
        """Whether an assignment that was found is one still."""
        options = self._problem.options
        pairs = list(known.values())
        held = Counter(pair.row.client for pair in pairs)
        return (
            all(pair in options.get(socket, ()) for socket, pair in known.items())
            and all(held[client] <= most for client, most in self._problem.most.items())
            and all(self._agree(*two) for two in combinations(pairs, 2))
            and self._may_end(known)
        )

    def _may_end(self, chosen: Mapping[Socket, Pair]) -> bool:
        return not self._problem.is_complete or _metadata_came_first(chosen.values())

    def _solve(
        self, domains: Mapping[Socket, Sequence[Pair]], chosen: dict[Socket, Pair]
    ) -> dict[Socket, Pair] | None:
        """Return an assignment of all sockets that goes on from what is chosen; None: none."""
        if not domains:
            return dict(chosen) if self._may_end(chosen) else None
        if not self._are_enough(domains, chosen):
            return None
        socket = min(domains, key=lambda each: len(domains[each]))
        for pair in domains[socket]:
            narrowed = self._narrow(domains, pair, chosen)
            if narrowed is None:
                continue
            if self.steps > self._most_steps:
                raise _TooManyError
            chosen[socket] = pair
            found = self._solve(narrowed, chosen)
            if found is not None:
                return found
            del chosen[socket]
        return None

    def _narrow(
        self, domains: Mapping[Socket, Sequence[Pair]], pair: Pair, chosen: Mapping[Socket, Pair]
    ) -> dict[Socket, list[Pair]] | None:
        """Return what is left for the other sockets with one pair more; None: one has nothing."""
        client = pair.row.client
        held = 1 + sum(each.row.client == client for each in chosen.values())
        is_full = held == self._problem.most.get(client)
        left: dict[Socket, list[Pair]] = {}
        for socket, pairs in domains.items():
            if socket is pair.socket:
                continue
            self.steps += len(pairs)
            left[socket] = [
                other for other in pairs
                if other.row is not pair.row
                and not (is_full and other.row.client == client)
                and self._agree(pair, other)
            ]  # fmt: skip
            if not left[socket]:
                return None
        return left

    def _are_enough(
        self, domains: Mapping[Socket, Sequence[Pair]], chosen: Mapping[Socket, Pair]
    ) -> bool:
        """Whether each socket can have a node of its own, no client more than it holds."""
        seats = _Seats(domains, self._problem.most, chosen.values())
        is_enough = all(seats.place(socket, set()) for socket in domains)
        self.steps += seats.steps
        return is_enough

    def _agree(self, one: Pair, other: Pair) -> bool:
        known = self._agreed.get((one, other))
        if known is None:
            known = _agree(one, other, self._problem, with_addresses=self._with_addresses)
            self._agreed[one, other] = self._agreed[other, one] = known
        return known


class _Seats:
    """Sockets on nodes, one each, and no client with more than it holds (augmenting paths)."""

    def __init__(
        self,
        domains: Mapping[Socket, Sequence[Pair]],
        most: Mapping[ClientKey, int],
        chosen: Iterable[Pair],
    ) -> None:
        self.steps = 0
        self._domains, self._most = domains, most
        self._held = Counter(pair.row.client for pair in chosen)
        self._holders: dict[Row, Socket] = {}

    def place(self, socket: Socket, seen: set[object]) -> bool:
        """Find a node for a socket; others may have to go elsewhere."""
        for pair in self._domains[socket]:
            self.steps += 1
            row = pair.row
            if row in seen:
                continue
            seen.add(row)
            holder = self._holders.get(row)
            is_free = self._admit(row.client, seen) if holder is None else self.place(holder, seen)
            if is_free:
                self._holders[row] = socket
                return True
        return False

    def _admit(self, client: ClientKey, seen: set[object]) -> bool:
        """Make room for one socket more of a client."""
        if client not in self._most or self._held[client] < self._most[client]:
            self._held[client] += 1
            return True
        if client in seen:
            return False
        seen.add(client)
        for row, socket in list(self._holders.items()):
            if row.client == client and row not in seen:
                seen.add(row)
                if self.place(socket, seen):
                    del self._holders[row]
                    return True
        return False


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
        # A listener speaks one security protocol, to all clients.
        return not is_here or PLAIN not in (one.law, other.law)
    if is_here and one.row.library is other.row.library is Library.LIBRDKAFKA:
        # It never resumes a session and counts its logins (research, TLS sections 1 and 4).
        return _equal_handshakes(one, other)
    if not is_here or one.law == PLAIN:
        return True
    return certificates_agree(one, other)


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


def certificates_agree(one: Pair, other: Pair) -> bool:
    """Whether one broker sent both what it sends: its certificates, or nothing but a resumption.

    Which of the two comes first says nothing: clients may share their sessions.
    """
    mine, others = one.handshake()[1], other.handshake()[1]
    most = max(mine.high - others.low, others.high - mine.low)
    return mine.distance(others) <= _JITTER or most > _FULL_IS_MORE


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
) -> dict[Right, list[Left]]:
    """Return for each right side that every matching of all `must` uses who may have it there.

    Empty where there is no such matching. The first of each list is that of one and the same
    matching.
    """
    needed = list(must)
    matched = _matching(edges, needed)
    if matched is None:
        return {}
    owners: dict[Right, list[Left]] = {}
    for right, first in matched.items():
        if _matching(edges, needed, {right}) is not None:
            continue
        others = [
            left for left, rights in edges.items()
            if left != first
            and right in rights
            and _matching(edges, [each for each in needed if each != left], {right}) is not None
        ]  # fmt: skip
        owners[right] = [first, *others]
    return owners


def _matching(
    edges: Mapping[Left, Sequence[Right]],
    sources: Iterable[Left],
    taken: AbstractSet[Right] = frozenset(),
) -> dict[Right, Left] | None:
    """Return a matching of all sources without what is taken, or None (augmenting paths)."""
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

    return matched if all(augment(source, set()) for source in sources) else None
