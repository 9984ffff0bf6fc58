"""Whether what the agent says of each connection is what its client says of it, over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from exporter.model import Confidence
from tests.scenarios.scoring import line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exporter.model import Connection

# Seconds after the agent knows a client at which its connections are judged.
AGES = (15, 60)

CONFIDENT = frozenset({Confidence.EXACT, Confidence.STRONG})


class Verdict(StrEnum):
    """How an answer compares with the truth."""

    RIGHT = "right"
    """The client and the node."""
    EQUAL = "equal"
    """The truth is among the nodes that the answer calls equal; client and role, if said, are right."""
    MISNAMED = "misnamed"
    """The truth is among the nodes that the answer calls equal, but another client or role is shown."""
    ROLE = "role"
    """The role is right; client or node are not said."""
    UNKNOWN = "unknown"
    WRONG = "wrong"


def is_known_limit(truth: Any) -> bool:
    """librdkafka's admin client calls itself a producer: its role is not the join's to tell."""
    return truth.client_kind == "admin" and "/" in truth.node_id


def judge(connection: Any, truth: Any) -> Verdict:
    """Compare what is said of a connection with what its client says."""
    # librdkafka calls a broker by its address, its statistics by the id once that is learned.
    is_equal = any(
        f"{truth.client_kind} {truth.client_id!r} node {node_id}" in connection.equals
        for node_id in (truth.node_id, truth.broker_id)
    )
    # A client that only the kernel shows is known by its number (#3): that names none of them.
    if not connection.client_id or connection.client_id.startswith("#"):
        if is_equal and connection.role in {truth.role, "unknown"}:
            return Verdict.EQUAL
        if connection.role == "unknown":
            return Verdict.UNKNOWN
        return Verdict.ROLE if connection.role == truth.role else Verdict.WRONG
    if is_equal:
        return Verdict.EQUAL if _names_rightly(connection, truth) else Verdict.MISNAMED
    if (connection.client_id, connection.client_kind) != (truth.client_id, truth.client_kind):
        return Verdict.WRONG
    if connection.role != truth.role:
        return Verdict.UNKNOWN if connection.role == "unknown" else Verdict.WRONG
    if connection.node_id is None:
        return Verdict.ROLE
    return Verdict.RIGHT if _is_node(connection, truth) else Verdict.WRONG


def _names_rightly(connection: Any, truth: Any) -> bool:
    """Whether the client and role that are shown are the true ones; an unknown role says nothing."""
    return (connection.client_id, connection.client_kind) == (
        truth.client_id, truth.client_kind,
    ) and connection.role in {truth.role, "unknown"}  # fmt: skip


def _is_node(connection: Any, truth: Any) -> bool:
    if connection.node_id == truth.node_id:
        return True
    # librdkafka calls its brokers by address, and by id once it has learned it: a socket of the
    # right client to the right broker is the right node.
    by_name = "/" in truth.node_id or truth.node_id.endswith("Coordinator")
    return by_name and connection.broker_id in {truth.broker_id, None}


@dataclass
class Told:
    """What was seen of one connection."""

    truth: Any
    first_told: float
    at: dict[int, Verdict] = field(default_factory=dict)
    """By age in seconds since its client was known."""
    options: dict[int, int] = field(default_factory=dict)
    """How many nodes the answer left open, by age; 1 where it names one and no equals."""
    wrong_looks: int = 0
    confident_looks: int = 0
    worst: str = ""


class Verdicts:
    """Every connection of a run, judged at each look and kept at some ages."""

    def __init__(self, ages: Iterable[int]) -> None:
        self.ages = tuple(ages)
        self.told: dict[tuple[str, str], Told] = {}
        self.looks = 0

    def look(
        self,
        now: float,
        truths: Iterable[Any],
        connections: Iterable[Connection],
        known_since: Mapping[str, float],
    ) -> None:
        """Judge all connections of which the clients tell, `known_since` by client id."""
        self.looks += 1
        found = {(str(each.local), str(each.remote)): each for each in connections}
        for truth in truths:
            key = (truth.local, truth.remote)
            told = self.told.setdefault(key, Told(truth, now))
            connection, since = found.get(key), known_since.get(truth.client_id)
            # A replay goes on in the past of the clients that the agent is yet to meet.
            if connection is None or since is None or since > now:
                continue
            verdict = judge(connection, truth)
            if verdict is Verdict.WRONG:
                told.wrong_looks += 1
                told.confident_looks += connection.confidence in CONFIDENT
                told.worst = line(connection)
            age = now - max(since, told.first_told)
            for each in self.ages:
                if age >= each and each not in told.at:
                    told.at[each] = verdict
                    told.options[each] = _options(connection)

    def counts(self, age: int, of: Callable[[Told], bool] = lambda _: True) -> Counter[str]:
        """Count the verdicts at an age."""
        return Counter(
            str(told.at[age]) for told in self.told.values() if age in told.at and of(told)
        )

    def exact(self, age: int, of: Callable[[Told], bool] = lambda _: True) -> int:
        """Count the connections whose node was named at an age, rightly and as the only one."""
        return sum(
            told.at.get(age) is Verdict.RIGHT and told.options[age] == 1
            for told in self.told.values()
            if of(told)
        )

    def failures(self) -> list[str]:
        """Describe every connection that was wrong at some look, or unknown at some age."""
        return [
            f"{told.truth.client_kind} {told.truth.client_id} node {told.truth.node_id}"
            f" {told.truth.role} {told.truth.local} {told.truth.remote}:"
            f" {', '.join(f'{verdict} at {age} s' for age, verdict in told.at.items())};"
            f" wrong at {told.wrong_looks} looks, confident at {told.confident_looks}"
            f" | {told.worst}"
            for told in self.told.values()
            if told.wrong_looks
            or {Verdict.UNKNOWN, Verdict.ROLE, Verdict.MISNAMED} & set(told.at.values())
        ]


def _options(connection: Any) -> int:
    named = {f"{connection.client_kind} {connection.client_id!r} node {connection.node_id}"}
    # A join that cannot tell the role names no node: then the equals are all that it left open.
    return len(set(connection.equals) | (named if connection.node_id else set())) or 1


def share(counts: Mapping[str, int]) -> float | None:
    """Return the share of connections whose node is named, or is among those named as equal.

    It is no measure of how much an answer says: equals may be many nodes of several clients.
    """
    total = sum(counts.values())
    hits = sum(counts.get(each, 0) for each in ("right", "equal", "misnamed"))
    return hits / total if total else None
