"""What each broker would hold if everything restarted at once: the table `forecast`."""

from __future__ import annotations

__all__ = ["COLUMNS", "DAYS_BACK", "forecast"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.transforms.measures import DIMS, beside, ratio, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS_BACK: Final = 6
"""Days before a day whose hours count: a service that restarts once a week shows what it opens."""

_BROKER: Final = ("kafka_cluster", "broker_id", "broker")
_CLIENTS: Final = tuple(name for name in DIMS if name not in {"class", "cause"})
COLUMNS: Final = (
    *("hour", *DIMS, "peak_connections", "connections", "expected", "broker_max_connections"),
    "series",
)
"""What is read of `hourly`."""


def forecast(hours: DataFrame, days: DataFrame) -> DataFrame:
    """Forecast for each `day` of `days` from the hours of that day and of DAYS_BACK before it."""
    day = F.to_date("hour")
    within = hours.withColumn("of", day).join(
        days.select("day").distinct(),
        (F.col("of") <= F.col("day")) & (F.col("of") >= F.date_sub("day", DAYS_BACK)),
    )
    opened = (
        within.where("class IN ('bootstrap', 'zombie')")
        .groupBy("day", "hour", *_CLIENTS)
        .agg(total(F.col("peak_connections")).alias("peak"))
        .groupBy("day", *_CLIENTS)
        .agg(F.max("peak").alias("peak"))
        .groupBy("day", *_BROKER)
        .agg(total(F.col("peak")).alias("bootstrap"))
    )
    joined = beside(_now(within.where("of = day")), opened, ("day", *_BROKER), "bootstrap")
    # Nobody was seen to open one, though the broker was watched: 0 is what is known, not a gap.
    joined = joined.withColumn("bootstrap", F.coalesce("bootstrap", F.lit(0).cast("decimal(38,0)")))
    return joined.withColumn(
        "forecast_peak", (F.col("expected") + F.col("bootstrap")).cast("decimal(38,0)")
    ).withColumns(
        {
            "share_of_limit": ratio(F.col("forecast_peak"), F.col("max_connections")),
            "exceeds": F.col("forecast_peak") > F.col("max_connections"),
        }
    )


def _now(hours: DataFrame) -> DataFrame:
    """Return what each broker held at the end of its last hour of which enough is known.

    Each broker has its own, and in it half as many series as in the best hour of the day: in the
    newest hour are those whose journals came first, or one agent whose clock is ahead.
    """
    by_hour = hours.groupBy("day", "hour", *_BROKER).agg(
        total(F.col("connections")).alias("connections"),
        total(F.col("expected")).alias("expected"),
        F.max("broker_max_connections").alias("max_connections"),
        F.sum("series").alias("series"),
    )
    broker = Window.partitionBy("day", *_BROKER)
    known = by_hour.withColumn("most", F.max("series").over(broker)).where("series * 2 >= most")
    last = known.withColumn("last", F.max("hour").over(broker)).where("hour = last")
    return last.withColumnRenamed("hour", "as_of").drop("series", "most", "last")
