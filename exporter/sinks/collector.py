"""The same families for prometheus_client: for whoever runs brokerwire inside a registry.

The agent does not need it, and does not import it: prometheus_client costs some 5 MiB.
"""

from __future__ import annotations

__all__ = ["BrokerwireCollector"]

import time
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from exporter.settings import LimitSettings
from exporter.sinks.catalogue import Kind
from exporter.sinks.exposition import BOUNDS, build_readings
from exporter.sinks.families import families
from exporter.sinks.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from exporter.sinks.catalogue import MetricSpec
    from exporter.sinks.families import Reading, Row
    from exporter.snapshot import Histogram, Snapshot


class BrokerwireCollector(Collector):
    """Yield fresh families at each scrape, so a client that is gone leaves no series behind.

    The process_* metrics are left to the registry, which has a collector of its own for them.
    """

    def __init__(
        self,
        snapshot_source: Callable[[], Snapshot | None],
        limits: LimitSettings | None = None,
        readings: Sequence[Callable[[], Iterable[Reading]]] = (build_readings,),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or LimitSettings()
        self._snapshot_source = snapshot_source
        self._labels = Labels(series=limits.series, label_bytes=limits.label_bytes)
        self._readings = readings
        self._clock = clock

    def describe(self) -> list[Metric]:
        """Nothing: what there is to collect is known only with the first snapshot."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the families of the last snapshot."""
        readings = [each for supply in self._readings for each in supply()]
        snapshot, now = self._snapshot_source(), self._clock()
        for spec, rows in families(snapshot, now, self._labels, readings):
            yield _metric(spec, rows)


def _metric(spec: MetricSpec, rows: Iterable[Row]) -> Metric:
    metric = Metric(spec.family, spec.help, spec.kind.value, spec.declared_unit)
    for key, by, value in rows:
        labels = dict(zip(spec.labels, (*key, by) if spec.by else key, strict=True))
        if spec.kind is Kind.HISTOGRAM:
            _add_histogram(metric, labels, value)
        else:
            metric.add_sample(spec.name, labels, value)
    return metric


def _add_histogram(metric: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    count = 0
    for bound, observed in zip(BOUNDS, histogram.counts, strict=True):
        count += observed
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
    metric.add_sample(f"{metric.name}_count", labels, count)
    metric.add_sample(f"{metric.name}_sum", labels, histogram.sum)
