"""From counters to journal lines: the journal's own JSON, written from fragments.

What never changes in a series is encoded once, what seldom changes only when it does. Each line
costs about a microsecond so, a tenth of `json.dumps`; a test parses them and checks every one
against the journal's schema.
"""

from __future__ import annotations

__all__ = ["AGENT_VERSION", "batches_of"]

import json
from itertools import repeat
from typing import TYPE_CHECKING

from fleet_simulator.batch_times import BatchTimes
from fleet_simulator.events import HOUR_MS, MINUTE_MS, SECOND_MS, Finding
from fleet_simulator.series import CLOSED_BY, series_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from fleet_simulator.events import Boot, Pod
    from fleet_simulator.series import Series

AGENT_VERSION = "simulated"
# Nobody shows metrics of a probe: nothing is known of what it needs.
_NEEDS_UNKNOWN = "probe"


class _Written:
    """A series as it is written: its constant text, and for each batch the rest, or None."""

    def __init__(self, first: int, prefix: str, rest: Iterator[str | None]) -> None:
        self.first = first
        self.prefix = prefix
        self.rest = rest


def batches_of(pod: Pod, boot: Boot) -> Iterator[list[str]]:
    """Yield the lines of each batch that this boot of the pod's agent wrote."""
    times = BatchTimes(boot)
    counted = series_of(pod, times, boot.offset)
    head = "{" + _fragment(_envelope(pod, boot))
    written = [
        _Written(
            series.first,
            head
            + _fragment({"kind": "connections", "series": number, **_dimensions(pod, series)})
            + f'"since_ms":{times.begin(series.first)},',
            _counters(pod, series, times),
        )
        for number, series in enumerate(counted)
    ]
    written += _findings(pod, boot, times, head, len(written))
    written.sort(key=lambda each: each.first)
    yield from _batches(boot, times, head, written, counted)


def _batches(
    boot: Boot, times: BatchTimes, head: str, written: list[_Written], counted: Sequence[Series]
) -> Iterator[list[str]]:
    open_now = [sum(counts) for counts in zip(*(series.open for series in counted), strict=True)]
    known = len(written)
    begun = 0
    last = len(times.at) - 1
    agent = head + _fragment({"kind": "agent", **_about_agent(boot)})
    agent += f'"since_ms":{times.since},'
    for number, at in enumerate(times.at):
        while begun < known and written[begun].first <= number:
            begun += 1
        # A rest that has come to its end is asked no more: next() would raise.
        rests = [(each.prefix, rest) for each in written[:begun] if (rest := next(each.rest, None))]
        final = "true" if boot.final and number == last else "false"
        batch = f'"seq":{number + 1},"records":{len(rests) + 1},"at_ms":{at},"final":{final},'
        seen = at - times.since
        now = f'"connections":{open_now[number] if open_now else 0},"series_kept":{begun}'
        polls = f'"covered_ms":{seen},"polls":{seen // SECOND_MS}'
        lines = [f'{agent}{batch}"index":0,{polls},{now}}}\n']
        lines += [
            f'{prefix}{batch}"index":{index},{rest}\n'
            for index, (prefix, rest) in enumerate(rests, 1)
        ]
        yield lines


def _counters(pod: Pod, series: Series, times: BatchTimes) -> Iterator[str | None]:
    """Yield what a line says of the counters from the series' first batch on; None at rest."""
    seldom, constant = _seldom(series.events, series.first), _limits(pod, series)
    unknown = series.key.connection_class == _NEEDS_UNKNOWN
    expected_ms = repeat("null") if unknown else series.expected_ms.totals()
    expected = repeat("null") if unknown else iter(series.expected)
    useful = series.useful
    peaks, peaks_opened = series.peaks, series.peaks_opened
    closing = len(times.at) - 1
    rests_from = series.last
    forgotten = _forgotten(times, rests_from)
    counters = zip(
        times.at,
        series.connection_ms.totals(),
        expected_ms,
        series.bytes_out.totals(),
        series.bytes_in.totals(),
        series.open,
        expected,
        series.idle_max,
        strict=False,
    )
    events = ""
    for number, (at, held, needed, sent, received, now, need, idle) in enumerate(counters):
        if number < series.first:
            continue
        events = seldom.get(number, events)
        if number > rests_from and not now and need in {0, "null"}:
            if number > forgotten:
                return
            if at % HOUR_MS and number != closing:
                yield None
                continue
        yield (
            f'"connection_ms":{held},"useful_ms":{held if useful else 0},"expected_ms":{needed},'
            f'"bytes_out":{sent},"bytes_in":{received},{events}'
            f'"idle_max_ms":{"null" if idle is None else idle},'
            f'"peak_connections":{peaks.get(number, now)},'
            f'"peak_opened":{peaks_opened.get(number, 0)},'
            f'"connections":{now},"expected":{need},{constant}}}'
        )


