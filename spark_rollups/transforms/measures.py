"""The measures of a group of series, the same in every table that has them."""

from __future__ import annotations

__all__ = ["DIMS", "MAXIMA", "SUMS", "beside", "exact", "quantiles", "ratio", "ratios", "total"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.schemas import LIFETIME_BOUNDS_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DIMS: Final = (
    *("kafka_cluster", "cluster", "namespace", "service"),
    *("client_kind", "library", "library_version", "broker_id", "broker", "class", "cause"),
)
SUMS: Final = (
    *("connection_ms", "useful_ms", "expected_ms", "expected_known_ms", "unknown_ms", "waste_ms"),
    *("opened", "closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown"),
    *("closed", "connect_failures", "bytes_out", "bytes_in", "retransmits", "lifetime_ms_sum"),
    *("minutes_seen", "minutes_expected"),
)
MAXIMA: Final = ("idle_max_ms", "peak_opened", "broker_max_connections")

_HOUR_MS: Final = 3_600_000
_QUANTILES: Final = (50, 90, 99)


def exact(column: Column) -> Column:
    """Sum 64-bit numbers without an end: 10^19 of the greatest fit."""
    return F.sum(column.cast("decimal(20,0)")).cast("decimal(38,0)")


def total(column: Column) -> Column:
    """Sum sums."""
    return F.sum(column).cast("decimal(38,0)")


def ratio(above: Column, below: Column) -> Column:
    """Divide two exact sums once; null where there is nothing to divide by."""
    return F.when(below != 0, above.cast("double") / below.cast("double"))


def ratios(rows: DataFrame) -> DataFrame:
    """Add what follows from the sums and buckets of a group."""
    connection_ms = F.col("connection_ms")
    moved = F.col("bytes_out") + F.col("bytes_in")
    return rows.withColumns(
        {
            "efficiency": ratio(F.col("useful_ms"), F.col("useful_ms") + F.col("waste_ms")),
            "churn": ratio(F.col("opened") * _HOUR_MS, connection_ms),
            "bytes_per_connection_hour": ratio(moved * _HOUR_MS, connection_ms),
            "coverage": ratio(F.col("minutes_seen"), F.col("minutes_expected")),
            **{f"lifetime_p{percent}_ms": quantiles(percent) for percent in _QUANTILES},
        }
    )


def beside(rows: DataFrame, others: DataFrame, key: tuple[str, ...], column: str) -> DataFrame:
    """Add a column of `others` by a key whose nulls are equal: what has no name is one too.

    The key is renamed first: two frames with one ancestor share their columns' identities, and a
    condition between those would hold a column against itself.
    """
    named = others.select(*(F.col(name).alias(f"other_{name}") for name in key), column)
    same = [F.col(name).eqNullSafe(F.col(f"other_{name}")) for name in key]
    return rows.join(named, same, "left").drop(*(f"other_{name}" for name in key))


def quantiles(percent: int) -> Column:
    """Return the least bound that so many percent of the lifetimes do not exceed.

    In whole numbers: `count x 100 >= percent x all`, so no rounding moves it to the next bucket.
    """
    buckets = F.col("lifetime_buckets")
    counts = [
        F.coalesce(F.get(buckets, F.lit(at)), F.lit(0)) for at in range(len(LIFETIME_BOUNDS_MS) + 1)
    ]
    so_far = [sum(counts[: at + 1], F.lit(0)) for at in range(len(counts))]
    reached = [
        F.when(below * 100 >= so_far[-1] * percent, F.lit(bound).cast("long"))
        for below, bound in zip(so_far, LIFETIME_BOUNDS_MS, strict=False)
    ]
    return F.when(so_far[-1] > 0, F.coalesce(*reached))
