"""What really happened in each hour: from the connections' own times, by plain arithmetic.

It shares nothing with the way from connections to journals (`series`, `flow`, `lines`) but the
events themselves, and nothing at all with the rollups. It tells what the agents could see: while
none was running, nobody knows.
"""

from __future__ import annotations

__all__ = ["Truth"]

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, cast

from fleet_simulator.events import BUSY_IDLE_MS, HOUR_MS, MINUTE_MS

if TYPE_CHECKING:
    from fleet_simulator.events import Boot, Pod
    from fleet_simulator.truth_rows import Row, Tables, Value

# From docs/journal.md; written here a second time on purpose.
_BUCKETS_MS = (
    100, 1000, 5000, 10_000, 30_000, 60_000, 300_000, 540_000, 600_000, 3_600_000, 86_400_000,
)  # fmt: skip
_CLOSERS = {
    "client": "closed_by_client",
    "broker": "closed_by_broker",
    "reset": "closed_by_reset",
    "unknown": "closed_unknown",
}
_SUMS = (
    "connection_ms", "useful_ms", "expected_ms", "expected_known_ms", "unknown_ms", "waste_ms",
    "opened", "closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown",
    "connect_failures", "bytes_out", "bytes_in", "lifetime_ms_sum", "peak_connections",
    "peak_opened_sum", "series", "clients",
)  # fmt: skip
Key = tuple[int, "Dims"]


class Dims(NamedTuple):
    """What the rollups group by, besides the hour."""

    kafka_cluster: str
    cluster: str
    namespace: str
    service: str
    client_kind: str | None
    library: str | None
    library_version: str | None
    broker_id: int | None
    broker: str | None
    connection_class: str
    cause: str | None


# Of a probe no metrics are to be had: nobody knows what it needs, and that is no zero.
_NOBODY_KNOWS = {"expected_ms": None, "expected_known_ms": None}


class _Row:
    """One hour of one group."""

    __slots__ = ("buckets", "maxima", "sums")

    def __init__(self) -> None:
        self.sums = dict.fromkeys(_SUMS, 0)
        self.maxima: dict[str, int | None] = {"idle_max_ms": None, "peak_opened": 0}
        self.buckets = [0] * (len(_BUCKETS_MS) + 1)

    def at_least(self, name: str, value: int) -> None:
        self.maxima[name] = max(self.maxima[name] or 0, value)


