"""What each connection is, looked at again where something happened to it or around it.

A look makes a view: the class with its evidence, whose it is, and when to look next.
Pure.
"""

from __future__ import annotations

__all__ = ["Looking", "client_name"]

from typing import TYPE_CHECKING

from exporter.connections.classifier import Standing, classify, steps_of
from exporter.connections.excess import Joined, find_excess
from exporter.connections.expected import default_idle_limit
from exporter.connections.seniority import Seniority
from exporter.connections.unused import silent_since_opening, was_used
from exporter.connections.view import View
from exporter.model import ClientKey, ClientKind, Library, Role
from exporter.snapshot import ClientBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exporter.connections.excess import Excess
    from exporter.connections.kernel_clients import KernelClient
    from exporter.connections.seniority import OwnerClients
    from exporter.connections.tracked import TrackedConnection
    from exporter.engine.known import Known
    from exporter.model import Attribution, SourceReading

# A connection whose class no time can change is still looked at so often, for its words.
REFRESH_SECONDS = 30.0

# Excess is a matter of half minutes; clients are sorted and judged so often, and after each read
# of metrics.
EXCESS_SECONDS = 5.0


class Looking:
    """Makes the views; `seen` is told of each, with the one before it."""

    def __init__(self, known: Known, seen: Callable[[View | None, View, float], None]) -> None:
        self._known = known
        self._seen = seen
        self._versions: dict[str, dict[ClientKey, str]] = {}
        self._seniority = Seniority()
        self.processes: Mapping[str, OwnerClients] = {}
        self._excess: dict[int, Excess] = {}
        self._excess_at = float("-inf")
        self._next_due = float("-inf")
        rules = known.settings.clients.rules
        self._has_limits = any(rule.instances or rule.connections_per_broker for rule in rules)
        self._age_steps, self._idle_steps = steps_of(known.settings)
        self._relook_all = True

    def learn(self, reading: SourceReading) -> None:
        """Take which version of its library each client of a source says it is; all may be new."""
        versions = {
            client.key(reading.source): version
            for client in reading.clients
            if (version := client.version) is not None
        }
        if versions:
            self._versions[reading.source] = versions
        self._relook_all = True

    def look(self, now: float, *, nothing_happened: bool = False) -> None:
        """Look at every connection for which it is time."""
        connections = self._known.tracker.connections
        changed = self._known.clients.update(
            connections,
            self._known.attributor.attributions,
            self._known.groups,
            now,
            at_once=self._relook_all,
        )
        if self._relook_all:
            self._relook_all = False
            self._look_for_excess(now)
            for tracked in connections.values():
                self.look_at(tracked, now)
            self._next_due = now
            return
        if now - self._excess_at >= EXCESS_SECONDS:
            self._look_for_excess(now)
        for cookie in changed:
            self.look_at(connections[cookie], now)
        if nothing_happened and now < self._next_due:
            return
        for cookie, tracked in connections.items():
            view = self._known.views.get(cookie)
            if (
                view is None
                or view.reading is not tracked.reading
                or view.owner is not tracked.owner
                or view.group is not tracked.group
                or view.due <= now
            ):
                self.look_at(tracked, now)
        self._next_due = min(
            (view.due for view in self._known.views.values()), default=float("inf")
        )

    def _look_for_excess(self, now: float) -> None:
        self._excess_at = now
        before = self._excess
        joined = self._known.attributor.attributions
        connections = self._known.tracker.connections
        self.processes = self._seniority.sort(connections.values(), joined)
        free = len(connections) > len(joined) > 0
        may_be = self._has_limits or free or self._known.attributor.outlived
        self._excess = self._find_excess(now) if may_be else {}
        for cookie in before.keys() ^ self._excess.keys():
            tracked = self._known.tracker.connections.get(cookie)
            if tracked is not None:
                self.look_at(tracked, now)

    def look_at(self, tracked: TrackedConnection, now: float) -> None:
        """Make the view of a connection anew."""
        cookie = tracked.cookie
        attribution = self._known.attributor.attributions.get(cookie)
        owner = tracked.owner
        rule = self._known.rule_of(attribution, owner)
        library = attribution.library if attribution is not None else owner.library
        client = self._known.clients.client(cookie)
        client_id, kind = _name_of(attribution, client)
        remote = tracked.reading.remote
        configured = rule is not None and rule.connections_max_idle is not None
        excess = self._excess.get(cookie)
        standing = Standing(
            attribution=attribution,
            library=library,
            learned=(
                self._known.has_learned(attribution)
                if attribution is not None and attribution.names_client
                else self._known.clients.is_superseded(cookie)
            ),
            sign=self._known.clients.sign(cookie),
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
        verdict = classify(tracked, standing, self._known.settings.classes, now)
        broker_id = attribution.node.broker_id if attribution is not None else None
        if broker_id is None:
            broker_id = self._known.directory.broker_at(remote)
        wanted = ClientBroker(
            client_id=client_id or "",
            client_kind=kind.value,
            process=owner.name,
            broker_id="" if broker_id is None else str(broker_id),
            broker=str(remote),
        )
        before = self._known.views.get(cookie)
        view = self._known.views[cookie] = View(
            cookie=cookie,
            reading=tracked.reading,
            owner=owner,
            verdict=verdict,
            attribution=attribution,
            library=library,
            broker_id=broker_id,
            rule=_rule_name(library, verdict.role),
            key=self._known.ledger.key(wanted, now),
            opened_at=tracked.opened_at,
            age_is_exact=tracked.age_is_exact,
            last_activity_at=tracked.last_activity_at,
            unanswered_since=tracked.unanswered_since,
            looked_at=now,
            due=self._due(tracked, now),
            library_version=self._version_of(attribution),
            group=tracked.group,
            client=client,
            client_id=client_id,
            client_kind=kind,
            idle_limit=standing.idle_limit,
            was_used=was_used(tracked),
            unused_since=silent_since_opening(tracked),
        )
        self._seen(before, view, now)

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

    def _stale(self, attribution: Attribution | None, tracked: TrackedConnection) -> str | None:
        if attribution is None or attribution.node.broker_id is None or attribution.equals:
            return None
        return self._known.directory.stale_reason(
            client_name(attribution),
            attribution.node.broker_id,
            tracked.reading.remote,
            tracked.opened_at,
        )

    def _find_excess(self, now: float) -> dict[int, Excess]:
        attributor = self._known.attributor
        return find_excess(
            self.processes.values(),
            Joined(attributor.attributions, attributor.outlived, attributor.is_claimable),
            self._known.rule_of,
            self._known.settings.classes.excess_after,
            now,
            self._known.groups.threads,
        )

    def _version_of(self, attribution: Attribution | None) -> str | None:
        if attribution is None:
            return None
        return self._versions.get(attribution.client.source, {}).get(attribution.client)


def client_name(attribution: Attribution) -> str:
    """Name a client for the directory: those of equal ids are several."""
    client = attribution.client
    return f"{client.source}/{client.kind}/{client.client_id}/{client.instance}"


def _name_of(
    attribution: Attribution | None, client: KernelClient | None
) -> tuple[str | None, ClientKind]:
    """Name a client by its own id, else by its number."""
    if attribution is not None and attribution.names_client:
        return attribution.client.client_id, attribution.client.kind
    if client is not None:
        return client.client_id, client.kind
    return None, ClientKind.UNKNOWN


def _rule_name(library: Library, role: Role) -> str | None:
    if role in {Role.UNKNOWN, Role.PROBE} or library is Library.UNKNOWN:
        return None
    if library is Library.JAVA and role is Role.TRANSACTION:
        return "java.data"
    return f"{library}.{role}"
