"""What somebody should change: what, whose, why, and which setting.

A finding has the name and the labels of the alert that the bundled rules raise for the same thing.
Remedies come from how the clients work (KAFKA_CLIENTS), not from wishful thinking.
Pure.
"""

from __future__ import annotations

__all__ = ["find", "remedy_of"]

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import ClientKind, ConnectionClass, Library, Role
from exporter.snapshot import ClientBroker, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.model import Connection
    from exporter.settings import ClassSettings
    from exporter.snapshot import SourceStatus

# A request that a broker has not answered for so long: longer than any fetch waits by default.
UNANSWERED_SECONDS = 15.0

# A coordinator leaves a member's JoinGroup unanswered until the others have joined too: for
# max.poll.interval.ms at most, 5 minutes by default.
REBALANCE_SECONDS = 330.0

# Clients of one process that come and go belong together; so many instances at once are a pattern.
MANY_INSTANCES = 20

# So many clients are told by name in one text.
MOST_NAMED = 5


class _Kind(NamedTuple):
    name: str
    severity: Severity
    summary: str
    remedy: str


_BY_CLASS: Mapping[ConnectionClass, _Kind] = {
    ConnectionClass.ZOMBIE: _Kind(
        "KafkaClientZombieConnections",
        Severity.WARNING,
        "Connections that nothing will use or close any more",
        "Set connections.max.idle.ms below the broker's (Java's default is 540000); list one or two"
        " servers in bootstrap.servers; librdkafka: use 2.10 or later.",
    ),
    ConnectionClass.EXCESS: _Kind(
        "KafkaClientExcessConnections",
        Severity.WARNING,
        "More connections than this client needs",
        "Share one producer per process (it is thread-safe), close clients that are done, and give"
        " every client a client.id of its own so that its metrics show.",
    ),
    ConnectionClass.HALF_CLOSED: _Kind(
        "KafkaClientHalfClosedConnections",
        Severity.WARNING,
        "The broker has closed, the client has not",
        "Keep calling poll(), or close the client: a consumer that does not poll never sees the"
        " broker's close. Look for an application thread that is stuck or paused.",
    ),
    ConnectionClass.GHOST: _Kind(
        "KafkaClientGhostDescriptors",
        Severity.WARNING,
        "Open descriptors whose sockets are dead: ss and netstat do not show them",
        "Find the code that keeps a connection after an error without closing it (update the client"
        " library first); restart the process to free the descriptors.",
    ),
    ConnectionClass.STALE: _Kind(
        "KafkaClientStaleEndpoint",
        Severity.WARNING,
        "Connections to an address that is no longer the broker's",
        "Shorten request.timeout.ms and metadata.max.age.ms, or restart the client; check that the"
        " old address does not answer any more.",
    ),
    ConnectionClass.CONNECTING: _Kind(
        "KafkaClientBrokerUnreachable",
        Severity.CRITICAL,
        "Connecting to a broker does not get through",
        "Check that the broker runs and that network policies and security groups let its port"
        " through; an advertised listener that clients cannot reach looks just so.",
    ),
}


def find(
    connections: Sequence[Connection],
    sources: Iterable[SourceStatus],
    settings: ClassSettings,
    more: Iterable[Finding] = (),
) -> tuple[Finding, ...]:
    """Return everything that somebody should change, the most severe first.

    `more` is what is found elsewhere: churn, limits, and the watches, which remember.
    """
    findings = [
        *_by_class(connections, settings),
        *_idle_closing_off(connections),
        *_frozen(connections),
        *_many_instances(connections),
        *_sources_down(sources),
        *more,
    ]
    order = list(Severity)
    return tuple(
        sorted(findings, key=lambda finding: (order.index(finding.severity), finding.name))
    )


def remedy_of(connection_class: ConnectionClass) -> str | None:
    """Return what to change where a class is a finding by itself."""
    kind = _BY_CLASS.get(connection_class)
    return None if kind is None else kind.remedy


def _by_class(connections: Iterable[Connection], settings: ClassSettings) -> list[Finding]:
    groups: dict[tuple[ConnectionClass, ClientBroker], list[Connection]] = defaultdict(list)
    for connection in connections:
        if connection.connection_class not in _BY_CLASS:
            continue
        if (
            connection.connection_class is ConnectionClass.CONNECTING
            and connection.age_seconds < settings.connecting_after
        ):
            continue
        groups[connection.connection_class, _key_of_alert(connection)].append(connection)
    findings = []
    for (connection_class, key), members in groups.items():
        kind = _BY_CLASS[connection_class]
        findings.append(
            _finding(
                kind,
                key,
                members,
                _held(connection_class, key, members),
            )
        )
    return findings


