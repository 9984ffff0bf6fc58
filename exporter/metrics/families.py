"""The series of a snapshot as plain rows, sorted, so that the order of a page is stable.

A row is (label values without the last of a metric that has `by`, value of that label, value).
"""

from __future__ import annotations

__all__ = ["STALE_INTERVALS", "Reading", "Row", "is_stale", "pairs_of", "rows_of"]

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from exporter.metrics.bounded_rows import (
    client_info,
    finding_connections,
    findings,
    limits_of_brokers,
    open_files,
    probes,
)
from exporter.metrics.catalogue import CLIENT
from exporter.model import ClosedBy, OwnerRung, ReadMethod
from exporter.snapshot import ClientBroker, Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.metrics.catalogue import MetricSpec
    from exporter.metrics.labels import Labels
    from exporter.snapshot import PollStatus, Snapshot, SourceStatus, Totals

Key = tuple[str, ...]
# The value is a Histogram in the rows of a histogram, else a number.
Row = tuple[Key, str, Any]
Rows = Iterable[Row]
# What another part of the agent adds: the name of a catalogued metric, its labels, its value.
Reading = tuple[str, tuple[str, ...], float]
Reader = Callable[["Snapshot", "Labels"], Rows]
Label = TypeVar("Label", bound=str)

STALE_INTERVALS = 3.0
_CLIENT_LABELS = len(CLIENT)


def is_stale(snapshot: Snapshot, now: float) -> bool:
    """Return whether what the snapshot says of the clients is too old to be shown."""
    return now - snapshot.at > STALE_INTERVALS * snapshot.interval_seconds


def pairs_of(snapshot: Snapshot) -> set[ClientBroker]:
    """Every client and broker that has a series in the snapshot."""
    totals = snapshot.totals
    seen: set[ClientBroker] = set(snapshot.counts)
    seen.update(pair for pair, _ in totals.connection_seconds)
    seen.update(pair for pair, _ in totals.closed)
    for mapping in (
        snapshot.expected,
        snapshot.timings,
        snapshot.libraries,
        totals.useful_seconds,
        totals.opened,
        totals.lifetimes,
        totals.outgoing_bytes,
        totals.incoming_bytes,
        totals.retransmits,
        totals.connect_failures,
    ):
        seen.update(mapping)
    return seen


def rows_of(spec: MetricSpec, snapshot: Snapshot, labels: Labels, *, stale: bool) -> list[Row]:
    """Return the series that a snapshot has of one metric; `labels` are settled for it."""
    reader = _READERS.get(spec.name)
    if reader is None or (spec.expires and stale):
        return []
    # No two have the same labels, so values are never compared.
    return sorted(reader(snapshot, labels))


# Clients


def _counts(snapshot: Snapshot, labels: Labels) -> Rows:
    """Count by class: those that the client has at this broker, and 0 for those that it has had.

    An alert on a class ends with the 0 of its series; a class that never was needs no series.
    """
    now = {
        (pair, each): count
        for pair, counts in snapshot.counts.items()
        for each, count in counts.items()
        if count
    }
    had = {key: 0 for key in snapshot.totals.connection_seconds if key[0] in snapshot.counts}
    return _by_label(had | now, labels)


def _sums(mapping: Mapping[ClientBroker, float], labels: Labels) -> Mapping[ClientBroker, float]:
    if not labels.renamed:
        return mapping
    summed: dict[ClientBroker, float] = {}
    for pair, value in mapping.items():
        name = labels[pair]
        summed[name] = summed.get(name, 0) + value
    return summed


def _by_pair(mapping: Mapping[ClientBroker, float], labels: Labels) -> Rows:
    return [(pair, "", value) for pair, value in _sums(mapping, labels).items()]


