"""What is known of one connection: its class with the evidence, its client, its broker.

Pure.
"""

from __future__ import annotations

__all__ = ["Surroundings", "client_name", "describe", "is_current", "rule_of"]

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.classifier import Standing, classify
from exporter.connections.expected import default_idle_limit
from exporter.connections.unused import silent_since_opening, was_used
from exporter.connections.view import View
from exporter.model import ClientKey, ClientKind, Library, Role
from exporter.snapshot import ClientBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exporter.brokers.directory import Directory
    from exporter.config.settings import ClassSettings, ClientRule
    from exporter.connections.excess import Excess, RuleOf
    from exporter.connections.kernel_clients import Clients, KernelClient
    from exporter.connections.tracked import TrackedConnection
    from exporter.model import Attribution, Owner

# A connection whose class no time can change is described again this often, for its evidence.
REFRESH_SECONDS = 30.0


class Surroundings(NamedTuple):
    """What one poll knows beside the connection itself; nothing is written here."""

    settings: ClassSettings
    rule_of: RuleOf
    attributions: Mapping[int, Attribution]
    has_learned: Callable[[ClientKey], bool]
    clients: Clients
    directory: Directory
    excess: Mapping[int, Excess]
    versions: Mapping[str, Mapping[ClientKey, str]]
    """Library versions by source, as the clients' metrics give them."""
    steps: tuple[tuple[float, ...], tuple[float, ...]]
    """Ages and silences at which a class may change (`steps_of`)."""


def describe(tracked: TrackedConnection, around: Surroundings, now: float) -> View:
    """Return the view of a connection as of now."""
    cookie = tracked.cookie
    owner = tracked.owner
    remote = tracked.reading.remote
    attribution = around.attributions.get(cookie)
    client = around.clients.client(cookie)
    client_id, kind = _name_of(attribution, client)
    library = attribution.library if attribution is not None else owner.library
    standing = _standing(tracked, around, attribution, library, kind)
    verdict = classify(tracked, standing, around.settings, now)
    broker_id = attribution.node.broker_id if attribution is not None else None
    if broker_id is None:
        broker_id = around.directory.broker_at(remote)
    return View(
        cookie=cookie,
        reading=tracked.reading,
        owner=owner,
        verdict=verdict,
        attribution=attribution,
        library=library,
        broker_id=broker_id,
        rule=_rule_name(library, verdict.role),
        key=ClientBroker(
            client_id=client_id or "",
            client_kind=kind.value,
            process=owner.name,
            broker_id="" if broker_id is None else str(broker_id),
            broker=str(remote),
        ),
        opened_at=tracked.opened_at,
        age_is_exact=tracked.age_is_exact,
        last_activity_at=tracked.last_activity_at,
        unanswered_since=tracked.unanswered_since,
        looked_at=now,
        due=_due(tracked, around.steps, now),
        library_version=_version_of(attribution, around.versions),
        group=tracked.group,
        client=client,
        client_id=client_id,
        client_kind=kind,
        idle_limit=standing.idle_limit,
        was_used=was_used(tracked),
        unused_since=silent_since_opening(tracked),
    )


def client_name(attribution: Attribution) -> str:
    """Name a client for the directory: clients of equal ids are different clients."""
    client = attribution.client
    return f"{client.source}/{client.kind}/{client.client_id}/{client.instance}"


def rule_of(
    rules: Iterable[ClientRule], attribution: Attribution | None, owner: Owner
) -> ClientRule | None:
    """Return the first rule that applies to a client."""
    client_id = attribution.client.client_id if attribution is not None else ""
    for rule in rules:
        if fnmatchcase(client_id, rule.client_id) and fnmatchcase(owner.name, rule.process):
            return rule
    return None


def is_current(view: View, tracked: TrackedConnection, now: float) -> bool:
    """Return whether nothing has happened to a connection since it was described."""
    return (
        view.reading is tracked.reading
        and view.owner is tracked.owner
        and view.group is tracked.group
        and view.due > now
    )


def _standing(
    tracked: TrackedConnection,
    around: Surroundings,
    attribution: Attribution | None,
    library: Library,
    kind: ClientKind,
) -> Standing:
    cookie = tracked.cookie
    rule = around.rule_of(attribution, tracked.owner)
    configured = rule.connections_max_idle if rule is not None else None
    excess = around.excess.get(cookie)
    return Standing(
        attribution=attribution,
        library=library,
        learned=(
            around.has_learned(attribution.client)
            if attribution is not None and attribution.names_client
            else around.clients.is_superseded(cookie)
        ),
        sign=around.clients.sign(cookie),
        idle_limit=configured if configured is not None else default_idle_limit(library, kind),
        idle_limit_known=configured is not None,
        stale=_stale(tracked, attribution, around.directory),
        excess=excess.reason if excess is not None else None,
        excess_cause=excess.cause if excess is not None else None,
    )


def _due(
    tracked: TrackedConnection, steps: tuple[tuple[float, ...], tuple[float, ...]], now: float
) -> float:
    """Return when a connection's age or silence next reaches a limit that decides something."""
    ages, silences = steps
    due = now + REFRESH_SECONDS
    for step in ages:
        if now < tracked.opened_at + step < due:
            due = tracked.opened_at + step
    for step in silences:
        if now < tracked.last_activity_at + step < due:
            due = tracked.last_activity_at + step
    return due


def _stale(
    tracked: TrackedConnection, attribution: Attribution | None, directory: Directory
) -> str | None:
    if attribution is None or attribution.node.broker_id is None or attribution.equals:
        return None
    return directory.stale_reason(
        client_name(attribution),
        attribution.node.broker_id,
        tracked.reading.remote,
        tracked.opened_at,
    )


def _version_of(
    attribution: Attribution | None, versions: Mapping[str, Mapping[ClientKey, str]]
) -> str | None:
    if attribution is None:
        return None
    return versions.get(attribution.client.source, {}).get(attribution.client)


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
