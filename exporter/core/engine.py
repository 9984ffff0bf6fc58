"""The whole core, put together: readings in, a snapshot out.

A poll costs what changed: a connection is looked at again when bytes went over it, when something
around it was learned, or when its last look is `REFRESH_SECONDS` old.
Pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

__all__ = ["Engine", "PollOutcome"]

from collections import defaultdict, deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from exporter.core.accounts import Bookkeeping
from exporter.core.attribution import Attributor
from exporter.core.classifier import Standing, classify, steps_of
from exporter.core.counts import Counts
from exporter.core.directory import Directory
from exporter.core.excess import find_excess
from exporter.core.expected import default_idle_limit
from exporter.core.ledger import Ledger
from exporter.core.tracker import Tracker
from exporter.core.view import Connections, Timings, View
from exporter.model import (
    ClientKey,
    ClientKind,
    ClosedBy,
    Connection,
    ConnectionClass,
    Library,
    Owner,
    OwnerRung,
    Role,
)
from exporter.snapshot import ClientBroker, Expectation, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from exporter.core.activity import Activity
    from exporter.core.endings import ClosedConnection
    from exporter.core.excess import Excess
    from exporter.core.tracked import TrackedConnection
    from exporter.core.tracker import Changes
    from exporter.model import (
        Attribution,
        Endpoint,
        JoinSample,
        KernelReading,
        SourceReading,
    )
    from exporter.settings import ClientRule, Settings

# A connection whose class no time can change is still looked at so often, for its words.
REFRESH_SECONDS = 30.0

# Excess is a matter of half minutes; it is looked for so often, and after each read of metrics.
EXCESS_SECONDS = 5.0

# Endings that findings look back on: 25 minutes of one a second.
REMEMBERED_ENDINGS = 2000


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
        self._settings = settings
        self._accounts = Bookkeeping() if accounts is None else accounts
        self._versions: dict[str, dict[ClientKey, str]] = {}
        self.tracker = Tracker(started, settings.limits.connections)
        self.attributor = Attributor()
        self.directory = Directory()
        self.ledger = Ledger(settings.limits.clients)
        self._views: dict[int, View] = {}
        self._pending_opened: dict[int, float] = {}
        self._unseen_keys: dict[tuple[Endpoint, bool], ClientBroker] = {}
        self._remotes: dict[str, set[Endpoint]] = defaultdict(set)
        self._counts = Counts(self._rule_of, self._has_learned)
        self._excess: dict[int, Excess] = {}
        self._excess_at = float("-inf")
        self._next_due = float("-inf")
        rules = settings.clients.rules
        self._has_limits = any(rule.instances or rule.connections_per_broker for rule in rules)
        self._age_steps, self._idle_steps = steps_of(settings)
        self.changes = 0
        self._recount = True
        self._relook_all = True
        self._at: float | None = None
        self.unattributed_closed = 0
        self.closed_lately: deque[tuple[ClientBroker, ClosedConnection]] = deque(
            maxlen=REMEMBERED_ENDINGS
        )

    # ---- in -----------------------------------------------------------------------------------

    def poll(self, kernel: KernelReading, owners: Mapping[int, Owner]) -> PollOutcome:
        """Take one reading of the socket table."""
        now = kernel.at
        if self._at is not None:
            counts, since = self._counts, max(0.0, now - self._at)
            self.ledger.integrate(counts.by_class, counts.useful, counts.expected, since)
        self._at = now
        self._unseen_keys.clear()
        changes = self.tracker.update(kernel, owners)
        for tracked in changes.opened:
            remote = tracked.reading.remote
            self._remotes[remote.address].add(remote)
            if tracked.age_is_exact:
                # What was open before the agent was is no surge of its start.
                self._pending_opened[tracked.cookie] = now
        self._look(now, nothing_happened=changes.nothing_happened)
        for tracked in changes.active:
            self._count_bytes(tracked)
        for tracked, segments in changes.retransmitted:
            self._moved(tracked.cookie, retransmits=segments)
        for tracked in changes.excluded:
            self._exclude(tracked.cookie)
            self._accounts.excluded(tracked.cookie, now)
        for closed in changes.closed:
            self._close(closed, now)
        self._count_opened(now)
        if self._recount or self._counts.is_due(now):
            self._count(now)
        new = any(tracked.cookie not in self.attributor.attributions for tracked in changes.opened)
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
                self._look_at(tracked, now)
        if self._recount:
            self._count(now)

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
                    _client_name(attribution), broker_id, tracked.reading.remote, tracked.opened_at
                )
        self._learn_versions(sample.reading)
        self._relook_all = True

    def look_again(self, now: float) -> None:
        """Class everything anew with what was learned since the last poll."""
        self._look(now)
        self._count_opened(now)
        if self._recount:
            self._count(now)

    def forget_silent(self, source: str, before: float) -> None:
        """Forget librdkafka clients that have sent nothing since `before`."""
        self.attributor.forget_silent(source, before)

    # ---- out ----------------------------------------------------------------------------------

    @property
    def connections(self) -> Sequence[Connection]:
        """Every connection as of the last poll; the sequence never changes afterwards."""
        return Connections(tuple(self._views.values()), self._at or 0.0)

    @property
    def views(self) -> Iterable[View]:
        """Every connection as it was last looked at."""
        return self._views.values()

    @property
    def counts(self) -> Mapping[ClientBroker, Mapping[ConnectionClass, int]]:
        """Connections by client, broker and class; replaced, never changed, by a poll."""
        return self._counts.by_class

    @property
    def expected(self) -> Mapping[ClientBroker, Expectation]:
        """What each client whose metrics are known should hold; replaced, never changed."""
        return self._counts.expected

    @property
    def timings(self) -> Mapping[ClientBroker, Timing]:
        """Idle times and round trips as of the last poll, worked out only when somebody asks."""
        return Timings(tuple(self._views.values()), self._at or 0.0)

    @property
    def owner_rungs(self) -> Mapping[OwnerRung, int]:
        """Connections by the rung that told their owner; replaced, never changed, by a poll."""
        return self._counts.rungs

    # ---- looking ------------------------------------------------------------------------------

    def _look(self, now: float, *, nothing_happened: bool = False) -> None:
        connections = self.tracker.connections
        if self._relook_all:
            self._relook_all = False
            self._look_for_excess(now)
            for tracked in connections.values():
                self._look_at(tracked, now)
            self._next_due = now
            return
        if now - self._excess_at >= EXCESS_SECONDS:
            self._look_for_excess(now)
        if nothing_happened and now < self._next_due:
            return
        for cookie, tracked in connections.items():
            view = self._views.get(cookie)
            if (
                view is None
                or view.reading is not tracked.reading
                or view.owner is not tracked.owner
                or view.due <= now
            ):
                self._look_at(tracked, now)
        self._next_due = min((view.due for view in self._views.values()), default=float("inf"))

    def _look_for_excess(self, now: float) -> None:
        self._excess_at = now
        before = self._excess
        joined = self.attributor.attributions
        free = len(self.tracker.connections) > len(joined) > 0
        may_be = self._has_limits or free or self.attributor.outlived
        self._excess = self._find_excess(now) if may_be else {}
        for cookie in before.keys() ^ self._excess.keys():
            tracked = self.tracker.connections.get(cookie)
            if tracked is not None:
                self._look_at(tracked, now)

    def _look_at(self, tracked: TrackedConnection, now: float) -> None:
        cookie = tracked.cookie
        attribution = self.attributor.attributions.get(cookie)
        owner = tracked.owner
        rule = self._rule_of(attribution, owner)
        library = attribution.library if attribution is not None else owner.library
        kind = attribution.client.kind if attribution is not None else ClientKind.UNKNOWN
        remote = tracked.reading.remote
        configured = rule is not None and rule.connections_max_idle is not None
        excess = self._excess.get(cookie)
        standing = Standing(
            attribution=attribution,
            library=library,
            learned=attribution is not None and self._has_learned(attribution),
            idle_limit=(
                rule.connections_max_idle
                if rule is not None and configured
                else default_idle_limit(library, kind)
            ),
            idle_limit_known=configured,
            stale=self._stale(attribution, tracked),
            excess=excess.reason if excess is not None else None,
            excess_cause=excess.cause if excess is not None else None,
        )
        verdict = classify(tracked, standing, self._settings.classes, now)
        broker_id = attribution.node.broker_id if attribution is not None else None
        if broker_id is None:
            broker_id = self.directory.broker_at(remote)
        wanted = ClientBroker(
            client_id=attribution.client.client_id if attribution is not None else "",
            client_kind=kind.value,
            process=owner.name,
            broker_id="" if broker_id is None else str(broker_id),
            broker=str(remote),
        )
        before = self._views.get(cookie)
        view = self._views[cookie] = View(
            cookie=cookie,
            reading=tracked.reading,
            owner=owner,
            verdict=verdict,
            attribution=attribution,
            library=library,
            broker_id=broker_id,
            rule=_rule_name(library, verdict.role),
            key=self.ledger.key(wanted, now),
            opened_at=tracked.opened_at,
            age_is_exact=tracked.age_is_exact,
            last_activity_at=tracked.last_activity_at,
            unanswered_since=tracked.unanswered_since,
            looked_at=now,
            due=self._due(tracked, now),
            library_version=self._version_of(attribution),
        )
        if (
            before is None
            or before.key != view.key
            or before.verdict.connection_class is not verdict.connection_class
            or before.verdict.useful is not verdict.useful
        ):
            self._recount = True
        if before is not None and before.last_activity_at < view.last_activity_at:
            self._accounts.idled(cookie, view.last_activity_at - before.last_activity_at)
        if before is None or _series_of(before) != _series_of(view):
            self._accounts.put(view, now)

    def _due(self, tracked: TrackedConnection, now: float) -> float:
        """Return when a connection's age or silence next reaches a time that decides something."""
        due = now + REFRESH_SECONDS
        for step in self._age_steps:
            if now < tracked.opened_at + step < due:
                due = tracked.opened_at + step
        for step in self._idle_steps:
            if now < tracked.last_activity_at + step < due:
                due = tracked.last_activity_at + step
        return due

    def _rule_of(self, attribution: Attribution | None, owner: Owner) -> ClientRule | None:
        client_id = attribution.client.client_id if attribution is not None else ""
        for rule in self._settings.clients.rules:
            if fnmatchcase(client_id, rule.client_id) and fnmatchcase(owner.name, rule.process):
                return rule
        return None

    def _has_learned(self, attribution: Attribution) -> bool:
        """Whether a client has talked to a broker under its real id."""
        return self.attributor.has_learned(attribution.client)

    def _stale(self, attribution: Attribution | None, tracked: TrackedConnection) -> str | None:
        if attribution is None or attribution.node.broker_id is None or attribution.equals:
            return None
        return self.directory.stale_reason(
            _client_name(attribution),
            attribution.node.broker_id,
            tracked.reading.remote,
            tracked.opened_at,
        )

    def _find_excess(self, now: float) -> dict[int, Excess]:
        return find_excess(
            self.tracker.connections,
            self.attributor,
            self._rule_of,
            self._settings.classes.excess_after,
            now,
        )

    # ---- counting -----------------------------------------------------------------------------

    def _count_bytes(self, tracked: TrackedConnection) -> None:
        view = self._views.get(tracked.cookie)
        if view is None or not tracked.activities:
            return
        last = tracked.activities[-1]
        self.ledger.moved(view.key, last.outgoing_bytes, last.incoming_bytes, 0)
        self._accounts.moved(tracked.cookie, last.outgoing_bytes, last.incoming_bytes, 0)

    def _moved(self, cookie: int, rest: Activity | None = None, retransmits: int = 0) -> None:
        view = self._views.get(cookie)
        if view is not None:
            out, incoming = (rest.outgoing_bytes, rest.incoming_bytes) if rest else (0, 0)
            self.ledger.moved(view.key, out, incoming, retransmits)
            self._accounts.moved(cookie, out, incoming, retransmits)

    def _exclude(self, cookie: int) -> None:
        """Forget a connection that turned out to be no client's."""
        self._recount = True
        self._views.pop(cookie, None)
        self._pending_opened.pop(cookie, None)
        self.attributor.forget((cookie,))

    def _count_opened(self, now: float) -> None:
        """Count openings once their client is known, or has had the time to become known."""
        settle = self._settings.classes.settle_after
        done = [
            cookie
            for cookie, opened_at in self._pending_opened.items()
            if now - opened_at >= settle or cookie in self.attributor.attributions
        ]
        for cookie in done:
            del self._pending_opened[cookie]
            view = self._views.get(cookie)
            if view is not None:
                self.ledger.opened(view.key)
                self._accounts.opened(cookie, view.opened_at)

    def _close(self, closed: ClosedConnection, now: float) -> None:
        self._recount = True
        if closed.tracked is None:
            self._close_unseen(closed, now)
            return
        cookie = closed.tracked.cookie
        if cookie not in self._views:
            # It ended between the dump that met it first and the events after that.
            self._look_at(closed.tracked, now)
        self._moved(cookie, closed.rest)
        view = self._views.pop(cookie)
        self.attributor.forget((cookie,))
        self._counts.lose(view, closed.closed_by, now)
        if self._pending_opened.pop(cookie, None) is not None:
            self.ledger.opened(view.key)
            self._accounts.opened(cookie, view.opened_at)
        if closed.lifetime_seconds <= self._settings.classes.probe_within and closed.hung_up:
            closed = self._probed(str(closed.remote), closed)
        self.ledger.closed(view.key, closed.closed_by, closed.lifetime_seconds)
        self._accounts.closed(cookie, closed, now)
        self._remember_closed(view.key, closed)

    def _close_unseen(self, closed: ClosedConnection, now: float) -> None:
        talked = closed.had_conversation
        key = self._unseen_keys.get((closed.remote, talked))
        if key is None:
            remote = self._known_remote(closed)
            if remote is None:
                self.unattributed_closed += 1
                return
            process = self._lone_process() if talked else ""
            key = ClientBroker("", ClientKind.UNKNOWN.value, process, "", remote)
            key = self._unseen_keys[closed.remote, talked] = self.ledger.key(key, now)
        if closed.hung_up:
            closed = self._probed(key.broker, closed)
        self.ledger.opened(key)
        rest = closed.rest
        if rest.outgoing_bytes or rest.incoming_bytes:
            self.ledger.moved(key, rest.outgoing_bytes, rest.incoming_bytes, 0)
        self.ledger.closed(key, closed.closed_by, closed.lifetime_seconds)
        self._accounts.came_and_went(key, closed)
        self._remember_closed(key, closed)

    def _probed(self, broker: str, closed: ClosedConnection) -> ClosedConnection:
        """Count a health check. One that resets ends it itself: nothing was broken off."""
        self.ledger.probed(broker)
        if closed.closed_by is ClosedBy.ABORT:
            return closed._replace(closed_by=ClosedBy.CLIENT)
        return closed

    def _lone_process(self) -> str:
        """Name the only process that talks to brokers here."""
        names = {view.owner.name for view in self._views.values()}
        return next(iter(names)) if len(names) == 1 else ""

    def _known_remote(self, closed: ClosedConnection) -> str | None:
        """Name the broker of a short connection; the kernel forgets the port of some."""
        if closed.remote.port != 0:
            return str(closed.remote)
        address = closed.remote.address
        known = self._remotes.get(address) or self.directory.endpoints_at(address)
        if not known:
            return None
        return str(next(iter(known))) if len(known) == 1 else address

    def _remember_closed(self, key: ClientBroker, closed: ClosedConnection) -> None:
        self.changes += 1
        self.closed_lately.append((key, closed))

    def _count(self, now: float) -> None:
        self._recount = False
        self.changes += 1
        self._accounts.expect(self._counts.count(self._views.values(), now), now)
        self.ledger.fold_old(now)

    def _learn_versions(self, reading: SourceReading) -> None:
        """Keep which version of its library each client of a source says it is."""
        versions = {
            client.key(reading.source): version
            for client in reading.clients
            if (version := client.version) is not None
        }
        if versions:
            self._versions[reading.source] = versions

    def _version_of(self, attribution: Attribution | None) -> str | None:
        if attribution is None:
            return None
        return self._versions.get(attribution.client.source, {}).get(attribution.client)


def _series_of(view: View) -> tuple[object, ...]:
    """Return what of a view names its series in the journal."""
    verdict = view.verdict
    return (
        view.key,
        view.library,
        view.library_version,
        verdict.connection_class,
        verdict.role,
        verdict.cause,
    )


def _client_name(attribution: Attribution) -> str:
    client = attribution.client
    return f"{client.source}/{client.kind}/{client.client_id}/{client.instance}"


def _rule_name(library: Library, role: Role) -> str | None:
    if role in {Role.UNKNOWN, Role.PROBE} or library is Library.UNKNOWN:
        return None
    if library is Library.JAVA and role is Role.TRANSACTION:
        return "java.data"
    return f"{library}.{role}"
