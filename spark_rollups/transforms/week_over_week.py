"""The last seven days of each service against the seven before: the table `week_over_week`."""

from __future__ import annotations

__all__ = ["DAYS_BACK", "week_over_week"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.measures import ratio, total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WEEK: Final = 7
DAYS_BACK: Final = 2 * _WEEK - 1
_SUMS: Final = ("connection_ms", "useful_ms", "waste_ms", "opened")


def week_over_week(history: DataFrame, days: DataFrame) -> DataFrame:
    """Compare for each `day` of `days`; `history` is `daily` of those and of DAYS_BACK before."""
    wanted = days.select("day").distinct()
    age = F.date_diff(F.col("day"), F.col("of"))
    within = (
        history.withColumnRenamed("day", "of")
        .join(wanted, (F.col("of") <= F.col("day")) & (age <= DAYS_BACK))
        .withColumn("new", age < _WEEK)
    )
    sums: list[Column] = []
    for name in _SUMS:
        sums.append(total(F.when(F.col("new"), F.col(name))).alias(name))
        sums.append(total(F.when(~F.col("new"), F.col(name))).alias(f"previous_{name}"))
    groups = within.groupBy("day", "cluster", "namespace", "service").agg(*sums)
    return groups.withColumns(
        {"efficiency": _efficiency(""), "previous_efficiency": _efficiency("previous_")}
    ).withColumn("efficiency_change", F.col("efficiency") - F.col("previous_efficiency"))


def _efficiency(prefix: str) -> Column:
    useful = F.col(f"{prefix}useful_ms")
    return ratio(useful, useful + F.col(f"{prefix}waste_ms"))
