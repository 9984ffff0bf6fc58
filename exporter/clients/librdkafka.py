"""librdkafka's statistics: decoded, with their time and the role of each node.

librdkafka's AdminClient calls itself a producer and cannot be distinguished from one for sure:
it stays a producer here, and a node that served admin requests and neither records nor partitions
has the role admin.
"""

from __future__ import annotations

__all__ = ["StatisticsReading", "client_from_statistics", "readings_from_statistics"]

from dataclasses import dataclass
from typing import Any

from exporter.clients.json_values import count, decoded, documents, number, text
from exporter.clients.one_at_a_time import PARSING
from exporter.errors import SourceDecodeError
from exporter.model import (
    ClientKind,
    ClientReading,
    Library,
    NodeReading,
    Role,
    SourceReading,
)

MAX_BROKERS = 10_000
MICROSECONDS = 1_000_000

# `ts` is CLOCK_MONOTONIC, taken when the statistics are put together; the application may fetch
# them late. Outside these bounds it is another clock: a time namespace, another host.
OLDEST_SECONDS = 300.0
# The clock is one for all, so only rounding may put a document into the future.
FUTURE_SECONDS = 0.01
# How long librdkafka takes to walk through its brokers: measured 0.2 ms for 3, so ample for 1,000.
EMIT_SECONDS = 0.1
# An undated document is taken to be at most so old.
UNDATED_SECONDS = 1.0

