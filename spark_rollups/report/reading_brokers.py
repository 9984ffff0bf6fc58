"""What the tables say of brokers and moments: loads, peaks, bursts."""

from __future__ import annotations

__all__ = ["brokers", "openings", "surges"]

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from spark_rollups.report.digest import BrokerLoad, Opening, Surge
from spark_rollups.report.source import first, made, values_of
from spark_rollups.transforms.brokers import by_broker, identified, known_ids, peak
from spark_rollups.transforms.surge import surge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rollups.report.source import Source

_MOST_MOMENTS: Final = 10
_MOST_COURSES: Final = 24
_LEAST_SURGE: Final = 1.5
"""A rolling restart holds some connections twice for a moment: less is no surge."""
_LEAST_BURST: Final = 10
"""Openings within a second, and times their mean: fewer no broker feels, and what is rare is always
far above its mean in the second in which it happens."""
_MOMENT: Final = ("hour", "kafka_cluster", "broker", "cluster", "namespace", "service")
_BROKER: Final = ("kafka_cluster", "broker_id", "unnamed")
_UNKNOWN: Final = BrokerLoad(None, None, None, None, None, None, None)


def surges(source: Source) -> tuple[tuple[Surge, ...], int]:
    """Return the hours with most connections above the usual, and how many such hours there are."""
    rows = _moments(source).where(F.col("surge_ratio") >= _LEAST_SURGE)
    named = rows.withColumnsRenamed({"steady_connections": "steady", "peak_connections": "peak"})
    above = F.col("peak") - F.col("steady")
    found, in_all = first(named, _MOST_MOMENTS, above.desc(), *_MOMENT)
    return tuple(made(Surge, row) for row in found), in_all


def openings(source: Source) -> tuple[tuple[Opening, ...], int]:
    """Return the hours whose rate of openings was most above its mean, and how many there are."""
    mean, most = F.col("opened").cast("double") / 3600, F.col("peak_opened_sum")
    burst = (F.col("opened_ratio") >= _LEAST_BURST) & (most >= _LEAST_BURST)
    named = _moments(source).where(burst).withColumns({"mean": mean, "peak": most})
    above = F.col("peak") - F.col("mean")
    found, in_all = first(named, _MOST_MOMENTS, above.desc(), *_MOMENT)
    return tuple(made(Opening, row) for row in found), in_all


def _moments(source: Source) -> DataFrame:
    rows = surge(source.hours("hourly"), source.hours("coverage"))
    started = F.coalesce("boots_started", F.lit(0))
    return rows.withColumns({"at": F.unix_seconds("hour"), "boots_started": started})


def brokers(source: Source) -> tuple[BrokerLoad, ...]:
    """Return every broker: there are as many as somebody runs, whatever the size of the fleet."""
    rows = source.hours("brokers")
    by_hour = by_broker(identified(rows, known_ids(rows)), ("hour",)).withColumn("peak", peak())
    peaks = by_hour.groupBy(*_BROKER).agg(
        F.min("broker").alias("broker"),
        F.max("peak").alias("peak"),
        F.max("max_connections").alias("max_connections"),
    )
    unnamed = F.when(F.col("broker_id").isNull(), F.col("broker"))
    forecasts = source.day("forecast").withColumn("unnamed", unnamed)
    loads: dict[tuple[Any, ...], BrokerLoad] = {}
    for row in (*peaks.collect(), *forecasts.collect()):
        key = tuple(row[name] for name in _BROKER)
        known = values_of(BrokerLoad, row)
        load = loads.get(key, _UNKNOWN)
        limits = (load.max_connections, known["max_connections"])
        known["max_connections"] = max((n for n in limits if n is not None), default=None)
        loads[key] = load._replace(**known)
    ordered = sorted(loads, key=lambda key: _worst_first(loads[key]))
    courses = source.course(by_hour, ordered[:_MOST_COURSES], _BROKER, "peak")
    return tuple(loads[key]._replace(by_hour=courses.get(key, ())) for key in ordered)


def _worst_first(load: BrokerLoad) -> tuple[float, str, int, str]:
    share = -1.0 if load.worst_share is None else load.worst_share
    return -share, str(load.kafka_cluster), load.broker_id or 0, str(load.broker)