class Truth:
    """The truth about some pods; parts of a fleet can be added up, as no pod is in two of them."""

    def __init__(self) -> None:
        self._rows: dict[Key, _Row] = defaultdict(_Row)
        self._coverage: dict[tuple[Value, ...], Row] = {}
        self._findings: dict[tuple[Value, ...], Row] = {}
        self._looked: set[tuple[Value, ...]] = set()
        self._looked_last: set[tuple[Value, ...]] = set()
        self._series: set[tuple[Key, object]] = set()
        self._clients: set[tuple[Key, object]] = set()

    def add(self, pod: Pod) -> None:
        """Add all that the agents of a pod could see."""
        for boot in pod.boots:
            if _last_word(boot) > boot.since + boot.offset:
                self._add_boot(pod, boot)
        for name, seen in (("series", self._series), ("clients", self._clients)):
            for key, _ in seen:
                self._rows[key].sums[name] += 1
            seen.clear()
        for where in self._looked:
            _add(self._coverage[where], agents=1, agents_at_end=int(where in self._looked_last))
        self._looked.clear()
        self._looked_last.clear()

    def tables(self) -> Tables:
        """Return the rows of the tables `hourly`, `coverage` and `findings`: whole numbers only."""
        hourly: dict[tuple[Value, ...], Row] = {
            (hour * HOUR_MS, *dims): {
                **row.sums,
                **(_NOBODY_KNOWS if dims.connection_class == "probe" else {}),
                **row.maxima,
                "lifetime_buckets": row.buckets,
            }
            for (hour, dims), row in self._rows.items()
        }
        return {"hourly": hourly, "coverage": self._coverage, "findings": self._findings}

    def _add_boot(self, pod: Pod, boot: Boot) -> None:
        begin, end = boot.since + boot.offset, _last_word(boot)
        self._cover(pod, begin, end)
        spans: dict[tuple[Dims, object], tuple[list[int], list[int]]] = {}
        opened: dict[tuple[Dims, object], list[int]] = defaultdict(list)
        for phase in pod.phases:
            born, died = phase.begin + boot.offset, phase.end + boot.offset
            first, last = max(born, begin), min(died, end)
            if first >= last:
                continue
            dims = _dims(pod, phase.client, phase.broker, phase.connection_class, phase.cause)
            series = (boot.boot_id, phase.client, phase.role)
            starts, stops = spans.setdefault((dims, series), ([], []))
            starts.append(first)
            stops.append(last)
            for hour in range(first // HOUR_MS, (last - 1) // HOUR_MS + 1):
                low, high = max(first, hour * HOUR_MS), min(last, (hour + 1) * HOUR_MS)
                row = self._row(hour, dims, pod, series)
                self._held(row, phase.useful, phase.connection_class, high - low)
                ticks = (high - 1) // 1000 - (low - 1) // 1000
                row.sums["bytes_out"] += phase.rate_out * ticks
                row.sums["bytes_in"] += phase.rate_in * ticks
                quiet = phase.quiet_since
                silent = BUSY_IDLE_MS if quiet is None else high - quiet - boot.offset
                row.at_least("idle_max_ms", silent)
            if first == born:
                row = self._row(born // HOUR_MS, dims, pod, series)
                row.sums["bytes_out"] += phase.first_out
                row.sums["bytes_in"] += phase.first_in
                if phase.opens:
                    row.sums["opened"] += 1
                    opened[dims, series].append(born)
            if phase.closed_by and died < end:
                row = self._row(died // HOUR_MS, dims, pod, series)
                row.sums[_CLOSERS[phase.closed_by]] += 1
                lived = died - max(phase.born + boot.offset, begin)
                row.sums["lifetime_ms_sum"] += lived
                row.buckets[bisect_left(_BUCKETS_MS, lived)] += 1
        self._needs(pod, boot, begin, end)
        for failure in pod.failures:
            at = failure.at + boot.offset
            if begin <= at < end:
                dims = _dims(pod, failure.client, failure.broker, "connecting", "")
                series = (boot.boot_id, failure.client, "unknown")
                row = self._row(at // HOUR_MS, dims, pod, series)
                row.sums["opened"] += 1
                row.sums["connect_failures"] += 1
                opened[dims, series].append(at)
        self._peaks(spans, opened)
        self._found(pod, boot, begin, end)

    def _held(self, row: _Row, useful: bool, connection_class: str, held: int) -> None:
        row.sums["connection_ms"] += held
        if useful:
            row.sums["useful_ms"] += held
        elif connection_class == "unknown":
            row.sums["unknown_ms"] += held
        else:
            row.sums["waste_ms"] += held
        row.sums["expected_known_ms"] += held

    def _needs(self, pod: Pod, boot: Boot, begin: int, end: int) -> None:
        for need in pod.expectations:
            first = max(need.begin + boot.offset, begin)
            last = min(need.end + boot.offset, end)
            dims = _dims(pod, need.client, need.broker, need.connection_class, "")
            series = (boot.boot_id, need.client, need.connection_class)
            hour = first // HOUR_MS
            while first < last:
                until = min(last, (hour + 1) * HOUR_MS)
                row = self._row(hour, dims, pod, series)
                row.sums["expected_ms"] += need.needed * (until - first)
                first, hour = until, hour + 1

    def _peaks(
        self,
        spans: dict[tuple[Dims, object], tuple[list[int], list[int]]],
        opened: dict[tuple[Dims, object], list[int]],
    ) -> None:
        """Look where a count can be greatest: as an hour begins, or as something opens."""
        for (dims, _), (starts, stops) in spans.items():
            starts.sort()
            stops.sort()
            peaks: dict[int, int] = defaultdict(int)
            hours = range(starts[0] // HOUR_MS, (stops[-1] - 1) // HOUR_MS + 1)
            for moment in (*starts, *(hour * HOUR_MS for hour in hours)):
                now = bisect_right(starts, moment) - bisect_right(stops, moment)
                hour = moment // HOUR_MS
                peaks[hour] = max(peaks[hour], now)
            for hour, peak in peaks.items():
                if peak:
                    self._rows[hour, dims].sums["peak_connections"] += peak
        for (dims, _), moments in opened.items():
            most: dict[int, int] = defaultdict(int)
            for second, count in Counter(moment // 1000 for moment in moments).items():
                hour = second * 1000 // HOUR_MS
                most[hour] = max(most[hour], count)
            for hour, count in most.items():
                self._rows[hour, dims].at_least("peak_opened", count)
                self._rows[hour, dims].sums["peak_opened_sum"] += count

    def _cover(self, pod: Pod, begin: int, end: int) -> None:
        service = pod.service
        for hour in range(begin // HOUR_MS, (end - 1) // HOUR_MS + 1):
            low, high = max(begin, hour * HOUR_MS), min(end, (hour + 1) * HOUR_MS)
            key = (hour * HOUR_MS, service.site, service.namespace, service.name)
            minutes = (high - 1) // MINUTE_MS - low // MINUTE_MS + 1
            row = self._coverage.setdefault(key, {"agents": 0, "agents_at_end": 0})
            _add(
                row,
                boots=1,
                boots_started=int(begin == low),
                minutes_seen=minutes,
                minutes_expected=minutes,
                covered_ms=high - low,
            )
            self._looked.add(key)
            if (high - 1) // MINUTE_MS == (hour + 1) * HOUR_MS // MINUTE_MS - 1:
                self._looked_last.add(key)

    def _found(self, pod: Pod, boot: Boot, begin: int, end: int) -> None:
        service = pod.service
        for finding in pod.findings:
            first = max(finding.begin + boot.offset, begin)
            last = min(finding.end + boot.offset, end)
            start = first
            while first < last:
                hour = first // HOUR_MS
                until = min(last, (hour + 1) * HOUR_MS)
                broker = service.cluster.brokers[finding.broker or 0]
                known = finding.broker is not None
                key = (
                    hour * HOUR_MS, service.cluster.name, service.site, service.namespace,
                    service.name, pod.clients[finding.client].kind,
                    broker.broker_id if known else None, broker.address if known else None,
                    finding.name, finding.cause or None, finding.severity,
                )  # fmt: skip
                row = self._findings.setdefault(key, {"value_max": 0})
                _add(row, active_ms=until - first, begun=int(first == start))
                row["value_max"] = max(finding.held, cast("int", row["value_max"]))
                first = until

    def _row(self, hour: int, dims: Dims, pod: Pod, series: tuple[str, int, str]) -> _Row:
        client = pod.clients[series[1]]
        self._series.add(((hour, dims), series))
        self._clients.add(((hour, dims), (client.process, client.client_id)))
        return self._rows[hour, dims]


def _last_word(boot: Boot) -> int:
    """Return up to when this boot could tell what it saw: without a last record not all."""
    until = boot.until + boot.offset
    return until if boot.final else until // MINUTE_MS * MINUTE_MS


def _dims(pod: Pod, client: int, broker: int, connection_class: str, cause: str) -> Dims:
    who, to, service = pod.clients[client], pod.service.cluster.brokers[broker], pod.service
    return Dims(
        service.cluster.name,
        service.site,
        service.namespace,
        service.name,
        who.kind,
        who.library,
        who.version,
        to.broker_id,
        to.address,
        connection_class,
        cause or None,
    )


def _add(row: Row, **amounts: int) -> None:
    for name, amount in amounts.items():
        row[name] = cast("int", row.get(name, 0)) + amount
