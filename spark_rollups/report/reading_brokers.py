"""What the tables say of brokers and moments: loads, peaks, bursts."""

from __future__ import annotations

__all__ = ["brokers", "openings", "surges"]

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from spark_rollups.report.asking import moment, whole
from spark_rollups.report.digest import BrokerLoad, Opening, Surge
from spark_rollups.transforms.brokers import by_broker, identified, known_ids, peak

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from spark_rollups.report.asking import Reader

_MOST: Final = 10
_MOST_COURSES: Final = 24
_IDENTITY: Final = ("kafka_cluster", "broker_id", "unnamed")


def surges(reader: Reader) -> tuple[tuple[Surge, ...], int]:
    """Return the hours with most connections above the usual, and how many such hours there are."""
    # A rolling restart holds some connections twice for a moment; less than half is no surge.
    rows, in_all = reader.first(
        "surge",
        "SELECT *, unix_seconds(hour) AS at FROM {t} WHERE {period} AND surge_ratio >= 1.5"
        " ORDER BY peak_connections - steady_connections DESC, hour, kafka_cluster, broker,"
        " cluster, namespace, service",
        _MOST,
    )
    made = (
        Surge(
            *_place(row),
            row["steady_connections"],
            whole(row["peak_connections"]),
            whole(row["opened"]),
            whole(row["boots_started"]),
        )
        for row in rows
    )
    return tuple(made), in_all


def openings(reader: Reader) -> tuple[tuple[Opening, ...], int]:
    """Return the hours whose rate of openings was most above its mean, and how many there are."""
    # Ten handshakes within a second no broker feels; and most of what is rare is ten times its
    # mean in the second in which it happens.
    rows, in_all = reader.first(
        "surge",
        "SELECT *, unix_seconds(hour) AS at, CAST(opened AS DOUBLE) / 3600 AS mean FROM {t}"
        " WHERE {period} AND opened_ratio >= 10 AND peak_opened_sum >= 10"
        " ORDER BY peak_opened_sum - mean DESC, hour, kafka_cluster, broker, cluster, namespace,"
        " service",
        _MOST,
    )
    made = (
        Opening(
            *_place(row),
            row["mean"],
            whole(row["peak_opened_sum"]),
            whole(row["boots_started"]),
        )
        for row in rows
    )
    return tuple(made), in_all


def _place(
    row: Any,
) -> tuple[datetime, str | None, str | None, str | None, str | None, int | None]:
    """Return what Surge and Opening begin with: when, whose, and at which broker."""
    return (
        moment(row["at"]),
        row["kafka_cluster"],
        row["cluster"],
        row["namespace"],
        row["service"],
        row["broker_id"],
    )


def brokers(reader: Reader) -> tuple[BrokerLoad, ...]:
    """Return every broker: there are as many as somebody runs, whatever the size of the fleet."""
    by_hour = _by_hour(reader)
    peaks = {} if by_hour is None else {_identity(row): row for row in _peaks(by_hour)}
    forecasts = {
        _identity(row): row for row in reader.rows("forecast", "SELECT * FROM {t} WHERE {day}")
    }
    made = {key: _load(forecasts.get(key), peaks.get(key)) for key in {**forecasts, **peaks}}
    ordered = sorted(made, key=lambda key: _worst_first(made[key]))
    if by_hour is not None:
        courses = reader.course(by_hour, ordered[:_MOST_COURSES], _IDENTITY, "peak")
        for key, values in courses.items():
            course = tuple(None if value is None else int(value) for value in values)
            made[key] = made[key]._replace(by_hour=course)
    return tuple(made[key] for key in ordered)


def _worst_first(load: BrokerLoad) -> tuple[float, str, int, str]:
    share = -1.0 if load.worst_share is None else load.worst_share
    return -share, str(load.kafka_cluster), load.broker_id or 0, str(load.broker)


def _identity(row: Any) -> tuple[str | None, int | None, str | None]:
    """Return what a broker is known by: its id, or where nobody knows that, its address."""
    unnamed = row["broker"] if row["broker_id"] is None else None
    return row["kafka_cluster"], row["broker_id"], unnamed


def _load(forecast: Any, peaked: Any) -> BrokerLoad:
    """Put together what is known of a broker; what is not known is None."""
    either = forecast or peaked
    limits = [row["max_connections"] for row in (forecast, peaked) if row is not None]
    return BrokerLoad(
        either["kafka_cluster"],
        either["broker_id"],
        either["broker"],
        _count(forecast, "connections"),
        _count(peaked, "peak"),
        _count(forecast, "forecast_peak"),
        max((limit for limit in limits if limit is not None), default=None),
    )


def _count(row: Any, name: str) -> int | None:
    return None if row is None or row[name] is None else int(row[name])


def _by_hour(reader: Reader) -> DataFrame | None:
    """Return what each broker held in each hour of the period."""
    rows = reader.of_period("brokers")
    if rows is None:
        return None
    return by_broker(identified(rows, known_ids(rows)), ("hour",)).withColumn("peak", peak())


def _peaks(by_hour: DataFrame) -> list[Any]:
    """Return the greatest minute of each broker in the period."""
    greatest = (F.max(name).alias(name) for name in ("peak", "max_connections"))
    found: list[Any] = (
        by_hour.groupBy(*_IDENTITY).agg(F.min("broker").alias("broker"), *greatest).collect()
    )
    return found
