"""The whole core, put together: readings in, a snapshot out.

A poll costs what changed: a connection is looked at again when bytes went over it, when something
around it was learned, or when its last look is old.
Pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

__all__ = ["Engine", "PollOutcome"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.connections.view import Connections, Timings
from exporter.engine.counting import Counting
from exporter.engine.known import Known
from exporter.engine.looking import Looking, client_name
from exporter.snapshot import ProcessClients
from exporter.totals.accounts import Bookkeeping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from exporter.brokers.directory import Directory
    from exporter.config.settings import Settings
    from exporter.connections.endings import ClosedConnection
    from exporter.connections.seniority import OwnerClients
    from exporter.connections.tracker import Changes, Tracker
    from exporter.connections.view import View
    from exporter.join.attribution import Attributor
    from exporter.model import (
        Connection,
        ConnectionClass,
        GroupsReading,
        JoinSample,
        KernelReading,
        Owner,
        OwnerRung,
    )
    from exporter.snapshot import ClientBroker, Expectation, Timing
    from exporter.totals.ledger import Ledger


@dataclass(slots=True)
class PollOutcome:
    """What the agent must do after a poll: ask for descriptors, wake sources for new sockets."""

    changes: Changes
    new_unattributed: bool


class Engine:
    """Everything that is known, carried from poll to poll."""

    def __init__(
        self, settings: Settings, started: float = 0.0, accounts: Bookkeeping | None = None
    ) -> None:
        accounts = Bookkeeping() if accounts is None else accounts
        self._known = Known(settings, started, accounts)
        self._counting = Counting(self._known)
        self._looking = Looking(self._known, self._counting.seen)
        self._at: float | None = None

    # ---- in -----------------------------------------------------------------------------------

    def poll(
        self,
        kernel: KernelReading,
        owners: Mapping[int, Owner],
        groups: GroupsReading | None = None,
    ) -> PollOutcome:
        """Take one reading of the socket table, with each socket's owner and client group."""
        now = kernel.at
        counting = self._counting
        if self._at is not None:
            counting.pass_time(max(0.0, now - self._at))
        self._at = now
        if groups is not None:
            self._known.groups = groups
        changes = self.tracker.update(kernel, owners, self._known.groups.of)
        for tracked in changes.opened:
            counting.opened(tracked, now)
        self._looking.look(now, nothing_happened=changes.nothing_happened)
        for tracked in changes.active:
            counting.active(tracked)
        for tracked, segments in changes.retransmitted:
            counting.moved(tracked.cookie, retransmits=segments)
        for tracked in changes.excluded:
            counting.exclude(tracked.cookie, now)
        for closed in changes.closed:
            self._close(closed, now)
        counting.settle_opened(now)
        counting.recount_if_due(now)
        attributed = self.attributor.attributions
        new = any(tracked.cookie not in attributed for tracked in changes.opened)
        return PollOutcome(changes, new)

    def settle_vanished(
        self, held: Mapping[int, bool | None], now: float, *, events_complete: bool
    ) -> None:
        """Take what /proc told of sockets that left the table."""
        for closed in self.tracker.settle_vanished(held, now, events_complete=events_complete):
            self._close(closed, now)
        for cookie in held:
            tracked = self.tracker.connections.get(cookie)
            if tracked is not None and tracked.ghost:
                self.attributor.release(cookie)
                self._looking.look_at(tracked, now)
        self._counting.recount(now)

    def join(
        self,
        sample: JoinSample,
        addresses_of: Callable[[str], frozenset[str]] = lambda _host: frozenset(),
    ) -> None:
        """Take one read of a client's metrics."""
        connections = self.tracker.connections
        self.attributor.update(sample, connections, addresses_of)
        for cookie, attribution in self.attributor.attributions.items():
            tracked = connections.get(cookie)
            broker_id = attribution.node.broker_id
            if tracked is not None and broker_id is not None and not attribution.equals:
                self.directory.learn(
                    client_name(attribution), broker_id, tracked.reading.remote, tracked.opened_at
                )
        self._looking.learn(sample.reading)

    def look_again(self, now: float) -> None:
        """Class everything anew with what was learned since the last poll."""
        self._looking.look(now)
        self._counting.settle_opened(now)
        self._counting.recount(now)

    def forget_silent(self, source: str, before: float) -> None:
        """Forget librdkafka clients that have sent nothing since `before`."""
        self.attributor.forget_silent(source, before)

    def _close(self, closed: ClosedConnection, now: float) -> None:
        tracked = closed.tracked
        if tracked is not None and tracked.cookie not in self._known.views:
            # It ended between the dump that met it first and the events after that.
            self._looking.look_at(tracked, now)
        self._counting.close(closed, now)

    # ---- out ----------------------------------------------------------------------------------

    @property
    def tracker(self) -> Tracker:
        """Which connection is which."""
        return self._known.tracker

    @property
    def attributor(self) -> Attributor:
        """Which node of which client each of them is."""
        return self._known.attributor

    @property
    def directory(self) -> Directory:
        """Which broker has which address."""
        return self._known.directory

    @property
    def ledger(self) -> Ledger:
        """What has added up."""
        return self._known.ledger

    @property
    def groups(self) -> GroupsReading:
        """Which sockets are one client, as of the last poll."""
        return self._known.groups

    @property
    def process_clients(self) -> tuple[ProcessClients, ...]:
        """How many clients each process runs, where its threads can be seen."""
        groups = self._known.groups
        told_apart = dict.fromkeys(groups.readable, True) | dict.fromkeys(groups.unreadable, False)
        owners = {view.owner.key: view.owner for view in self.views}
        return tuple(
            ProcessClients(owner.name, owner.pid, groups.threads[key], told_apart.get(key))
            for key, owner in sorted(owners.items())
            if key in groups.threads
        )

    @property
    def connections(self) -> Sequence[Connection]:
        """Every connection as of the last poll; the sequence never changes afterwards."""
        return Connections(tuple(self._known.views.values()), self._at or 0.0)

    @property
    def views(self) -> Iterable[View]:
        """Every connection as it was last looked at."""
        return self._known.views.values()

    @property
    def counts(self) -> Mapping[ClientBroker, Mapping[ConnectionClass, int]]:
        """Connections by client, broker and class; replaced, never changed, by a poll."""
        return self._counting.counts.by_class

    @property
    def expected(self) -> Mapping[ClientBroker, Expectation]:
        """What each client whose metrics are known should hold; replaced, never changed."""
        return self._counting.counts.expected

    @property
    def processes(self) -> Mapping[str, OwnerClients]:
        """The clients of each process by the owner's key, as of the last look for excess."""
        return self._looking.processes

    @property
    def timings(self) -> Mapping[ClientBroker, Timing]:
        """Idle times and round trips as of the last poll, worked out only when somebody asks."""
        return Timings(tuple(self._known.views.values()), self._at or 0.0)

    @property
    def owner_rungs(self) -> Mapping[OwnerRung, int]:
        """Connections by the rung that told their owner; replaced, never changed, by a poll."""
        return self._counting.counts.rungs

    @property
    def changes(self) -> int:
        """How often a count has changed."""
        return self._counting.changes

    @property
    def unattributed_closed(self) -> int:
        """How many connections closed before their owner was known."""
        return self._counting.unattributed_closed

    @property
    def closed_lately(self) -> Sequence[tuple[ClientBroker, ClosedConnection]]:
        """How the last connections ended, and whose they were."""
        return self._counting.closed_lately
