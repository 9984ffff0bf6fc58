"""The seven days of each service that end with a day, against the seven before."""

from __future__ import annotations

__all__ = ["week_over_week"]

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.measures import ratio, total

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import Column, DataFrame

_WEEK: Final = timedelta(days=7)
_SUMS: Final = ("connection_ms", "useful_ms", "waste_ms", "opened")


def week_over_week(days: DataFrame, last: date) -> DataFrame:
    """Compare the week of `daily` that ends with a day to the one before."""
    within = days.where(
        (F.col("day") > F.lit(last - 2 * _WEEK)) & (F.col("day") <= F.lit(last))
    ).withColumn("new", F.col("day") > F.lit(last - _WEEK))
    sums: list[Column] = []
    for name in _SUMS:
        sums.append(total(F.when(F.col("new"), F.col(name))).alias(name))
        sums.append(total(F.when(~F.col("new"), F.col(name))).alias(f"previous_{name}"))
    groups = within.groupBy("cluster", "namespace", "service").agg(*sums)
    return groups.withColumns(
        {"efficiency": _efficiency(""), "previous_efficiency": _efficiency("previous_")}
    ).withColumn("efficiency_change", F.col("efficiency") - F.col("previous_efficiency"))


def _efficiency(prefix: str) -> Column:
    useful = F.col(f"{prefix}useful_ms")
    return ratio(useful, useful + F.col(f"{prefix}waste_ms"))
