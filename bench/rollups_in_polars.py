"""The rollups' `silver` and `hourly` from records in Parquet, by Polars: `RECORDS OUT`.

Written from docs/tables.md for the comparison, not from the rollups' code; only the journal's
lists of fields are shared. The sketch is left to Spark: here clients are counted one by one.
The number of threads is what POLARS_MAX_THREADS says.
"""

from __future__ import annotations

__all__ = ["main"]

import sys

import polars as pl

from bench.rollups_figures import HOUR, SUMS
from spark_rollups.schemas import (
    COUNTERS,
    DIMENSIONS,
    INTERVALS,
    LIFETIME_BOUNDS_MS,
    LIFETIME_COLUMNS,
    STATES,
)

SERIES = ("agent_id", "boot_id", "kind", "series")
BOOT = ("hour", "agent_id", "boot_id")
DIMS = (
    *("kafka_cluster", "cluster", "namespace", "service", "client_kind", "library"),
    *("library_version", "broker_id", "broker", "class", "cause"),
)
MAXIMA = ("idle_max_ms", "peak_opened", "broker_max_connections")


def main() -> None:
    """Write `silver.parquet` and `hourly.parquet` into the folder OUT."""
    records, out = sys.argv[1:]
    _silver(pl.scan_parquet(f"{records}/*.parquet")).sink_parquet(f"{out}/silver.parquet")
    _hourly(pl.scan_parquet(f"{out}/silver.parquet")).sink_parquet(f"{out}/hourly.parquet")


