"""The owner of what is known, carried from poll to poll: readings in, a snapshot's parts out.

A poll goes one way: socket table -> tracker -> client groups and excess -> views (classes) ->
totals. It costs what changed: a connection is described again when bytes went over it, when
something around it was learned, or when time may change its class.
Pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

__all__ = ["Engine", "PollOutcome"]

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from exporter.brokers.directory import Directory
from exporter.connections.classifier import steps_of
from exporter.connections.describe import Surroundings, client_name, describe, is_current, rule_of
from exporter.connections.kernel_clients import Clients
from exporter.connections.tracker import Tracker
from exporter.connections.view import Connections, libraries, timings
from exporter.engine.excess_watch import ExcessWatch
from exporter.join.attribution import Attributor
from exporter.model import GroupsReading
from exporter.snapshot import Late, ProcessClients
from exporter.totals.counts import Counts
from exporter.totals.event_log import EventLog
from exporter.totals.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from exporter.config.settings import Settings
    from exporter.connections.endings import ClosedConnection
    from exporter.connections.seniority import OwnerClients
    from exporter.connections.tracked import TrackedConnection
    from exporter.connections.tracker import Changes
    from exporter.connections.view import View
    from exporter.model import (
        ClientKey,
        Connection,
        JoinSample,
        KernelReading,
        Owner,
    )
    from exporter.snapshot import ClientBroker, ClientLibrary, Timing, Totals
    from exporter.totals.journal_series import JournalTotals
    from exporter.totals.series import Series


class PollOutcome(NamedTuple):
    """What the agent must do after a poll: ask for descriptors, wake sources for new sockets."""

    changes: Changes
    new_unattributed: bool


class Engine:
    """Owns the state. Each attribute below owns its part of it; only the poll thread writes."""

    def __init__(
        self,
        settings: Settings,
        started: float = 0.0,
        journal: JournalTotals | None = None,
        attributor: Attributor | None = None,
    ) -> None:
        rules = partial(rule_of, settings.clients.rules)
        self._settings = settings
        self._rule_of = rules
        self._steps = steps_of(settings)
        self._at = 0.0
        self.tracker = Tracker(started, settings.limits.connections)
        self.attributor = Attributor() if attributor is None else attributor
        self.directory = Directory()
        self.groups = GroupsReading()
        """Which sockets are one client, as of the last poll."""
        self._versions: dict[str, dict[ClientKey, str]] = {}
        self._clients = Clients()
        self._excess = ExcessWatch(settings, rules)
        self._views: dict[int, View] = {}
        self._describe_all = True
        self._next_due = float("inf")
        self.counts = Counts(rules, self.attributor.has_learned)
        """How many connections there are now, by client and broker."""
        self._count_again = True
        self.changes = 0
        """How often a count has changed."""
        self._tally = Tally(settings, journal, self.directory.endpoints_at)
        self.log = EventLog()
        """What happened to connections lately."""

    # ---- in -----------------------------------------------------------------------------------

    def poll(
        self,
        kernel: KernelReading,
        owners: Mapping[int, Owner],
        groups: GroupsReading | None = None,
    ) -> PollOutcome:
        """Take one reading of the socket table, with each socket's owner and client group."""
        now = kernel.at
        self._at = now
        self._tally.begin_poll()
        if groups is not None:
            self.groups = groups
        changes = self.tracker.update(kernel, owners, self.groups.of)
        for tracked in changes.opened:
            self._tally.note_opened(tracked, now)
        self._describe(self._due(now, nothing_happened=changes.nothing_happened), now)
        self._add_up(changes, now)
        self._count(now, is_due=self.counts.is_due(now))
        attributed = self.attributor.attributions
        new = any(tracked.cookie not in attributed for tracked in changes.opened)
        return PollOutcome(changes, new)

    def settle_vanished(
        self, held: Mapping[int, bool | None], now: float, *, events_complete: bool
    ) -> None:
        """Take whether the descriptors of sockets that left the table are still open."""
        for closed in self.tracker.settle_vanished(held, now, events_complete=events_complete):
            self._close(closed, now)
        connections = self.tracker.connections
        ghosts = [connections[each] for each in held if each in connections]
        ghosts = [tracked for tracked in ghosts if tracked.ghost]
        for tracked in ghosts:
            self.attributor.release(tracked.cookie)
        self._describe(ghosts, now)
        self._count(now)

    def join(
        self,
        sample: JoinSample,
        addresses_of: Callable[[str], frozenset[str]] = lambda _host: frozenset(),
    ) -> None:
        """Take one read of a client's metrics; `look_again` shows what follows from it."""
        connections = self.tracker.connections
        self.attributor.update(sample, connections, addresses_of)
        for cookie, attribution in self.attributor.attributions.items():
            tracked = connections.get(cookie)
            broker_id = attribution.node.broker_id
            if tracked is not None and broker_id is not None and not attribution.equals:
                self.directory.learn(
                    client_name(attribution), broker_id, tracked.reading.remote, tracked.opened_at
                )
        source = sample.reading.source
        versions = {
            client.key(source): client.version
            for client in sample.reading.clients
            if client.version is not None
        }
        # A read may be of one client of many: the others keep theirs while they hold connections.
        known = self._versions.setdefault(source, {})
        if not versions.keys() <= known.keys():
            held = {attribution.client for attribution in self.attributor.attributions.values()}
            for client in known.keys() - held:
                del known[client]
        known.update(versions)
        self._describe_all = True

    def look_again(self, now: float) -> None:
        """Describe everything again with what was learned since the last poll."""
        self._describe(self._due(now), now)
        self._tally.settle_opened(self._views, self.attributor.attributions, now)
        self._count(now)

    def forget_silent(self, source: str, before: float) -> None:
        """Forget librdkafka clients that have sent nothing since `before`."""
        self.attributor.forget_silent(source, before)

    # ---- the steps of a poll ------------------------------------------------------------------

    def _due(self, now: float, *, nothing_happened: bool = False) -> Collection[TrackedConnection]:
        """Return the connections that have changed, or around which something has."""
        connections = self.tracker.connections
        at_once = self._describe_all
        changed = self._clients.update(
            connections, self.attributor.attributions, self.groups, now, at_once=at_once
        )
        changed |= self._excess.update(
            connections, self.attributor, self.groups.threads, now, at_once=at_once
        )
        if at_once:
            self._describe_all = False
            self._next_due = float("inf")
            return connections.values()
        if nothing_happened and now < self._next_due:
            return [connections[cookie] for cookie in changed]
        self._next_due = float("inf")
        due = []
        for cookie, tracked in connections.items():
            view = self._views.get(cookie)
            if view is None or cookie in changed or not is_current(view, tracked, now):
                due.append(tracked)
            elif view.due < self._next_due:
                self._next_due = view.due
        return due

    def _describe(self, due: Iterable[TrackedConnection], now: float) -> None:
        """Make the views of these connections, and hand them to the totals."""
        around = Surroundings(
            settings=self._settings.classes,
            rule_of=self._rule_of,
            attributions=self.attributor.attributions,
            has_learned=self.attributor.has_learned,
            clients=self._clients,
            directory=self.directory,
            excess=self._excess.excess,
            versions=self._versions,
            steps=self._steps,
        )
        for tracked in due:
            view = self._tally.labelled(describe(tracked, around, now), now)
            before = self._views.get(view.cookie)
            self._views[view.cookie] = view
            self._tally.described(before, view, now)
            self.log.described(before, view, tracked, now)
            self._count_again = self._count_again or not _counts_alike(before, view)
            self._next_due = min(self._next_due, view.due)

    def _add_up(self, changes: Changes, now: float) -> None:
        """Count what the tracker has seen since the last poll."""
        for tracked in changes.active:
            view = self._views.get(tracked.cookie)
            if view is not None and tracked.activities:
                last = tracked.activities[-1]
                self._tally.moved(view, last.outgoing_bytes, last.incoming_bytes)
        for tracked, segments in changes.retransmitted:
            view = self._views.get(tracked.cookie)
            if view is not None:
                self._tally.moved(view, 0, 0, segments)
        for tracked in changes.excluded:
            self._views.pop(tracked.cookie, None)
            self.attributor.forget((tracked.cookie,))
            self._tally.excluded(tracked.cookie, now)
            self._count_again = True
        for closed in changes.closed:
            self._close(closed, now)
        self._tally.settle_opened(self._views, self.attributor.attributions, now)

    def _close(self, closed: ClosedConnection, now: float) -> None:
        self._count_again = True
        self.changes += 1
        tracked = closed.tracked
        if tracked is None:
            self._tally.came_and_went(closed, self._views.values(), now)
            self.log.came_and_went(closed)
            return
        if tracked.cookie not in self._views:
            # It ended between the dump that met it first and the events after that.
            self._describe((tracked,), now)
        view = self._views.pop(tracked.cookie)
        self.attributor.forget((tracked.cookie,))
        self.counts.lose(view, closed.closed_by, now)
        self._tally.closed(view, closed, now)
        self.log.closed(view, closed)

    def _count(self, now: float, *, is_due: bool = False) -> None:
        """Count how many connections there are and are needed, if that may have changed."""
        if self._count_again or is_due:
            self._count_again = False
            self.changes += 1
            self._tally.expect(self.counts.count(self._views.values(), now), now)

    # ---- out ----------------------------------------------------------------------------------

    @property
    def totals(self) -> Totals:
        """What has added up until the last poll; nothing later changes it."""
        return self._tally.metrics.totals(self._tally.store, self._at)

    @property
    def opened_and_closed(self) -> tuple[int, int]:
        """How many connections have opened and closed, over all clients."""
        return self._tally.store.opened_and_closed

    @property
    def folded_clients(self) -> int:
        """How many clients there are beyond the limit."""
        return self._tally.metrics.folded_clients

    @property
    def held(self) -> Iterator[tuple[View, Series]]:
        """Every connection with the series that it is counted in."""
        return self._tally.store.with_series(self._views.values())

    @property
    def process_clients(self) -> tuple[ProcessClients, ...]:
        """How many clients each process runs, where its threads can be seen."""
        groups = self.groups
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
        return Connections(tuple(self._views.values()), self._at)

    @property
    def views(self) -> Collection[View]:
        """Every connection as it was last described."""
        return self._views.values()

    @property
    def processes(self) -> Mapping[str, OwnerClients]:
        """The clients of each process by the owner's key, as of the last look for excess."""
        return self._excess.processes

    @property
    def timings(self) -> Mapping[ClientBroker, Timing]:
        """Idle times and round trips as of the last poll, worked out only when somebody asks."""
        views, at = tuple(self._views.values()), self._at
        return Late(lambda: timings(views, at))

    @property
    def libraries(self) -> Mapping[ClientBroker, frozenset[ClientLibrary]]:
        """The libraries of the clients as of the last poll, collected only when somebody asks."""
        views = tuple(self._views.values())
        return Late(lambda: libraries(views))

    @property
    def unattributed_closed(self) -> int:
        """How many connections closed before their owner was known."""
        return self._tally.unattributed_closed

    @property
    def closed_lately(self) -> Sequence[tuple[ClientBroker, ClosedConnection]]:
        """How the last connections ended, by client and broker."""
        return self._tally.closed_lately


def _counts_alike(before: View | None, view: View) -> bool:
    """Whether a connection is counted as it was before."""
    return (
        before is not None
        and before.key == view.key
        and before.verdict.connection_class is view.verdict.connection_class
        and before.verdict.useful is view.verdict.useful
        and before.was_used is view.was_used
    )