def _forgotten(times: BatchTimes, rests_from: int) -> int:
    """Return the batch in which a series is written a last time: at rest for over an hour."""
    rested = times.at[rests_from] + HOUR_MS
    whole = (rested // HOUR_MS + 1) * HOUR_MS
    return times.index(whole - MINUTE_MS)


def _seldom(events: dict[int, list[int]], first: int) -> dict[int, str]:
    nothing = [0] * len(next(iter(events.values()), [0] * 19))
    made = {}
    for number, counts in ({first: nothing} | events).items():
        closed = "".join(
            f'"closed_{"by_" if side != "unknown" else ""}{side}":{count},'
            for side, count in zip(CLOSED_BY, counts[1:5], strict=True)
        )
        made[number] = (
            f'"opened":{counts[0]},{closed}"connect_failures":{counts[5]},"retransmits":0,'
            f'"lifetime_ms_sum":{counts[6]},"lifetime_buckets":{json.dumps(counts[7:])},'
        )
    return made


def _findings(
    pod: Pod, boot: Boot, times: BatchTimes, head: str, first_number: int
) -> Iterator[_Written]:
    number = first_number
    for finding in pod.findings:
        begin = max(finding.begin + boot.offset, times.since)
        end = min(finding.end + boot.offset, times.until)
        if begin < end:
            first = times.index(begin)
            text = _fragment({"kind": "finding", "series": number, **_found(pod, finding)})
            text += f'"since_ms":{times.begin(first)},'
            yield _Written(first, head + text, _active(finding, begin, end, times))
            number += 1


def _active(finding: Finding, begin: int, end: int, times: BatchTimes) -> Iterator[str | None]:
    first = times.index(begin)
    forgotten = _forgotten(times, times.index(end - 1))
    last = len(times.at) - 1
    for number in range(first, len(times.at)):
        at = times.at[number]
        if number > forgotten:
            return
        active = end > at or end == times.until
        if at > end and times.begin(number) >= end and at % HOUR_MS and number != last:
            yield None
            continue
        held = finding.held if active else 0
        value = finding.held if times.begin(number) < end else "null"
        yield (
            f'"active_ms":{min(end, at) - begin},"begun":1,"value_max":{value},'
            f'"active":{"true" if active else "false"},"held":{held}}}'
        )


def _fragment(fields: dict[str, Any]) -> str:
    """Encode fields as the inside of an object, with a comma after each."""
    return "".join(f"{json.dumps(name)}:{json.dumps(value)}," for name, value in fields.items())


def _envelope(pod: Pod, boot: Boot) -> dict[str, Any]:
    service = pod.service
    return {
        "schema_version": 1,
        "agent_id": pod.agent_id,
        "boot_id": boot.boot_id,
        "interval_ms": MINUTE_MS,
        "cluster": service.site,
        "kafka_cluster": service.cluster.name,
        "namespace": service.namespace,
        "service": service.name,
        "pod": pod.name,
        "node": pod.node,
    }


def _about_agent(boot: Boot) -> dict[str, Any]:
    return {
        "agent_version": AGENT_VERSION,
        "boot_reason": "clock_step" if boot.offset else "start",
        "read_method": "sock_diag",
        "failed_polls": 0,
        "events_lost": 0,
        "unattributed_closed": 0,
        "records_dropped": 0,
        "own_connection_ms": 0,
        "own_opened": 0,
        "own_connections": 0,
        "folded_clients": 0,
    }


def _dimensions(pod: Pod, series: Series) -> dict[str, Any]:
    client, broker = pod.clients[series.key.client], pod.service.cluster.brokers[series.key.broker]
    return {
        "process": client.process,
        "client_id": client.client_id,
        "client_kind": client.kind,
        "library": client.library,
        "library_version": client.version,
        "broker_id": broker.broker_id,
        "broker": broker.address,
        "folded": False,
        "class": series.key.connection_class,
        "role": series.key.role,
        "cause": series.key.cause or None,
    }


def _limits(pod: Pod, series: Series) -> str:
    broker = pod.service.cluster.brokers[series.key.broker]
    fields = {
        "instances": None if series.key.connection_class == _NEEDS_UNKNOWN else 1,
        "broker_max_connections": broker.max_connections,
        "broker_max_connections_per_ip": broker.max_connections_per_ip,
    }
    return _fragment(fields).rstrip(",")


def _found(pod: Pod, finding: Finding) -> dict[str, Any]:
    client = pod.clients[finding.client]
    broker = None if finding.broker is None else pod.service.cluster.brokers[finding.broker]
    return {
        "process": client.process,
        "client_id": client.client_id,
        "client_kind": client.kind,
        "broker_id": broker.broker_id if broker else None,
        "broker": broker.address if broker else None,
        "finding": finding.name,
        "cause": finding.cause or None,
        "severity": finding.severity,
    }
