"""Who wastes most connection time in each cluster, from `daily`."""

from __future__ import annotations

__all__ = ["top_wasters"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.transforms.measures import ratio, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHO: Final = ("namespace", "service", "client_kind", "library", "library_version")
_MOST: Final = 100


def top_wasters(days: DataFrame) -> DataFrame:
    """Rank the groups of a day and cluster by waste; equals go by their names."""
    place = ("day", "cluster")
    by_cause = days.groupBy(*place, *_WHO, "class", "cause").agg(
        *(total(F.col(name)).alias(name) for name in ("connection_ms", "useful_ms", "waste_ms"))
    )
    worst_first = Window.partitionBy(*place, *_WHO).orderBy(
        F.desc_nulls_last("waste_ms"), "class", "cause"
    )
    groups = (
        by_cause.withColumn("order", F.row_number().over(worst_first))
        .groupBy(*place, *_WHO)
        .agg(
            *(
                total(F.col(name)).alias(name)
                for name in ("connection_ms", "useful_ms", "waste_ms")
            ),
            F.max(F.when(F.col("order") == 1, F.col("class"))).alias("worst_class"),
            F.max(F.when(F.col("order") == 1, F.col("cause"))).alias("worst_cause"),
        )
    )
    cluster = Window.partitionBy(*place)
    ranked = groups.where("waste_ms > 0").withColumns(
        {
            "rank": F.row_number().over(cluster.orderBy(F.desc("waste_ms"), *_WHO)),
            "waste_share": ratio(F.col("waste_ms"), F.sum("waste_ms").over(cluster)),
            "efficiency": ratio(F.col("useful_ms"), F.col("useful_ms") + F.col("waste_ms")),
        }
    )
    return ranked.where(F.col("rank") <= _MOST)
