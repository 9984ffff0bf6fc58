"""A stage for the scenarios: clients on it, agents that watch it, and what the clients say."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from exporter.config.settings import ClassSettings, ClientSettings, ProcessRule
from tests.lab.java_client import JavaClient, JavaMetrics
from tests.lab.rdkafka_client import RdkafkaClient, Statistics
from tests.scenarios.scoring import (
    agent_for,
    score,
    settings_for,
    table,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack
    from pathlib import Path

    from exporter.agent import Agent
    from exporter.config.settings import ClientRule, Settings
    from exporter.model import Connection
    from exporter.snapshot import Finding, Snapshot
    from tests.lab.artifacts import Artifacts
    from tests.lab.clients import ClientProcess
    from tests.lab.cluster import KafkaCluster

# Several runs share a machine: what takes two seconds alone may take twenty.
PATIENCE = 45.0


class Watch:
    """One agent that watches the stage."""

    def __init__(self, stage: Stage, agent: Agent) -> None:
        self._stage = stage
        self.agent = agent

    @property
    def snapshot(self) -> Snapshot:
        snapshot = self.agent.snapshot()
        assert snapshot is not None
        return snapshot

    def wait(
        self, holds: Callable[[Snapshot], object], what: str, *, seconds: float = PATIENCE
    ) -> Snapshot:
        return wait_for(self.agent, lambda s: bool(holds(s)), seconds=seconds, what=what)

    def of(self, client_id: str) -> list[Connection]:
        """The connections that are said to be this client's."""
        return [c for c in self.snapshot.connections if c.client_id == client_id]

    def classes(self, client_id: str) -> dict[str, int]:
        """How many of each class a client holds; no zeros."""
        counts: dict[str, int] = {}
        for connection in self.of(client_id):
            name = str(connection.connection_class)
            counts[name] = counts.get(name, 0) + 1
        return counts

    def expected(self, client_id: str) -> int:
        """How many connections a client should hold to all brokers."""
        return sum(
            expectation.count
            for key, expectation in self.snapshot.expected.items()
            if key.client_id == client_id
        )

    def findings(self, name: str, **labels: str) -> list[Finding]:
        return [
            finding
            for finding in self.snapshot.findings
            if finding.name == name and labels.items() <= finding.labels.items()
        ]

    def closed(self, client_id: str) -> dict[str, int]:
        """How many connections of a client ended, by who ended them."""
        counts: dict[str, int] = {}
        for (key, closed_by), count in self.snapshot.totals.closed.items():
            if key.client_id == client_id:
                counts[str(closed_by)] = counts.get(str(closed_by), 0) + count
        return counts

    def wait_right(self, *, seconds: float = PATIENCE) -> Snapshot:
        """Wait until every connection that the clients tell of is known, and known rightly."""
        deadline = time.monotonic() + seconds
        while True:
            truths = self._stage.truth()
            result = score(self.snapshot, truths)
            if truths and not (result.wrong or result.missing or result.unknown):
                return self.snapshot
            if time.monotonic() > deadline:
                raise AssertionError(f"{result}\n{table(self.snapshot)}")
            time.sleep(0.5)

    def wait_data(self, names: Iterable[str], count: int, *, seconds: float = PATIENCE) -> None:
        """Wait until each of these clients holds so many data connections."""
        for name in names:
            self.wait(
                lambda _: self.classes(name).get("data") == count,  # noqa: B023 - called at once
                f"{count} data connections of {name}",
                seconds=seconds,
            )

    def assert_never_wrong(self) -> None:
        """Hold the roles against the truth; unknown is no mistake."""
        result = score(self.snapshot, self._stage.truth())
        assert result.wrong == [], table(self.snapshot)


class Stage:
    """A cluster, the client processes on it, and the agents that watch."""

    def __init__(
        self, artifacts: Artifacts, cluster: KafkaCluster, stack: ExitStack, folder: Path
    ) -> None:
        self._artifacts = artifacts
        self.cluster = cluster
        self._stack = stack
        self._folder = folder
        self._pages: dict[str, str] = {}
        self._statistics: str | None = None
        self.processes: dict[str, ClientProcess] = {}

    def java(self, generation: str, *, name: str = "", metrics: bool = True) -> JavaClient:
        name = name or generation
        how = JavaMetrics(jmx_exporter="plain") if metrics else None
        # A word in the command line by which the agent knows the processes of this stage.
        mark = (f"-Dlab.stage={self._folder}",)
        client = self._stack.enter_context(
            JavaClient(self._artifacts, self.cluster, generation, metrics=how, jvm_options=mark)
        )
        if metrics:
            self._pages[name] = client.jmx_url
        self.processes[name] = client
        return client

    def librdkafka(self, *, name: str = "librdkafka", metrics: bool = True) -> RdkafkaClient:
        statistics = Statistics(interval=0, file=self._folder / "none")
        if metrics:
            self._statistics = str(self._folder / "statistics")
            statistics = Statistics(socket=self._folder / "statistics")
        client = self._stack.enter_context(
            RdkafkaClient(self._artifacts, self.cluster, statistics=statistics)
        )
        self.processes[name] = client
        return client

    def settings(
        self,
        *,
        rules: tuple[ClientRule, ...] = (),
        inlet: bool = True,
        metrics: bool = True,
        **changes: object,
    ) -> Settings:
        """Settings for an agent beside all processes so far.

        `inlet=False` leaves librdkafka's statistics to another agent, `metrics=False` all metrics.
        """
        mark = ProcessRule(command=re.escape(str(self._folder)))
        classes = {key: changes.pop(key) for key in ClassSettings.__slots__ if key in changes}
        return settings_for(
            self.cluster,
            java=self._pages if metrics else None,
            statistics_socket=self._statistics if inlet and metrics else None,
            listeners=[listener.name for listener in self.cluster.listeners],
            **{
                "clients": ClientSettings(processes=(mark,), rules=rules),
                "classes": ClassSettings(**classes),
                **changes,
            },
        )

    def watch(self, **changes: object) -> Watch:
        """Start an agent; it is stopped when the test ends."""
        return Watch(self, self._stack.enter_context(agent_for(self.settings(**changes))))

    def truth(self) -> list:
        return [told for process in self.processes.values() for told in process.truth()]
