"""How much of each hour the agents saw, and what they did themselves: the table `coverage`."""

from __future__ import annotations

__all__ = ["coverage"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.measures import exact, ratio

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SUMS: Final = (
    *("minutes_seen", "minutes_expected", "covered_ms", "polls", "failed_polls", "events_lost"),
    *("unattributed_closed", "records_dropped", "own_connection_ms", "own_opened"),
)


def coverage(grown: DataFrame) -> DataFrame:
    """Add up the agents' own records by hour and service."""
    began = F.timestamp_millis(F.col("since_ms"))
    started = (began >= F.col("hour")) & (began < F.col("hour") + F.expr("INTERVAL 1 HOUR"))
    # Bit 59 is the last minute: who was heard in it has told of the whole hour.
    at_end = F.col("minutes").bitwiseAND(F.lit(1 << 59)) != 0
    groups = (
        grown.where("kind = 'agent'")
        .groupBy("hour", "cluster", "namespace", "service")
        .agg(
            F.count_distinct("agent_id").alias("agents"),
            F.count_distinct(F.when(at_end, F.col("agent_id"))).alias("agents_at_end"),
            F.count(F.lit(1)).alias("boots"),
            F.count_if(started).alias("boots_started"),
            *(exact(F.col(name)).alias(name) for name in _SUMS),
        )
    )
    return groups.withColumn("coverage", ratio(F.col("minutes_seen"), F.col("minutes_expected")))
