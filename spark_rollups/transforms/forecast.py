"""What each broker would hold if everything restarted at once: the table `forecast`."""

from __future__ import annotations

__all__ = ["COLUMNS", "DAYS_BACK", "forecast"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.transforms.brokers import by_broker, identified, known_ids, peak
from spark_rollups.transforms.measures import DIMS, ratio, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS_BACK: Final = 6
"""Days before a day whose hours count: a service that restarts once a week shows what it opens."""

_BROKER: Final = ("kafka_cluster", "broker_id", "unnamed")
_CLIENTS: Final = tuple(name for name in DIMS if name not in {"class", "cause", "broker"})
COLUMNS: Final = ("hour", *DIMS, "peak_connections")
"""What is read of `hourly`."""


def forecast(hours: DataFrame, loads: DataFrame, days: DataFrame) -> DataFrame:
    """Forecast for each `day` of `days` from `hourly` and `brokers` of it and of DAYS_BACK before.

    What a group of clients opens to learn the brokers is the greatest of its rows, not their sum:
    one connection is `bootstrap`, then superseded, then perhaps a zombie.
    """
    within, loads_within = _of_days(hours, days), _of_days(loads, days)
    ids = known_ids(loads_within, ("day",))
    opened = (
        identified(within.where("class IN ('bootstrap', 'zombie')"), ids, ("day",))
        .groupBy("day", "hour", *_CLIENTS, "unnamed", "class", "cause")
        .agg(total(F.col("peak_connections")).alias("peak"))
        .groupBy("day", *_CLIENTS, "unnamed")
        .agg(F.max("peak").alias("peak"))
        .groupBy("day", *_BROKER)
        .agg(total(F.col("peak")).alias("bootstrap"))
    )
    today = by_broker(identified(loads_within.where("of = day"), ids, ("day",)), ("day", "hour"))
    other = opened.select(
        *(F.col(name).alias(f"other_{name}") for name in opened.columns[:-1]), "bootstrap"
    )
    same = [F.col(name).eqNullSafe(F.col(f"other_{name}")) for name in ("day", *_BROKER)]
    joined = _now(today).join(other, same, "left")
    # Nobody was seen to open one, though the broker was watched: 0 is what is known, not a gap.
    opened_at_most = F.coalesce("bootstrap", F.lit(0).cast("decimal(38,0)"))
    return (
        joined.withColumn("bootstrap", opened_at_most)
        .withColumn("forecast_peak", (F.col("expected") + F.col("bootstrap")).cast("decimal(38,0)"))
        .select(
            *("day", "kafka_cluster", "broker_id", "broker", "as_of", "connections", "expected"),
            *("bootstrap", "forecast_peak", "peak_connections", "max_connections"),
            ratio(F.col("forecast_peak"), F.col("max_connections")).alias("share_of_limit"),
            (F.col("forecast_peak") > F.col("max_connections")).alias("exceeds"),
        )
    )


def _of_days(rows: DataFrame, days: DataFrame) -> DataFrame:
    return rows.withColumn("of", F.to_date("hour")).join(
        F.broadcast(days.select("day").distinct()),
        (F.col("of") <= F.col("day")) & (F.col("of") >= F.date_sub("day", DAYS_BACK)),
    )


def _now(by_hour: DataFrame) -> DataFrame:
    """Return what each broker held at the end of its last hour of which enough is known.

    Each broker has its own, and in it half as many series as in the best hour of the day: in the
    newest hour are those whose journals came first, or one agent whose clock is ahead. Its limit
    and its peak are those of the day.
    """
    broker = Window.partitionBy("day", *_BROKER)
    known = by_hour.withColumns(
        {
            "most": F.max("series").over(broker),
            "max_connections": F.max("max_connections").over(broker),
            "peak_connections": F.max(peak()).over(broker),
        }
    ).where("series * 2 >= most")
    last = known.withColumn("last", F.max("hour").over(broker)).where("hour = last")
    return last.withColumnRenamed("hour", "as_of")
