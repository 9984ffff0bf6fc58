"""The catalogue's metrics as families of prometheus_client: a collector for any registry."""

from __future__ import annotations

__all__ = ["BrokerwireCollector", "build_readings"]

import logging
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import Metric, Sample
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

import exporter
from exporter.config.settings import LimitSettings
from exporter.metrics.catalogue import CATALOGUE, SPECS, Kind
from exporter.metrics.families import is_stale, pairs_of, rows_of
from exporter.metrics.labels import Labels
from exporter.snapshot import LIFETIME_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from exporter.metrics.catalogue import MetricSpec
    from exporter.metrics.families import Reading, Row
    from exporter.snapshot import Histogram, Snapshot

    # The labels that all series of a snapshot have, and the snapshot.
    View = tuple[Mapping[str, str], Snapshot]

_LOG = logging.getLogger("brokerwire.metrics")

_BOUNDS = (*map(floatToGoString, LIFETIME_BUCKETS), "+Inf")


class _Part(NamedTuple):
    """One snapshot of a scrape, with what its series are called."""

    constant: Mapping[str, str]
    snapshot: Snapshot
    labels: Labels
    stale: bool


class BrokerwireCollector(Collector):
    """Yields fresh families at each scrape, so that a client that is gone leaves no series.

    `views` gives the snapshots of now: one, or one for each network namespace, told apart by the
    labels that come with it. `readings` are suppliers of the agent's own values. The process_*
    metrics are the registry's to add. For one thread.
    """

    def __init__(
        self,
        views: Callable[[], Sequence[View]],
        limits: LimitSettings | None = None,
        readings: Sequence[Callable[[], Iterable[Reading]]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._views = views
        self._limits = limits or LimitSettings()
        self._readings = (build_readings, *readings)
        self._clock = clock
        self._labels: dict[tuple[tuple[str, str], ...], Labels] = {}
        self._own = self._new_labels()

    def collect(self) -> Iterator[Metric]:
        """Yield the families in the catalogue's order, each once."""
        own = self._own_rows()
        parts = self._parts()
        for spec in CATALOGUE:
            metric = Metric(spec.family, spec.help, spec.kind.value, spec.declared_unit)
            _add(metric, spec, own.get(spec.name, ()), {})
            for part in parts:
                rows = rows_of(spec, part.snapshot, part.labels, stale=part.stale)
                _add(metric, spec, rows, part.constant)
            if metric.samples:
                yield metric

    def _new_labels(self) -> Labels:
        return Labels(series=self._limits.series, label_bytes=self._limits.label_bytes)

    def _parts(self) -> list[_Part]:
        now = self._clock()
        before, self._labels = self._labels, {}
        parts = []
        for constant, snapshot in self._views():
            key = tuple(sorted(constant.items()))
            labels = self._labels[key] = before.get(key) or self._new_labels()
            labels.settle(pairs_of(snapshot))
            safe = dict(zip(constant, labels.safe(constant.values()), strict=True))
            parts.append(_Part(safe, snapshot, labels, is_stale(snapshot, now)))
        return parts

    def _own_rows(self) -> Mapping[str, list[Row]]:
        rows: dict[str, list[Row]] = defaultdict(list)
        for supply in self._readings:
            for name, values, value in _asked(supply):
                rows[SPECS[name].name].append((self._own.safe(values), "", value))
        return rows


def _asked(supply: Callable[[], Iterable[Reading]]) -> list[Reading]:
    """Ask one supplier; one that fails must not cost the page all the others."""
    try:
        return list(supply())
    except Exception:  # noqa: BLE001  (whatever it is, it is logged)
        _LOG.exception("bug in a supplier of metrics")
        return []


def _add(
    metric: Metric, spec: MetricSpec, rows: Iterable[Row], constant: Mapping[str, str]
) -> None:
    names, name = spec.labels, spec.name
    for key, by, value in rows:
        labels = dict(zip(names, (*key, by) if spec.by else key, strict=True))
        if constant:
            labels.update(constant)
        if spec.kind is Kind.HISTOGRAM:
            metric.samples += _of_histogram(name, labels, value)
        else:
            metric.samples.append(Sample(name, labels, value))


def _of_histogram(name: str, labels: dict[str, str], histogram: Histogram) -> Iterator[Sample]:
    count = 0
    for bound, observed in zip(_BOUNDS, histogram.counts, strict=True):
        count += observed
        yield Sample(f"{name}_bucket", labels | {"le": bound}, count)
    yield Sample(f"{name}_count", labels, count)
    yield Sample(f"{name}_sum", labels, histogram.sum)


def build_readings() -> list[Reading]:
    """Return the versions of brokerwire and of Python."""
    python = ".".join(map(str, sys.version_info[:3]))
    return [("brokerwire_build_info", (exporter.__version__, python), 1.0)]