def _held(
    connection_class: ConnectionClass, key: ClientBroker, members: Sequence[Connection]
) -> str:
    if connection_class is ConnectionClass.CONNECTING:
        who = ", ".join(sorted({_who(_key(member)) for member in members})[:MOST_NAMED])
        return f"{_count(members)} of {who} to {key.broker} cannot get through."
    return (
        f"{_who(key)} holds {_count(members)} of class {connection_class} to"
        f" {_broker(key)}: {members[0].evidence[0]}."
    )


def _key_of_alert(connection: Connection) -> ClientBroker:
    """Return the labels: a broker that cannot be reached is one trouble, whoever meets it."""
    if connection.connection_class is ConnectionClass.CONNECTING:
        return ClientBroker("", "", "", "", connection.broker)
    return _key(connection)


def _idle_closing_off(connections: Iterable[Connection]) -> list[Finding]:
    """Tell clients whose idle closing is off while they still hold what they will not use."""
    kind = _Kind(
        "KafkaClientIdleClosingOff",
        Severity.INFO,
        "Idle closing is off: zombies will come",
        "Remove connections.max.idle.ms=-1 from the client's configuration.",
    )
    groups: dict[ClientBroker, list[Connection]] = defaultdict(list)
    for connection in connections:
        if (
            connection.library is Library.JAVA
            and connection.closes_in_seconds is not None
            and connection.close_expected.endswith("own is off")
        ):
            key = _key(connection)._replace(broker_id="", broker="")
            groups[key].append(connection)
    return [
        _finding(kind, key, members, f"{_who(key)} never closes an idle connection by itself.")
        for key, members in groups.items()
    ]


def _frozen(connections: Iterable[Connection]) -> list[Finding]:
    kind = _Kind(
        "KafkaClientFrozenPeer",
        Severity.WARNING,
        "Requests go out, nothing comes back",
        "The broker accepts and does not answer: look at its process (stopped, long garbage"
        " collection, full disk). The client gives up after request.timeout.ms.",
    )
    waiting = [c for c in connections if (c.unanswered_seconds or 0.0) >= UNANSWERED_SECONDS]
    silent = {connection.broker for connection in waiting if not _may_rebalance(connection)}
    groups: dict[ClientBroker, list[Connection]] = defaultdict(list)
    for connection in waiting:
        if connection.broker in silent:
            groups[_key(connection)].append(connection)
    return [
        _finding(
            kind,
            key,
            members,
            f"{_broker(key)} has not answered {_who(key)} for"
            f" {max(member.unanswered_seconds or 0 for member in members):.0f} s.",
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


def _many_instances(connections: Iterable[Connection]) -> list[Finding]:
    kind = _Kind(
        "KafkaClientManyInstances",
        Severity.INFO,
        "Many clients in one process, each with connections of its own",
        "Share one producer: it is thread-safe and batches better; consumers need one each.",
    )
    clients: dict[tuple[str, ClientKind], dict[str, list[Connection]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for connection in connections:
        if connection.client_id is not None and connection.client_kind is not ClientKind.CONSUMER:
            name = f"{connection.client_id}/{connection.client_instance}"
            clients[connection.owner.key, connection.client_kind][name].append(connection)
    findings = []
    for (_owner, client_kind), by_name in clients.items():
        if len(by_name) < MANY_INSTANCES:
            continue
        members = [member for group in by_name.values() for member in group]
        process = members[0].owner.name
        key = ClientBroker("", client_kind.value, process, "", "")
        text = f"{process} runs {len(by_name)} {client_kind}s that hold {_count(members)}."
        findings.append(_finding(kind, key, members, text))
    return findings


def _sources_down(sources: Iterable[SourceStatus]) -> list[Finding]:
    return [
        Finding(
            name="BrokerwireSourceDown",
            severity=Severity.WARNING,
            labels={"source": source.name, "kind": source.kind},
            summary="A source cannot be read",
            description=f"{source.name}: {source.error}",
            remedy="Do what the message says; until then connections are classed without it.",
            value=1.0,
        )
        for source in sources
        if not source.up and source.error is not None
    ]


def _finding(
    kind: _Kind, key: ClientBroker, members: Sequence[Connection], description: str
) -> Finding:
    return Finding(
        name=kind.name,
        severity=kind.severity,
        labels={name: value for name, value in key._asdict().items() if value},
        summary=kind.summary,
        description=description,
        remedy=kind.remedy,
        value=float(len(members)),
        cookies=tuple(member.cookie for member in members),
    )


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
        return f"{key.client_kind} {key.client_id!r} in {key.process or 'an unknown process'}"
    return key.process or "a process that could not be told"


def _broker(key: ClientBroker) -> str:
    return f"broker {key.broker_id} ({key.broker})" if key.broker_id else key.broker


def _count(members: Sequence[Connection]) -> str:
    return f"{len(members)} connection{'' if len(members) == 1 else 's'}"