def _summed(values: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    summed: dict[Key, float] = {}
    for key, value in values:
        summed[key] = summed.get(key, 0) + value
    return summed


def _by_client(mapping: Mapping[ClientBroker, float], labels: Labels) -> dict[Key, float]:
    return _summed((labels[pair][:_CLIENT_LABELS], value) for pair, value in mapping.items())


def _of_brokers(get: Callable[[Totals], Mapping[ClientBroker, int]]) -> Reader:
    """Return the reader of a counter by broker, which is 0 from the first connection on."""

    def rows(snapshot: Snapshot, labels: Labels) -> Rows:
        summed = dict.fromkeys((labels[pair].broker for pair in snapshot.counts), 0)
        for pair, value in get(snapshot.totals).items():
            broker = labels[pair].broker
            summed[broker] = summed.get(broker, 0) + value
        return [((broker,), "", value) for broker, value in summed.items()]

    return rows


def _by_label(mapping: Mapping[tuple[ClientBroker, Label], float], labels: Labels) -> Rows:
    if not labels.renamed:
        return [(pair, by, value) for (pair, by), value in mapping.items()]
    summed: dict[tuple[ClientBroker, Label], float] = {}
    for (pair, by), value in mapping.items():
        name = (labels[pair], by)
        summed[name] = summed.get(name, 0) + value
    return [(pair, by, value) for (pair, by), value in summed.items()]


def _known(snapshot: Snapshot) -> Iterable[ClientBroker]:
    """Every client and broker that has, or had, connections.

    Whatever can be counted of them is 0 from the first on: Prometheus's `increase()` cannot see how
    a series came to its first value.
    """
    totals = snapshot.totals
    return dict.fromkeys((*snapshot.counts, *totals.opened, *(pair for pair, _ in totals.closed)))


def _opened(snapshot: Snapshot, labels: Labels) -> Rows:
    return _by_pair({**dict.fromkeys(_known(snapshot), 0), **snapshot.totals.opened}, labels)


def _closed(snapshot: Snapshot, labels: Labels) -> Rows:
    zeros = {(pair, side): 0 for pair in _known(snapshot) for side in _ZERO_SIDES}
    return _by_label({**zeros, **snapshot.totals.closed}, labels)


# What the rules take an increase of.
_ZERO_SIDES = (ClosedBy.BROKER, ClosedBy.ABORT)


def _expected(snapshot: Snapshot, labels: Labels) -> Rows:
    return _by_pair({pair: each.count for pair, each in snapshot.expected.items()}, labels)


def _lifetimes(snapshot: Snapshot, labels: Labels) -> Rows:
    summed: dict[Key, Histogram] = {}
    for pair, histogram in snapshot.totals.lifetimes.items():
        client = labels[pair][:_CLIENT_LABELS]
        earlier = summed.get(client)
        summed[client] = histogram if earlier is None else _added(earlier, histogram)
    return [(client, "", histogram) for client, histogram in summed.items()]


def _added(one: Histogram, other: Histogram) -> Histogram:
    return Histogram(
        tuple(a + b for a, b in zip(one.counts, other.counts, strict=True)), one.sum + other.sum
    )


def _seconds(snapshot: Snapshot, labels: Labels) -> Rows:
    summed: dict[tuple[Key, str], float] = {}
    for (pair, by), value in snapshot.totals.connection_seconds.items():
        key = (labels[pair][:_CLIENT_LABELS], by)
        summed[key] = summed.get(key, 0) + value
    return [(client, by, value) for (client, by), value in summed.items()]


def _useful(snapshot: Snapshot, labels: Labels) -> Rows:
    # Without a client's metrics it is unknown what is useful: unknown is not waste.
    summed = _by_client(snapshot.totals.useful_seconds, labels)
    return [(client, "", value) for client, value in summed.items() if value or client[0]]


def _efficiency(snapshot: Snapshot, labels: Labels) -> Rows:
    # What is unknown has no efficiency.
    spent = _by_client(snapshot.totals.known_seconds(), labels)
    useful = _by_client(snapshot.totals.useful_seconds, labels)
    return [
        (client, "", min(useful.get(client, 0) / seconds, 1.0))
        for client, seconds in spent.items()
        if seconds > 0
    ]


def _idle(snapshot: Snapshot, labels: Labels) -> Rows:
    longest: dict[Key, float] = {}
    for pair, timing in snapshot.timings.items():
        client = labels[pair][:_CLIENT_LABELS]
        longest[client] = max(longest.get(client, 0.0), timing.longest_idle)
    return [(client, "", idle) for client, idle in longest.items()]


def _unused(snapshot: Snapshot, labels: Labels) -> Rows:
    return _by_pair({pair: timing.unused for pair, timing in snapshot.timings.items()}, labels)


def _rtt(snapshot: Snapshot, labels: Labels) -> Rows:
    slowest: dict[Key, float] = {}
    for pair, timing in snapshot.timings.items():
        if timing.round_trip is not None:
            broker = (labels[pair].broker,)
            slowest[broker] = max(slowest.get(broker, 0.0), timing.round_trip)
    return [(broker, "", round_trip) for broker, round_trip in slowest.items()]


# The agent


def _of_sources(get: Callable[[SourceStatus], float | None]) -> Reader:
    def rows(snapshot: Snapshot, labels: Labels) -> Rows:
        values = [(labels.safe((each.name, each.kind)), get(each)) for each in snapshot.sources]
        return [(name, "", value) for name, value in values if value is not None]

    return rows


def _of_poll(get: Callable[[PollStatus], float]) -> Reader:
    return lambda snapshot, _: [((), "", get(snapshot.poll))]


_READERS: dict[str, Reader] = {
    "kafka_client_connections": _counts,
    "kafka_client_connections_expected": _expected,
    "kafka_client_connections_unused": _unused,
    "kafka_client_connection_seconds_total": _seconds,
    "kafka_client_connection_useful_seconds_total": _useful,
    "kafka_client_connection_efficiency_ratio": _efficiency,
    "kafka_client_connections_opened_total": _opened,
    "kafka_client_connections_closed_total": _closed,
    "kafka_client_connection_lifetime_seconds": _lifetimes,
    "kafka_client_sent_bytes_total": _of_brokers(lambda totals: totals.outgoing_bytes),
    "kafka_client_received_bytes_total": _of_brokers(lambda totals: totals.incoming_bytes),
    "kafka_client_connection_idle_seconds_max": _idle,
    "kafka_client_connection_rtt_seconds": _rtt,
    "kafka_client_retransmits_total": _of_brokers(lambda totals: totals.retransmits),
    "kafka_client_connect_failures_total": _of_brokers(lambda totals: totals.connect_failures),
    "kafka_client_info": client_info,
    "kafka_client_probes_total": probes,
    "kafka_client_process_open_fds": open_files(lambda files: files.used),
    "kafka_client_process_max_fds": open_files(lambda files: files.limit),
    "kafka_client_broker_max_connections": limits_of_brokers(lambda each: each.max_connections),
    "kafka_client_broker_max_connections_per_ip": limits_of_brokers(
        lambda each: each.max_connections_per_ip
    ),
    "kafka_client_finding_connections": finding_connections,
    "brokerwire_findings": findings,
    "brokerwire_owned_connections": lambda s, _: [
        ((rung,), "", s.poll.owner_rungs.get(rung, 0)) for rung in OwnerRung
    ],
    "brokerwire_source_up": _of_sources(lambda each: each.up),
    "brokerwire_source_duration_seconds": _of_sources(lambda each: each.duration_seconds),
    "brokerwire_source_reads_total": _of_sources(lambda each: each.reads),
    "brokerwire_source_errors_total": _of_sources(lambda each: each.errors),
    "brokerwire_source_dropped_reads_total": _of_sources(lambda each: each.dropped),
    "brokerwire_source_last_success_timestamp_seconds": _of_sources(
        lambda each: each.last_success_wall_time
    ),
    "brokerwire_source_clients": _of_sources(lambda each: each.clients),
    "brokerwire_polls_total": _of_poll(lambda poll: poll.polls),
    "brokerwire_poll_failures_total": _of_poll(lambda poll: poll.failed_polls),
    "brokerwire_poll_duration_seconds": _of_poll(lambda poll: poll.duration_seconds),
    "brokerwire_poll_interval_seconds": lambda s, _: [((), "", s.interval_seconds)],
    "brokerwire_last_poll_timestamp_seconds": lambda s, _: [((), "", s.wall_time)],
    "brokerwire_read_method": lambda s, _: [
        ((method,), "", method is s.poll.method) for method in ReadMethod
    ],
    "brokerwire_events_available": _of_poll(lambda poll: poll.events_available),
    "brokerwire_events_lost_total": _of_poll(lambda poll: poll.events_lost),
    "brokerwire_client_groups_available": _of_poll(lambda poll: poll.groups_available),
    "brokerwire_grouped_connections": _of_poll(lambda poll: poll.grouped_connections),
    "brokerwire_unattributed_closed_total": _of_poll(lambda poll: poll.unattributed_closed),
    "brokerwire_folded_clients": _of_poll(lambda poll: poll.folded_clients),
    "brokerwire_folded_series": lambda _, n: [((), "", n.folded)],
}
