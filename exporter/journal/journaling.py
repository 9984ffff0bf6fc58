"""The journal of a running agent: it counts what polls find and passes the batches on."""

from __future__ import annotations

__all__ = ["Journaling", "Outlet"]

import uuid
from typing import TYPE_CHECKING, Protocol

from exporter.kernel.own_connections import leave_out_own
from exporter.snapshot import BrokerLimits
from exporter.totals.batches import Journal
from exporter.totals.journal_values import AgentFigures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.config.settings import Settings
    from exporter.engine.engine import Engine
    from exporter.model import KernelReading, Owner
    from exporter.snapshot import PollStatus, Snapshot
    from exporter.totals.journal_series import JournalTotals
    from exporter.totals.journal_values import Batch, Place


class Outlet(Protocol):
    """Where batches go, and what it says of itself."""

    @property
    def dropped_records(self) -> int: ...  # noqa: D102
    @property
    def own_connections(self) -> int: ...  # noqa: D102
    @property
    def own_opened(self) -> int: ...  # noqa: D102
    def take(self, batch: Batch) -> None: ...  # noqa: D102
    def count_own_failures(self, count: int) -> None: ...  # noqa: D102


class Journaling:
    """Only the poll thread may call this, and whoever ends it afterwards."""

    def __init__(self, settings: Settings, place: Place, outlet: Outlet) -> None:
        if settings.journal is None:
            raise AssertionError("the journal is off")
        self._outlet = outlet
        self.connects = settings.journal.kafka is not None
        """Whether the agent has connections of its own: dumps then show the sizes of buffers."""
        self._status: PollStatus | None = None
        self._journal = Journal(
            place,
            interval=settings.journal.interval,
            most_series=settings.journal.max_series,
            limits=BrokerLimits(
                settings.brokers.max_connections, settings.brokers.max_connections_per_ip
            ),
            new_boot_id=lambda: uuid.uuid4().hex,
        )

    @property
    def totals(self) -> JournalTotals:
        """What the engine's store is written in."""
        return self._journal.totals

    def without_own(
        self, kernel: KernelReading, owners: Mapping[int, Owner], engine: Engine
    ) -> tuple[KernelReading, Mapping[int, Owner]]:
        """Take the agent's own connections out: they are no client's."""
        if not self.connects:
            return kernel, owners
        left = leave_out_own(kernel, owners, engine.tracker.connections.keys())
        if left.failed:
            self._outlet.count_own_failures(left.failed)
        return left.kernel, left.owners

    def turn(
        self, kernel: KernelReading, wall_time: float, engine: Engine, snapshot: Snapshot | None
    ) -> None:
        """Take the time of a poll that worked, before the engine hears of it.

        `snapshot` is the one before, which also says of polls that failed since.
        """
        self._status = None if snapshot is None else snapshot.poll
        figures = self._figures()
        for batch in self._journal.turn(kernel.at, wall_time, figures, engine.held):
            self._outlet.take(batch)

    def found(self, snapshot: Snapshot) -> None:
        """Take the findings of the poll, which is finished now."""
        self._status = snapshot.poll
        self._journal.found(snapshot.findings)

    def finish(self, now: float, engine: Engine) -> None:
        """Write the last batch."""
        for batch in self._journal.finish(now, self._figures(), engine.held):
            self._outlet.take(batch)

    def _figures(self) -> AgentFigures:
        outlet, status = self._outlet, self._status
        own = AgentFigures(
            records_dropped=outlet.dropped_records,
            own_opened=outlet.own_opened,
            own_connections=outlet.own_connections,
        )
        if status is None:
            return own
        return own._replace(
            polls=status.polls,
            failed_polls=status.failed_polls,
            events_lost=status.events_lost,
            unattributed_closed=status.unattributed_closed,
            folded_clients=status.folded_clients,
            read_method=status.method.value,
        )
