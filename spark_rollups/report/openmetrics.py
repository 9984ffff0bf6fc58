"""The fleet as metrics, for node_exporter's textfile folder or a Pushgateway.

Gauges only, of the last whole hour that is in the tables: what a rate would be taken of is a gauge
per hour, and an hour that has only begun would make a sawtooth of it. The number of series does not
grow with the fleet: the services that waste most have their own, all others are `other`; so are
brokers beyond a limit.
"""

from __future__ import annotations

__all__ = ["METRICS", "render"]

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from spark_rollups.report.digest import HOUR_MS, OTHER
from spark_rollups.report.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_rollups.report.digest import BrokerLoad, Digest

MOST_SERVICES = 20
MOST_BROKERS = 200
MOST_REASONS = 40
MOST_VERSIONS = 40
_LONGEST_LABEL = 80


class Metric(NamedTuple):
    """A metric of the file; these are all there are."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


METRICS = (
    Metric("kafka_client_fleet_connections", "Connections held on average in the last whole hour."),
    Metric(
        "kafka_client_fleet_useful_connections",
        "Of these, the useful ones, on average.",
    ),
    Metric(
        "kafka_client_fleet_wasted_connections",
        "Of these, the wasted ones, on average, by reason: the cause, or the class where"
        " no cause is known. Beyond 40 reasons the rest is `other`.",
        ("reason",),
    ),
    Metric(
        "kafka_client_fleet_unknown_connections",
        "Of these, those of unknown purpose, on average.",
    ),
    Metric(
        "kafka_client_fleet_efficiency_ratio",
        "Useful time over useful and wasted time in the last whole hour; absent where there was"
        " neither.",
    ),
    Metric("kafka_client_fleet_opened_per_hour", "Connections opened in the last whole hour."),
    Metric(
        "kafka_client_fleet_service_wasted_connections",
        "Wasted connections on average on the last day, of the 20 services that waste most.",
        ("cluster", "namespace", "service"),
    ),
    Metric(
        "kafka_client_fleet_fix_saves_connections",
        "Connections that a fix would save, on average on the last day.",
        ("fix",),
    ),
    Metric(
        "kafka_client_fleet_fix_saves_opened_per_hour",
        "Openings that a fix would save in an hour, on average on the last day.",
        ("fix",),
    ),
    Metric(
        "kafka_client_fleet_version_wasted_connections_per_client",
        "Wasted connections for each client of a library version on the last day."
        " The 40 versions with most clients; a mean has no `other`.",
        ("library", "library_version", "client_kind"),
    ),
    Metric(
        "kafka_client_fleet_broker_peak_connections",
        "Most connections of watched clients to a broker in any minute of the period. Beyond 200"
        " brokers the rest adds up in `other`.",
        ("kafka_cluster", "broker_id"),
    ),
    Metric(
        "kafka_client_fleet_broker_forecast_connections",
        "Connections to a broker if every client restarted at once; absent where it is unknown.",
        ("kafka_cluster", "broker_id"),
    ),
    Metric(
        "kafka_client_fleet_broker_max_connections",
        "The broker's max.connections, where it is configured in the agents.",
        ("kafka_cluster", "broker_id"),
    ),
    Metric(
        "brokerwire_rollup_coverage_ratio",
        "Minutes seen over minutes expected in the last whole hour.",
    ),
    Metric("brokerwire_rollup_agents", "Agents that were heard in the last whole hour."),
    Metric(
        "brokerwire_rollup_last_hour_timestamp_seconds",
        "End of the last whole hour in the tables: most agents were heard up to it. When it falls"
        " behind, so does all the rest.",
    ),
    Metric(
        "brokerwire_rollup_quarantined_texts",
        "Texts in the quarantine, by reason. Beyond 40 reasons the rest is `other`.",
        ("reason",),
    ),
)

Values = dict[tuple[str, ...], float]


class _Fleet:
    """What prometheus_client asks for metrics."""

    def __init__(self, values: Mapping[str, Values]) -> None:
        self._values = values

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for metric in METRICS:
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, value in sorted(self._values.get(metric.name, {}).items()):
                family.add_metric(labels, value)
            yield family


def render(digest: Digest) -> str:
    """Write the file. It says the same as OpenMetrics and as Prometheus' older text format."""
    registry = CollectorRegistry()
    registry.register(_Fleet(_values(digest)))
    written: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return written.decode("utf-8")