_KINDS = {"producer": ClientKind.PRODUCER, "consumer": ClientKind.CONSUMER}
_LOGICAL = {"GroupCoordinator": Role.COORDINATOR, "TxnCoordinator": Role.TRANSACTION}
_RECORD_REQUESTS = ("Produce", "Fetch", "ShareFetch")
# librdkafka names these in `req` only once they were used.
_ADMIN_REQUESTS = frozenset(
    {
        "AlterConfigs", "AlterUserScramCredentials", "CreateAcls", "CreatePartitions",
        "CreateTopics", "DeleteAcls", "DeleteGroups", "DeleteRecords", "DeleteTopics",
        "DescribeAcls", "DescribeConfigs", "DescribeGroups", "DescribeUserScramCredentials",
        "ElectLeaders", "IncrementalAlterConfigs", "ListGroups", "OffsetDelete",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsReading:
    """One statistics document; `taken_at` is None where its clock is not this host's."""

    client: ClientReading
    taken_at: float | None


def client_from_statistics(
    document: bytes | str, received_at: float | None = None, where: str = "statistics"
) -> StatisticsReading:
    """Return the client of one document, and when its figures were taken.

    Without `received_at` (monotonic) the document's own time is believed as it is.

    Raises:
        SourceDecodeError: it is not librdkafka's statistics.
    """
    return _statistics(decoded(document, where), received_at, where)


def readings_from_statistics(
    body: bytes | str,
    *,
    source: str,
    received_at: float,
    sender_pid: int | None = None,
) -> tuple[SourceReading, ...]:
    """Return a reading for each document of `body` (one, or several separated by newlines).

    Raises:
        SourceDecodeError: a document is not librdkafka's statistics.
    """
    with PARSING:
        return tuple(
            _dated(_statistics(document, received_at, source), source, received_at, sender_pid)
            for document in documents(body, source)
        )


def _dated(
    statistics: StatisticsReading, source: str, received_at: float, sender_pid: int | None
) -> SourceReading:
    begun_at, ended_at = received_at - UNDATED_SECONDS, received_at
    if statistics.taken_at is not None:
        begun_at = min(statistics.taken_at, received_at)
        ended_at = min(begun_at + EMIT_SECONDS, received_at)
    return SourceReading(
        source=source,
        begun_at=begun_at,
        ended_at=ended_at,
        clients=(statistics.client,),
        sender_pid=sender_pid,
    )


def _statistics(document: Any, received_at: float | None, where: str) -> StatisticsReading:
    if not isinstance(document, dict) or not isinstance(document.get("brokers"), dict):
        raise SourceDecodeError(f"{where}: not statistics of librdkafka: no object `brokers`")
    client_id = text(document.get("client_id"))
    if client_id is None:
        raise SourceDecodeError(f"{where}: not statistics of librdkafka: no text `client_id`")
    brokers = document["brokers"]
    if len(brokers) > MAX_BROKERS:
        raise SourceDecodeError(f"{where}: statistics of more than {MAX_BROKERS} brokers")
    rows = [broker for broker in brokers.values() if isinstance(broker, dict)]
    is_admin = _is_admin(rows)
    kind = _KINDS.get(text(document.get("type")) or "", ClientKind.UNKNOWN)
    client = ClientReading(
        client_id=client_id,
        kind=ClientKind.ADMIN if is_admin else kind,
        library=Library.LIBRDKAFKA,
        nodes=_nodes(rows, is_admin=is_admin),
        instance=_instance(document),
        # Not librdkafka's own: a sender that knows it adds it (`brokerwire_client` does).
        version=text(document.get("librdkafka_version")),
    )
    return StatisticsReading(client=client, taken_at=_taken_at(document, received_at))


def _instance(document: dict[str, Any]) -> str:
    """Return a name that is one client's for as long as it lives.

    `rdkafka#producer-1` is in every process. `ts - age` is the moment of the client's birth in
    microseconds: constant, and not shared by two clients of one name on one host.
    """
    name = text(document.get("name")) or ""
    ts, age = count(document.get("ts")), count(document.get("age"))
    if ts is None or age is None:
        return name
    return f"{name}@{(ts - age) / MICROSECONDS:.6f}"


def _taken_at(document: dict[str, Any], received_at: float | None) -> float | None:
    ts = count(document.get("ts"))
    if ts is None:
        return None
    taken_at = ts / MICROSECONDS
    if received_at is None or -FUTURE_SECONDS <= received_at - taken_at <= OLDEST_SECONDS:
        return taken_at
    return None


def _is_admin(brokers: list[dict[str, Any]]) -> bool:
    """Whether a client does an AdminClient's work only: librdkafka calls those producers too.

    One that has asked for nothing but metadata yet cannot be distinguished from an idle producer.
    """
    served = {
        kind
        for broker in brokers
        if isinstance(requests := broker.get("req"), dict)
        for kind, times in requests.items()
        if count(times)
    }
    has_partitions = any(broker.get("toppars") for broker in brokers)
    return bool(served & _ADMIN_REQUESTS) and not (
        has_partitions or served.intersection(_RECORD_REQUESTS)
    )


def _nodes(brokers: list[dict[str, Any]], *, is_admin: bool) -> tuple[NodeReading, ...]:
    ids_by_name = _learned_ids(brokers)
    nodes: dict[str, NodeReading] = {}
    for broker in brokers:
        if broker.get("source") == "internal":
            # librdkafka's own queue, never connected.
            continue
        node = _node(broker, ids_by_name, is_admin=is_admin)
        if node.node_id and node.node_id not in nodes:
            nodes[node.node_id] = node
    return tuple(nodes.values())


def _learned_ids(brokers: list[dict[str, Any]]) -> dict[str, int | None]:
    """Return broker ids by `host:port`; None where one address is two brokers'."""
    ids: dict[str, int | None] = {}
    for broker in brokers:
        broker_id, name = count(broker.get("nodeid")), text(broker.get("nodename"))
        if broker_id is not None and name:
            ids[name] = broker_id if ids.get(name, broker_id) == broker_id else None
    return ids


def _node(
    broker: dict[str, Any], ids_by_name: dict[str, int | None], *, is_admin: bool
) -> NodeReading:
    name = text(broker.get("name")) or ""
    remote_name = text(broker.get("nodename")) or None
    broker_id = count(broker.get("nodeid"))
    # All bootstrap servers and logical brokers have the id -1: only their names differ.
    node_id = name if broker_id is None else str(broker_id)
    role = _role(broker, name, broker_id, is_admin=is_admin)
    if broker_id is None and role in (Role.COORDINATOR, Role.TRANSACTION):
        broker_id = ids_by_name.get(remote_name or "")
    toppars = broker.get("toppars")
    return NodeReading(
        node_id=node_id,
        role=role,
        broker_id=broker_id,
        outgoing_bytes=count(broker.get("txbytes")),
        incoming_bytes=count(broker.get("rxbytes")),
        requests=_requests(broker),
        responses=count(broker.get("rx")),
        remote_name=remote_name,
        connection_state=text(broker.get("state")),
        connects=count(broker.get("connects")),
        disconnects=count(broker.get("disconnects")),
        idle_seconds=_idle_seconds(broker),
        partitions=len(toppars) if isinstance(toppars, dict) else None,
    )


def _role(broker: dict[str, Any], name: str, broker_id: int | None, *, is_admin: bool) -> Role:
    if broker.get("source") == "logical":
        return _LOGICAL.get(name, Role.UNKNOWN)
    if broker_id is None:
        return Role.BOOTSTRAP if broker.get("source") == "configured" else Role.UNKNOWN
    return Role.ADMIN if is_admin else Role.DATA


def _requests(broker: dict[str, Any]) -> int | None:
    """Return the sum of `req`: `tx` counts a request twice where it was written in two parts."""
    requests = broker.get("req")
    if not isinstance(requests, dict):
        return None
    counts = [count(times) for times in requests.values()]
    total = sum(times for times in counts if times is not None)
    return None if None in counts else total


def _idle_seconds(broker: dict[str, Any]) -> float | None:
    """Return the time since bytes last went either way; -1 stands for never."""
    ages = [number(broker.get(key)) for key in ("txidle", "rxidle")]
    known = [age for age in ages if age is not None and age >= 0]
    return min(known) / MICROSECONDS if known else None
