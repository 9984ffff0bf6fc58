"""The day of each group of clients, from its hours: the table `daily`."""

from __future__ import annotations

__all__ = ["daily"]

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_rollups.schemas import LIFETIME_COLUMNS
from spark_rollups.transforms.measures import DIMS, MAXIMA, SUMS, ratios, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def daily(hours: DataFrame) -> DataFrame:
    """Add up the rows of `hourly` by day and dimensions."""
    buckets = [F.get("lifetime_buckets", F.lit(at)) for at in range(len(LIFETIME_COLUMNS))]
    groups = (
        hours.withColumn("day", F.to_date("hour"))
        .groupBy("day", *DIMS)
        .agg(
            *(total(F.col(name)).alias(name) for name in SUMS),
            *(F.max(name).alias(name) for name in MAXIMA),
            F.max("peak_connections").alias("peak_connections"),
            F.array(*(total(bucket) for bucket in buckets)).alias("lifetime_buckets"),
            F.max("series").alias("series"),
            F.hll_union_agg("clients_sketch").alias("clients_sketch"),
        )
    )
    return ratios(groups.withColumn("clients", F.hll_sketch_estimate("clients_sketch")))
