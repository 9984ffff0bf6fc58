"""What each broker held, minute by minute: the table `brokers`, and which rows are one broker."""

from __future__ import annotations

__all__ = ["brokers", "by_broker", "identified", "known_ids", "peak"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.schemas import MINUTES
from spark_rollups.transforms.measures import exact, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_NAMES: Final = ("kafka_cluster", "broker_id", "broker")
_BY_MINUTE: Final = "minute_connections"


def brokers(series: DataFrame) -> DataFrame:
    """Add up `series_of` an hour by broker, as the clients name it, each minute for itself.

    Peaks of an hour would not add up: the connections of a restart are never there at once with
    those of the next one.
    """
    # Here the broker has closed, or the kernel has: no connection of the broker's any more.
    held = series.where("NOT class <=> 'half_closed' AND NOT class <=> 'ghost'")
    return held.groupBy("hour", *_NAMES).agg(
        exact(F.col("connections")).alias("connections"),
        exact(F.col("expected")).alias("expected"),
        F.max("broker_max_connections").alias("max_connections"),
        F.count(F.lit(1)).alias("series"),
        _sums("minute_peaks"),
    )


def known_ids(rows: DataFrame, within: Sequence[str] = ()) -> DataFrame:
    """Return each address that belongs to one broker id only, with that id."""
    named = rows.where("broker_id IS NOT NULL AND broker IS NOT NULL")
    ids = named.groupBy(*within, "kafka_cluster", "broker").agg(
        F.min("broker_id").alias("known_id"), F.max("broker_id").alias("last_id")
    )
    return ids.where("known_id = last_id").drop("last_id")


def identified(rows: DataFrame, ids: DataFrame, within: Sequence[str] = ()) -> DataFrame:
    """Fill in the broker ids that are known by address, and add what makes rows one broker.

    That is the id; where nobody knows it, the address. A broker has several addresses, one for each
    listener and for each way to write it, and who has just connected knows no id.
    """
    key = (*within, "kafka_cluster", "broker")
    other = ids.select(*(F.col(name).alias(f"other_{name}") for name in key), "known_id")
    same = [F.col(name).eqNullSafe(F.col(f"other_{name}")) for name in key]
    joined = rows.join(other, same, "left").drop(*(f"other_{name}" for name in key))
    return joined.withColumns(
        {
            "broker_id": F.coalesce("broker_id", "known_id"),
            "unnamed": F.when(F.coalesce("broker_id", "known_id").isNull(), F.col("broker")),
        }
    ).drop("known_id")


def by_broker(identified_rows: DataFrame, place: Sequence[str]) -> DataFrame:
    """Add up rows of `brokers` that are one broker; `place` says what else is apart."""
    return identified_rows.groupBy(*place, "kafka_cluster", "broker_id", "unnamed").agg(
        F.min("broker").alias("broker"),
        total(F.col("connections")).alias("connections"),
        total(F.col("expected")).alias("expected"),
        F.max("max_connections").alias("max_connections"),
        F.sum("series").alias("series"),
        _sums(_BY_MINUTE),
    )


def peak() -> Column:
    """Return the most that a broker held in any minute of the hour."""
    return F.array_max(_BY_MINUTE)


def _sums(column: str) -> Column:
    each = ", ".join(f"sum(get({column}, {minute}))" for minute in range(MINUTES))
    # Not the greatest of the arrays: that one Spark finds by sorting.
    return F.when(F.count(column) > 0, F.expr(f"array({each})")).alias(_BY_MINUTE)