def _silver(records: pl.LazyFrame) -> pl.LazyFrame:
    before = pl.col("at_ms") - 1
    agent = pl.col("kind") == "agent"
    return (
        records.filter(pl.col("reason").is_null())
        .with_columns(
            (before // HOUR * HOUR).alias("hour"),
            pl.when(agent).then(-1).otherwise(pl.col("series")).alias("series"),
            pl.lit(2, pl.Int64).pow(before // 60_000 % 60).alias("minute"),
            *(_packed(name) for name in STATES),
        )
        .group_by("hour", *SERIES)
        .agg(
            pl.col(*DIMENSIONS).first(),
            pl.col(*COUNTERS, *INTERVALS).max(),
            pl.col(*(f"state_{name}" for name in STATES)).max(),
            pl.col("minute").bitwise_or().alias("minutes"),
            pl.col("since_ms").min(),
            pl.col("seq").min().alias("seq_least"),
            pl.col("seq").max().alias("seq_greatest"),
            pl.col("at_ms").min().alias("at_least"),
            pl.col("at_ms").max().alias("at_greatest"),
        )
    )


def _packed(name: str) -> pl.Expr:
    value = (pl.col(name).cast(pl.Int64) + 1).fill_null(0)
    return (pl.col("seq") * 2**32 + value).alias(f"state_{name}")


def _state(name: str) -> pl.Expr:
    value = pl.col(f"state_{name}") % 2**32 - 1
    return pl.when(value >= 0).then(value)


def _hourly(silver: pl.LazyFrame) -> pl.LazyFrame:
    grown = (
        silver.sort(*SERIES, "hour")
        .with_columns(
            pl.col(*COUNTERS, "at_greatest")
            .cum_max()
            .forward_fill()
            .shift(1)
            .over(*SERIES)
            .name.prefix("before_")
        )
        .with_columns(
            *(_growth(name) for name in COUNTERS),
            pl.col("minutes").bitwise_count_ones().cast(pl.Int64).alias("minutes_seen"),
            (
                (pl.col("at_greatest") - 1) // 60_000
                - pl.coalesce(
                    (pl.col("before_at_greatest") - 1) // 60_000,
                    pl.col("since_ms") // 60_000 - 1,
                )
            )
            .clip(0)
            .alias("minutes_expected"),
        )
    )
    series = (
        grown.filter(
            (pl.col("kind") == "connections") & (pl.max_horizontal(*COUNTERS) > 0),
        )
        .drop("minutes_seen", "minutes_expected")
        .join(_boots(grown), on=list(BOOT), how="left")
        .with_columns(
            pl.when(pl.col("class") == "unknown")
            .then(pl.col("connection_ms"))
            .otherwise(pl.when(pl.col("connection_ms").is_not_null()).then(0))
            .alias("unknown_ms"),
            pl.when(pl.col("expected_ms").is_not_null())
            .then(pl.col("connection_ms"))
            .alias("expected_known_ms"),
            (
                pl.col("closed_by_client")
                + pl.col("closed_by_broker")
                + pl.col("closed_by_reset")
                + pl.col("closed_unknown")
            ).alias("closed"),
            pl.when("there").then(_state("connections")).alias("connections"),
            pl.when("there").then(_state("expected")).alias("expected"),
            _state("broker_max_connections").alias("broker_max_connections"),
        )
        .with_columns(
            (pl.col("connection_ms") - pl.col("useful_ms") - pl.col("unknown_ms"))
            .clip(0)
            .alias("waste_ms")
        )
    )
    groups = series.group_by("hour", *DIMS).agg(
        *(_total(name) for name in (*SUMS, *LIFETIME_COLUMNS)),
        pl.col(*MAXIMA).max(),
        _total("peak_opened").alias("peak_opened_sum"),
        pl.len().cast(pl.Int64).alias("series"),
        pl.struct("agent_id", "process", "client_id").n_unique().alias("clients"),
    )
    return _ratios(groups)


def _growth(name: str) -> pl.Expr:
    return (pl.col(name) - pl.col(f"before_{name}").fill_null(0)).clip(0).alias(name)


def _boots(grown: pl.LazyFrame) -> pl.LazyFrame:
    going_on = pl.col("at_greatest").filter("goes_on").sort(descending=True)
    # The latest moment that at least half of them have reached.
    end = going_on.get((going_on.len() + 1) // 2 - 1, null_on_oob=True).over("hour")
    return (
        grown.filter(pl.col("kind") == "agent")
        .sort("hour", "agent_id", "at_greatest", "boot_id", descending=[False, False, True, False])
        .with_columns(
            (
                pl.struct("hour", "agent_id").is_first_distinct()
                & (_state("final").fill_null(0) == 0)
            ).alias("goes_on"),
        )
        .select(
            *BOOT,
            "minutes_seen",
            "minutes_expected",
            (pl.col("goes_on") & (pl.col("at_greatest") >= end - 300_000)).alias("there"),
        )
    )


def _total(name: str) -> pl.Expr:
    """Sum; of nothing but nulls it is null, which Polars calls 0."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)


def _ratios(groups: pl.LazyFrame) -> pl.LazyFrame:
    ended = pl.sum_horizontal(*LIFETIME_COLUMNS)
    connection_ms = pl.col("connection_ms")
    moved = pl.col("bytes_out") + pl.col("bytes_in")
    useful = pl.col("useful_ms")
    return groups.with_columns(
        _ratio(useful, useful + pl.col("waste_ms")).alias("efficiency"),
        _ratio(pl.col("opened") * HOUR, connection_ms).alias("churn"),
        _ratio(moved * HOUR, connection_ms).alias("bytes_per_connection_hour"),
        _ratio(pl.col("minutes_seen"), pl.col("minutes_expected")).alias("coverage"),
        *(_quantile(percent, ended) for percent in (50, 90, 99)),
        pl.concat_list(*LIFETIME_COLUMNS).alias("lifetime_buckets"),
    ).drop(*LIFETIME_COLUMNS)


def _ratio(above: pl.Expr, below: pl.Expr) -> pl.Expr:
    return pl.when(below != 0).then(above / below)


def _quantile(percent: int, ended: pl.Expr) -> pl.Expr:
    reached = [
        pl.when(pl.sum_horizontal(*LIFETIME_COLUMNS[:at]) * 100 >= ended * percent).then(bound)
        for at, bound in enumerate(LIFETIME_BOUNDS_MS, 1)
    ]
    return pl.when(ended > 0).then(pl.coalesce(*reached)).alias(f"lifetime_p{percent}_ms")


if __name__ == "__main__":
    main()
