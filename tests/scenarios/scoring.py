"""The agent beside lab clients, and its answers held against what the clients themselves say."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.agent import Agent
from exporter.config.settings import (
    BrokerSettings,
    ClassSettings,
    ClientSettings,
    JavaSourceSettings,
    PortRange,
    ProcessRule,
    Settings,
    SourceSettings,
    StatisticsSettings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from exporter.join.attribution import Attributor
    from exporter.model import Connection
    from exporter.snapshot import Snapshot
    from tests.lab.cluster import KafkaCluster
    from tests.lab.truth import TruthConnection

# The lab's brokers talk to each other through the same ports: they are no clients.
CLIENT_PROCESSES = (
    ProcessRule(name="^java$", command="LabClient"),
    ProcessRule(command=r"tests\.lab\.rdkafka"),
)


def settings_for(
    cluster: KafkaCluster,
    *,
    java: Mapping[str, str] | None = None,
    statistics_socket: str | None = None,
    listeners: Iterable[str] = ("PLAINTEXT",),
    **changes: object,
) -> Settings:
    """Settings for a lab cluster: `java` are metrics pages by source name."""
    ports = sorted(
        {
            int(address.rpartition(":")[2])
            for name in listeners
            for address in cluster.addresses(name).values()
        }
    )
    parts = {
        "brokers": BrokerSettings(ports=tuple(PortRange(port, port) for port in ports)),
        "clients": ClientSettings(processes=CLIENT_PROCESSES),
        "sources": SourceSettings(
            java=tuple(
                JavaSourceSettings(name=name, url=url, interval=2.0, timeout=5.0)
                for name, url in (java or {}).items()
            ),
            # Without `java` the agent is to know the kernel only, whatever the JVM declares.
            discover=False,
            librdkafka=StatisticsSettings(unix_socket=statistics_socket),
        ),
        "classes": ClassSettings(),
    }
    return Settings(**(parts | changes))


@contextmanager
def agent_for(settings: Settings, attributor: Attributor | None = None) -> Iterator[Agent]:
    """A running agent that is stopped at the end."""
    agent = Agent(settings, attributor=attributor)
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def wait_for(
    agent: Agent, holds: Callable[[Snapshot], bool], *, seconds: float, what: str
) -> Snapshot:
    """Wait until a snapshot has what is looked for; fail with the last one in words."""
    deadline = time.monotonic() + seconds
    while True:
        snapshot = agent.snapshot()
        if snapshot is not None and holds(snapshot):
            return snapshot
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds} s:\n{table(snapshot)}")
        time.sleep(0.2)


def table(snapshot: Snapshot | None) -> str:
    """The connections of a snapshot, a line each."""
    if snapshot is None:
        return "no snapshot"
    lines = [line(connection) for connection in snapshot.connections]
    lines += [
        f"source {status.name} up={status.up} {status.error or ''}" for status in snapshot.sources
    ]
    lines += [f"finding {finding.name}: {finding.description}" for finding in snapshot.findings]
    return "\n".join(lines)


def line(connection: Connection) -> str:
    return (
        f"{connection.local!s:22} {connection.remote!s:22} {connection.tcp_state:12}"
        f" {connection.connection_class:12} {connection.role:12} {connection.confidence:7}"
        f" {connection.client_id!s:14} {connection.client_kind:9} node {connection.node_id!s:16}"
        f" broker {connection.broker_id} idle {connection.idle_seconds:.1f}"
        f" | {'; '.join(connection.evidence)}"
        + (f" | = {connection.equals}" if connection.equals else "")
    )


@dataclass
class Score:
    """How many sockets came out right, and the words for those that did not."""

    right: int = 0
    equal: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)
    wrong_and_confident: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __str__(self) -> str:
        counted = f"{self.right} right, {self.equal} equal, {self.unknown} unknown, {len(self.wrong)} wrong, {len(self.missing)} missing"
        return "\n".join([counted, *self.wrong, *self.missing])


def score(
    snapshot: Snapshot, truths: Iterable[TruthConnection], *, roles_only: bool = False
) -> Score:
    """Hold every connection that the clients told of against the snapshot."""
    found = {(str(c.local), str(c.remote)): c for c in snapshot.connections}
    result = Score()
    for truth in truths:
        connection = found.get((truth.local, truth.remote))
        if connection is None:
            result.missing.append(f"missing {truth}")
            continue
        role = str(connection.role)
        result.confusion[truth.role, role] += 1
        if role == "unknown":
            result.unknown += 1
        elif role != truth.role and any(_names(equal, truth) for equal in connection.equals):
            # Of two sockets of one client that no figure tells apart, either may be either.
            result.equal += 1
        elif role != truth.role:
            words = (
                f"role is {truth.role} ({truth.client_id} node {truth.node_id}): {line(connection)}"
            )
            result.wrong.append(words)
            if connection.confidence in {"exact", "strong"}:
                result.wrong_and_confident.append(words)
        elif roles_only or _client_fits(connection, truth):
            result.right += 1
        elif any(_names(equal, truth) for equal in connection.equals):
            result.equal += 1
        elif connection.client_id is None:
            # Its role is right, whose it is nobody says: that is not known, and not wrong.
            result.unknown += 1
        else:
            result.wrong.append(
                f"client is {truth.client_kind} {truth.client_id} node {truth.node_id} broker {truth.broker_id}: {line(connection)}"
            )
    return result


def _client_fits(connection: Connection, truth: TruthConnection) -> bool:
    return (
        connection.client_id == truth.client_id
        and connection.client_kind == truth.client_kind
        and (
            connection.broker_id == truth.broker_id
            or (truth.role == "bootstrap" and connection.broker_id is None)
        )
    )


def _names(equal: str, truth: TruthConnection) -> bool:
    return equal.startswith(f"{truth.client_kind} {truth.client_id!r} ") or (
        truth.client_kind == "admin" and f" {truth.client_id!r} " in equal
    )