def _values(digest: Digest) -> dict[str, Values]:
    fleet, rollup = "kafka_client_fleet_", "brokerwire_rollup_"
    values: dict[str, Values] = {
        f"{rollup}quarantined_texts": _folded(
            {(_label(each.reason),): float(each.texts) for each in digest.quarantine}, MOST_REASONS
        ),
        f"{fleet}service_wasted_connections": _folded(
            _summed(
                ((_label(w.cluster), _label(w.namespace), _label(w.service)), w.waste)
                for w in digest.services_waste
            ),
            MOST_SERVICES,
        ),
        f"{fleet}fix_saves_connections": _summed(((s.fix,), s.connections) for s in digest.savings),
        f"{fleet}fix_saves_opened_per_hour": _summed(((s.fix,), s.opened) for s in digest.savings),
        f"{fleet}version_wasted_connections_per_client": _of_versions(digest),
    }
    values |= _of_brokers(digest.brokers)
    if digest.hours:
        values |= _of_last_hour(digest)
    return values


def _of_versions(digest: Digest) -> Values:
    """Return the mean of each version; those that are one when their name is cut are one mean."""
    shown = sorted(digest.cohorts, key=lambda c: -c.clients)[:MOST_VERSIONS]
    named = [
        ((_label(c.library), _label(c.library_version), _label(c.client_kind)), c) for c in shown
    ]
    waste = _summed((labels, c.waste) for labels, c in named)
    clients = _summed((labels, float(c.clients)) for labels, c in named)
    return {labels: waste[labels] / clients[labels] for labels in waste if clients[labels]}


def _of_last_hour(digest: Digest) -> dict[str, Values]:
    fleet, rollup = "kafka_client_fleet_", "brokerwire_rollup_"
    last = digest.hours[-1]
    made: dict[str, Values] = {
        f"{rollup}agents": {(): float(last.agents)},
        f"{rollup}last_hour_timestamp_seconds": {(): last.at.timestamp() + HOUR_MS / 1000},
    }
    # Of an hour that has only begun nobody knows what it would be.
    if digest.whole:
        made |= {
            f"{fleet}connections": {(): last.connection_ms / HOUR_MS},
            f"{fleet}useful_connections": {(): last.useful_ms / HOUR_MS},
            f"{fleet}unknown_connections": {(): last.unknown_ms / HOUR_MS},
            f"{fleet}opened_per_hour": {(): float(last.opened)},
            f"{fleet}wasted_connections": _folded(
                _summed(
                    ((_label(w.reason),), w.waste_ms / HOUR_MS)
                    for w in digest.waste
                    if w.at == last.at
                ),
                MOST_REASONS,
            ),
        }
    if last.useful_ms + last.waste_ms:
        ratio = last.useful_ms / (last.useful_ms + last.waste_ms)
        made[f"{fleet}efficiency_ratio"] = {(): ratio}
    if last.minutes_expected:
        made[f"{rollup}coverage_ratio"] = {(): last.minutes_seen / last.minutes_expected}
    return made


def _of_brokers(brokers: tuple[BrokerLoad, ...]) -> dict[str, Values]:
    made: dict[str, Values] = {}
    for name, attribute in (
        ("peak", "peak"),
        ("forecast", "forecast_peak"),
        ("max", "max_connections"),
    ):
        known = [(load, getattr(load, attribute)) for load in brokers]
        made[f"kafka_client_fleet_broker_{name}_connections"] = _folded(
            _summed(
                ((_label(load.kafka_cluster), _label(load.broker_id)), float(value))
                for load, value in known
                if value is not None
            ),
            MOST_BROKERS,
        )
    return made


def _summed(pairs: Iterator[tuple[tuple[str, ...], float]]) -> Values:
    values: Values = {}
    for labels, value in pairs:
        values[labels] = values.get(labels, 0.0) + value
    return values


def _folded(values: Values, most: int) -> Values:
    """Keep the greatest; add the others up, so that sums stay what they were."""
    named = [labels for labels in values if set(labels) != {OTHER}]
    ordered = sorted(named, key=lambda labels: (-values[labels], labels))
    kept = {labels: values[labels] for labels in ordered[:most]}
    rest = [labels for labels in values if labels not in kept]
    if rest:
        kept[(OTHER,) * len(rest[0])] = sum(values[labels] for labels in rest)
    return kept


def _label(value: str | int | None) -> str:
    """Return a label's value; what is unknown is empty, as Prometheus has it."""
    return "" if value is None else printable(str(value), _LONGEST_LABEL)
