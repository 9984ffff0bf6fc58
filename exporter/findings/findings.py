"""Findings: what is wrong, the client, the reason and the setting to change.

A finding has the name and the labels of the alert that the bundled rules raise for the same thing,
and takes its severity, summary and recommendation from there.
Pure.
"""

from __future__ import annotations

__all__ = ["Held", "find", "finding_of_alert", "remedy_of"]

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.alerts.catalogue import ALERTS, ALERTS_BY_NAME
from exporter.alerts.settings import Thresholds
from exporter.model import ClientKind, ClientThreads, ConnectionClass, Library, Role, TcpState
from exporter.snapshot import ClientBroker, Finding, Severity
from exporter.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.config.settings import ClassSettings
    from exporter.connections.seniority import OwnerClients
    from exporter.model import Connection
    from exporter.snapshot import Expectation, SourceStatus

# A request that a broker has not answered for so long: longer than any fetch waits by default.
UNANSWERED_SECONDS = 15.0

# A coordinator leaves a member's JoinGroup unanswered until the others have joined too: for
# max.poll.interval.ms at most, 5 minutes by default.
REBALANCE_SECONDS = 330.0

# So many clients are listed by name in one text.
MOST_NAMED = 5

_ALERT_OF_CLASS = {
    alert.connection_class: alert.name for alert in ALERTS if alert.connection_class is not None
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Whose the connections are: what findings about a whole process need beside them.

    `processes` and `threads` are by the owner's key.
    """

    processes: Mapping[str, OwnerClients] = field(default_factory=dict)
    threads: Mapping[str, ClientThreads] = field(default_factory=dict)
    expected: Mapping[ClientBroker, Expectation] = field(default_factory=dict)


def finding_of_alert(
    name: str,
    labels: Mapping[str, str],
    description: str,
    value: float,
    *,
    members: Iterable[Connection] = (),
    remedy: str | None = None,
) -> Finding:
    """Return the finding of an alert, with the severity, summary and remedy that it has there.

    `remedy` is the part of the alert's that is about this finding's cause.
    """
    alert = ALERTS_BY_NAME[name]
    return Finding(
        name=name,
        severity=alert.severity,
        labels={name: value for name, value in labels.items() if value},
        summary=alert.summary,
        description=description,
        remedy=alert.remedy if remedy is None else remedy,
        value=value,
        cookies=tuple(member.cookie for member in members),
    )


def find(
    connections: Sequence[Connection],
    sources: Iterable[SourceStatus],
    settings: ClassSettings,
    more: Iterable[Finding] = (),
    *,
    held: Held | None = None,
    thresholds: Thresholds | None = None,
) -> tuple[Finding, ...]:
    """Return everything that somebody should change, the most severe first.

    `more` is what is found elsewhere: churn, limits, and the watches, which remember.
    """
    held = held or Held()
    thresholds = thresholds or Thresholds()
    owned: dict[str, list[Connection]] = defaultdict(list)
    for connection in connections:
        owned[connection.owner.key].append(connection)
    findings = [
        *_by_class(connections, settings),
        *_idle_timeout_disabled(connections),
        *_frozen(connections),
        *_sources_down(sources),
        *more,
    ]
    for members in owned.values():
        findings += _excess(members, held)
        findings += _unused(members, thresholds)
        findings += _many_instances(members, held, thresholds.client_instances)
    order = list(Severity)
    return tuple(
        sorted(findings, key=lambda finding: (order.index(finding.severity), finding.name))
    )


def remedy_of(connection_class: ConnectionClass) -> str | None:
    """Return what to change where a class is a finding by itself."""
    name = _ALERT_OF_CLASS.get(connection_class)
    return None if name is None else ALERTS_BY_NAME[name].remedy


# ---- by client and broker ----------------------------------------------------------------------


def _by_class(connections: Iterable[Connection], settings: ClassSettings) -> list[Finding]:
    groups: dict[tuple[ConnectionClass, ClientBroker], list[Connection]] = defaultdict(list)
    for connection in connections:
        connection_class = connection.connection_class
        # Excess is a matter of the whole process.
        if connection_class not in _ALERT_OF_CLASS or connection_class is ConnectionClass.EXCESS:
            continue
        if (
            connection_class is ConnectionClass.CONNECTING
            and connection.age_seconds < settings.connecting_after
        ):
            continue
        groups[connection_class, _key_of_alert(connection)].append(connection)
    return [
        _finding(
            _ALERT_OF_CLASS[connection_class], key, members, _holds(connection_class, key, members)
        )
        for (connection_class, key), members in groups.items()
    ]


def _holds(
    connection_class: ConnectionClass, key: ClientBroker, members: Sequence[Connection]
) -> str:
    if connection_class is ConnectionClass.CONNECTING:
        who = ", ".join(sorted({_who(_key(member)) for member in members})[:MOST_NAMED])
        return f"{_count(members)} of {who} to {key.broker}: TCP handshake not complete."
    return (
        f"{_who(key)} holds {_count(members)} of class {connection_class} to"
        f" {_broker(key)}: {members[0].evidence[0]}."
    )


def _key_of_alert(connection: Connection) -> ClientBroker:
    """Return the labels: a broker that cannot be reached is one trouble, whoever meets it."""
    if connection.connection_class is ConnectionClass.CONNECTING:
        return ClientBroker("", "", "", "", connection.broker)
    return _key(connection)


def _idle_timeout_disabled(connections: Iterable[Connection]) -> list[Finding]:
    """Find Java clients whose idle timeout is disabled; others have none by design."""
    groups: dict[ClientBroker, list[Connection]] = defaultdict(list)
    for connection in connections:
        if (
            connection.library is Library.JAVA
            and connection.tcp_state is TcpState.ESTABLISHED
            and connection.idle_limit_seconds == 0
        ):
            key = _key(connection)._replace(broker_id="", broker="")
            groups[key].append(connection)
    return [
        _finding(
            "KafkaClientIdleClosingOff",
            key,
            members,
            f"{_who(key)} holds {_count(members)} and never closes an idle one.",
        )
        for key, members in groups.items()
    ]


def _frozen(connections: Iterable[Connection]) -> list[Finding]:
    waiting = [c for c in connections if (c.unanswered_seconds or 0.0) >= UNANSWERED_SECONDS]
    silent = {connection.broker for connection in waiting if not _may_rebalance(connection)}
    groups: dict[ClientBroker, list[Connection]] = defaultdict(list)
    for connection in waiting:
        if connection.broker in silent:
            groups[_key(connection)].append(connection)
    return [
        _finding(
            "KafkaClientFrozenPeer",
            key,
            members,
            f"{_broker(key)} has not answered {_who(key)} for"
            f" {duration(max(member.unanswered_seconds or 0 for member in members))}.",
        )
        for key, members in groups.items()
    ]


def _may_rebalance(connection: Connection) -> bool:
    """Whether the unanswered request may be a JoinGroup that waits for other members."""
    return (
        connection.role in {Role.COORDINATOR, Role.UNKNOWN}
        and bool(connection.incoming_bytes)
        and (connection.unanswered_seconds or 0.0) < REBALANCE_SECONDS
    )


# ---- by process --------------------------------------------------------------------------------


def _excess(members: Sequence[Connection], held: Held) -> list[Finding]:
    """Find a process with clients that it does not need: one finding, whatever they hold."""
    surplus = [each for each in members if each.connection_class is ConnectionClass.EXCESS]
    if not surplus:
        return []
    owner = members[0].owner
    brokers = len({each.broker for each in members})
    text = (
        f"{_name(owner.name)}: {_clients_text(_clients_of(owner.key, members, held))}"
        f" {_count(members)} to {brokers} broker{'' if brokers == 1 else 's'},"
        f" {_needed(members, held)} needed: {surplus[0].evidence[0]}."
    )
    return [_of_process("KafkaClientExcessConnections", owner.name, text, surplus)]


def _needed(members: Sequence[Connection], held: Held) -> int:
    """Return how many connections a process needs; where others have its name, what is not waste.

    Expected numbers are kept by the process's name.
    """
    name = members[0].owner.name
    if sum(each.owner.name == name for each in held.processes.values()) == 1:
        needed = sum(each.count for key, each in held.expected.items() if key.process == name)
        if needed:
            return needed
    return sum(each.useful for each in members)


def _unused(members: Sequence[Connection], thresholds: Thresholds) -> list[Finding]:
    """Find a process of whose connections many have carried nothing since they were opened."""
    unused = [each for each in members if each.unused_seconds is not None]
    open_ones = sum(each.tcp_state is TcpState.ESTABLISHED for each in members)
    if (
        len(unused) < thresholds.unused_connections
        or 100 * len(unused) < thresholds.unused_percent * open_ones
    ):
        return []
    name = members[0].owner.name
    longest = max(each.unused_seconds or 0.0 for each in unused)
    text = (
        f"{_name(name)} holds {_count(members)}, {len(unused)} unused since they were opened, for"
        f" up to {duration(longest)}."
    )
    return [_of_process("KafkaClientUnusedConnections", name, text, unused)]


def _many_instances(members: Sequence[Connection], held: Held, least: int) -> list[Finding]:
    """Find a process with many clients of a kind. Consumers need one each, and are not counted."""
    owner = members[0].owner
    findings = []
    for kind, count in _clients_of(owner.key, members, held).items():
        if count < least or kind is ClientKind.CONSUMER:
            continue
        # Whose the connections are that nobody has joined is not known: they are of some of them.
        theirs = [each for each in members if each.client_kind in {kind, ClientKind.UNKNOWN}]
        text = f"{_name(owner.name)}: {_clients_text({kind: count})} {_count(theirs)}."
        labels = {"client_kind": kind.value, "process": owner.name}
        findings.append(
            finding_of_alert(
                "KafkaClientManyInstances", labels, text, float(len(theirs)), members=theirs
            )
        )
    return findings


def _clients_of(owner: str, members: Iterable[Connection], held: Held) -> dict[ClientKind, int]:
    """Count the clients of a process by kind: by their metrics, their groups, their threads."""
    named = {
        (each.client_kind, each.client_id, each.client_instance)
        for each in members
        if each.client_id is not None
    }
    counted = Counter(kind for kind, _id, _instance in named)
    threads = held.threads.get(owner, ClientThreads())
    for kind, count in (
        (ClientKind.PRODUCER, threads.producers),
        (ClientKind.CONSUMER, threads.consumers),
        (ClientKind.ADMIN, threads.admins),
    ):
        counted[kind] = max(counted[kind], count)
    process = held.processes.get(owner)
    total = max(0 if process is None else len(process.clients), threads.librdkafka)
    counted[ClientKind.UNKNOWN] = max(counted[ClientKind.UNKNOWN], total - counted.total())
    return {kind: count for kind, count in counted.items() if count}


def _clients_text(clients: Mapping[ClientKind, int]) -> str:
    """Say how many clients there are, with the verb: `6 producers and 1 consumer hold`."""
    words = []
    for kind, count in clients.items():
        name = "client" if kind is ClientKind.UNKNOWN else kind.value
        words.append(f"{count} {name}{'' if count == 1 else 's'}")
    is_one = list(clients.values()) == [1]
    return f"{' and '.join(words) or 'clients'} {'holds' if is_one else 'hold'}"


def _of_process(
    name: str, process: str, description: str, members: Sequence[Connection]
) -> Finding:
    return finding_of_alert(
        name, {"process": process}, description, float(len(members)), members=members
    )


# ---- sources -----------------------------------------------------------------------------------


def _sources_down(sources: Iterable[SourceStatus]) -> list[Finding]:
    return [
        finding_of_alert(
            "BrokerwireSourceDown",
            {"source": source.name, "kind": source.kind},
            f"{source.name}: {source.error}",
            1.0,
        )
        for source in sources
        if not source.up and source.error is not None
    ]


# ---- words -------------------------------------------------------------------------------------


def _finding(
    name: str, key: ClientBroker, members: Sequence[Connection], description: str
) -> Finding:
    return finding_of_alert(name, key._asdict(), description, float(len(members)), members=members)


def _key(connection: Connection) -> ClientBroker:
    return ClientBroker(
        client_id=connection.client_id or "",
        client_kind=connection.client_kind.value,
        process=connection.owner.name,
        broker_id="" if connection.broker_id is None else str(connection.broker_id),
        broker=connection.broker,
    )


def _who(key: ClientBroker) -> str:
    if key.client_id:
        return f"{key.client_kind} {key.client_id!r} in {_name(key.process)}"
    return _name(key.process)


def _name(process: str) -> str:
    return process or "unknown process"


def _broker(key: ClientBroker) -> str:
    return f"broker {key.broker_id} ({key.broker})" if key.broker_id else key.broker


def _count(members: Sequence[Connection]) -> str:
    return f"{len(members)} connection{'' if len(members) == 1 else 's'}"
