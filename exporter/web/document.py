"""A snapshot as JSON: what the API and `inspect --json` say. docs/api.md describes it.

Missing is null. Fields are only ever added; a change of meaning raises SCHEMA_VERSION.
"""

from __future__ import annotations

__all__ = [
    "SCHEMA_VERSION",
    "connection_fields",
    "connections_document",
    "encode",
    "encode_connections",
    "findings_document",
    "sections",
    "sources_document",
    "summary",
]

import json
from typing import TYPE_CHECKING, Any

from exporter.model import ConnectionClass
from exporter.web.fields import SCHEMA_VERSION, Document, envelope, number, plain, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exporter.model import Connection
    from exporter.snapshot import ClientBroker, Finding, ProcessClients, Snapshot, SourceStatus


def connections_document(
    snapshot: Snapshot, *, stale: bool = False, only: Iterable[Connection] | None = None
) -> Document:
    """Describe a whole snapshot; `stale` says that it is too old to be believed.

    `only` leaves out the other connections, for those who have no use for 50,000.
    """
    listed = snapshot.connections if only is None else only
    return {
        **envelope(snapshot, stale=stale),
        "summary": summary(snapshot),
        "connections": [connection_fields(each) for each in listed],
        "clients": list(_clients(snapshot)),
        **dict(sections(snapshot)),
    }


def sections(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    """Give the parts of the document beside connections and what follows from them, by name."""
    yield "expected", [_expected(snapshot, pair) for pair in _pairs(snapshot)]
    yield "findings", [_finding(each) for each in snapshot.findings]
    yield "sources", [_source(each) for each in snapshot.sources]
    yield "processes", _processes(snapshot)
    yield "process_clients", [_process_clients(each) for each in snapshot.process_clients]
    yield "broker_limits", snapshot.broker_limits._asdict()
    yield "agent", _agent(snapshot)


def findings_document(snapshot: Snapshot, *, stale: bool = False) -> Document:
    """Describe what somebody should change."""
    findings = [_finding(each) for each in snapshot.findings]
    return {**envelope(snapshot, stale=stale), "findings": findings}


def sources_document(snapshot: Snapshot, *, stale: bool = False) -> Document:
    """Describe how the agent comes by its figures."""
    sources = [_source(each) for each in snapshot.sources]
    return {**envelope(snapshot, stale=stale), "sources": sources, "agent": _agent(snapshot)}


def encode(document: Document) -> bytes:
    """Encode as ASCII: nothing a client calls itself can end a line."""
    return _dumped(document) + b"\n"


def encode_connections(snapshot: Snapshot, *, stale: bool = False) -> bytes:
    """Encode the connections document, one connection at a time.

    All of them as dictionaries at once would take some 3 KiB each; and the lock of the interpreter
    is held throughout a call of the encoder.
    """
    rest = _dumped(connections_document(snapshot, stale=stale, only=()))
    # No text can hold this: in JSON's texts each quotation mark has a backslash before it.
    before, mark, after = rest.partition(b'"connections":[')
    body = bytearray(before + mark)
    for each in snapshot.connections:
        body += _dumped(connection_fields(each))
        body += b","
    if body.endswith(b","):
        del body[-1]
    return bytes(body + after + b"\n")


def _dumped(document: Document) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def connection_fields(each: Connection) -> Document:
    """Describe one connection."""
    return {
        "cookie": str(each.cookie),  # 64 bits, of which a JavaScript number holds 53
        "local": str(each.local),
        "remote": str(each.remote),
        "tcp_state": each.tcp_state,
        "class": each.connection_class,
        "role": each.role,
        "confidence": each.confidence,
        "evidence": [plain(line) for line in each.evidence],
        "pid": each.owner.pid,
        "process": plain(each.owner.name),
        "owner_rung": each.owner.rung,
        "uid": each.owner.uid,
        "cgroup_id": each.owner.cgroup_id,
        "client_id": plain(each.client_id),
        "client_kind": each.client_kind,
        "client_instance": plain(each.client_instance) or None,
        "library": each.library,
        "node_id": plain(each.node_id),
        "broker_id": each.broker_id,
        "broker": each.broker,
        "useful": each.useful,
        "equals": [plain(node) for node in each.equals],
        "age_seconds": number(each.age_seconds),
        "age_is_exact": each.age_is_exact,
        "idle_seconds": number(each.idle_seconds),
        "outgoing_bytes": each.outgoing_bytes,
        "incoming_bytes": each.incoming_bytes,
        "send_queue": each.send_queue,
        "receive_queue": each.receive_queue,
        "retransmits_total": each.retransmits_total,
        "rtt_seconds": number(each.rtt_seconds),
        "source": plain(each.source),
        "expected_rule": each.expected_rule,
        "close_expected": plain(each.close_expected),
        "closes_in_seconds": number(each.closes_in_seconds),
        "unanswered_seconds": number(each.unanswered_seconds),
        "unused_seconds": number(each.unused_seconds),
        "idle_limit_seconds": number(each.idle_limit_seconds),
        "client_number": None if each.group is None else each.group.number,
    }


def _finding(each: Finding) -> Document:
    return {
        "name": each.name,
        "severity": each.severity,
        "labels": {name: plain(value) for name, value in each.labels.items()},
        "summary": plain(each.summary),
        "description": plain(each.description),
        "remedy": plain(each.remedy),
        "value": number(each.value),
        "cookies": [str(cookie) for cookie in each.cookies],
    }


def _source(each: SourceStatus) -> Document:
    last = each.last_success_wall_time
    return {
        "name": plain(each.name),
        "kind": each.kind,
        "up": each.up,
        "error": plain(each.error),
        "duration_seconds": number(each.duration_seconds),
        "reads": each.reads,
        "errors": each.errors,
        "clients": each.clients,
        "last_success": None if last is None else time_text(last),
        "found_by": plain(each.found_by),
    }


def _agent(snapshot: Snapshot) -> Document:
    poll = snapshot.poll
    return {
        "read_method": poll.method,
        "events_available": poll.events_available,
        "events_lost": poll.events_lost,
        "owner_rungs": {str(rung): count for rung, count in poll.owner_rungs.items()},
        "capabilities": [plain(line) for line in poll.capabilities],
        "polls": poll.polls,
        "failed_polls": poll.failed_polls,
        "poll_duration_seconds": number(poll.duration_seconds),
        "unattributed_closed": poll.unattributed_closed,
        "folded_clients": poll.folded_clients,
        "client_groups_available": poll.groups_available,
        "grouped_connections": poll.grouped_connections,
        "error": plain(poll.error),
    }


def _processes(snapshot: Snapshot) -> list[Document]:
    return [
        {"process": plain(name), "open_fds": files.used, "max_fds": files.limit}
        for name, files in sorted(snapshot.open_files.items())
    ]


def _process_clients(each: ProcessClients) -> Document:
    threads = each.threads
    return {
        "process": plain(each.process),
        "pid": each.pid,
        "producers": threads.producers,
        "consumers": threads.consumers,
        "admins": threads.admins,
        "librdkafka": threads.librdkafka,
        "told_apart": each.is_told_apart,
    }


def _pairs(snapshot: Snapshot) -> list[ClientBroker]:
    return sorted(snapshot.counts.keys() | snapshot.expected.keys())


def _named(pair: ClientBroker) -> Document:
    return {
        "client_id": plain(pair.client_id) or None,
        "client_kind": pair.client_kind,
        "process": plain(pair.process),
    }


def _expected(snapshot: Snapshot, pair: ClientBroker) -> Document:
    counts = snapshot.counts.get(pair, {})
    expectation = snapshot.expected.get(pair)
    return {
        **_named(pair),
        "broker_id": int(pair.broker_id) if pair.broker_id.isdecimal() else None,
        "broker": pair.broker,
        "connections": sum(counts.values()),
        "by_class": {str(each): counts.get(each, 0) for each in ConnectionClass},
        "expected": None if expectation is None else expectation.count,
        "rules": [
            {"rule": rule, "reason": plain(reason)}
            for rule, reason in (() if expectation is None else expectation.rules)
        ],
    }


def summary(snapshot: Snapshot) -> Document:
    """Describe the whole in figures."""
    by_class = {str(each): 0 for each in ConnectionClass}
    for each in snapshot.connections:
        by_class[each.connection_class] += 1
    return {
        "connections": len(snapshot.connections),
        "useful": sum(each.useful for each in snapshot.connections),
        "unused": sum(each.unused_seconds is not None for each in snapshot.connections),
        "expected": sum(each.count for each in snapshot.expected.values()),
        "by_class": by_class,
        "efficiency": _ratio(
            sum(snapshot.totals.useful_seconds.values()),
            sum(snapshot.totals.known_seconds().values()),
        ),
    }


def _ratio(useful: float, spent: float) -> float | None:
    return min(useful / spent, 1.0) if spent > 0 else None


def _clients(snapshot: Snapshot) -> Iterator[Document]:
    """Add up each client over its brokers; the seconds are since the agent's start."""
    totals = snapshot.totals
    spent: dict[tuple[str, ...], float] = {}
    for (pair, _), seconds in totals.connection_seconds.items():
        spent[pair[:3]] = spent.get(pair[:3], 0.0) + seconds
    useful: dict[tuple[str, ...], float] = {}
    for pair, seconds in totals.useful_seconds.items():
        useful[pair[:3]] = useful.get(pair[:3], 0.0) + seconds
    known: dict[tuple[str, ...], float] = {}
    for pair, seconds in totals.known_seconds().items():
        known[pair[:3]] = known.get(pair[:3], 0.0) + seconds
    by_client: dict[tuple[str, ...], list[ClientBroker]] = {}
    for pair in _pairs(snapshot):
        by_client.setdefault(pair[:3], []).append(pair)
    for client, pairs in by_client.items():
        expected = [snapshot.expected[pair].count for pair in pairs if pair in snapshot.expected]
        yield {
            **_named(pairs[0]),
            "brokers": len(pairs),
            "connections": sum(sum(snapshot.counts.get(pair, {}).values()) for pair in pairs),
            "expected": sum(expected) if expected else None,
            "connection_seconds": number(spent.get(client, 0.0)),
            "useful_seconds": number(useful.get(client, 0.0)),
            "efficiency": _ratio(useful.get(client, 0.0), known.get(client, 0.0)),
        }
