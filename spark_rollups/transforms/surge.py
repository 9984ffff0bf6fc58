"""How far the peaks of an hour are above its steady state, by service and broker."""

from __future__ import annotations

__all__ = ["surge"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.measures import beside, ratio, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HOUR_MS: Final = 3_600_000
_SECONDS: Final = 3600
_SERVICE: Final = ("cluster", "namespace", "service")


def surge(hours: DataFrame, covered: DataFrame) -> DataFrame:
    """Hold peaks against the mean of the same hour; `covered` tells which agents began in it."""
    groups = hours.groupBy("hour", "kafka_cluster", *_SERVICE, "broker_id", "broker").agg(
        ratio(total(F.col("connection_ms")), F.lit(_HOUR_MS)).alias("steady_connections"),
        total(F.col("peak_connections")).alias("peak_connections"),
        total(F.col("opened")).alias("opened"),
        F.max("peak_opened").alias("peak_opened"),
        total(F.col("peak_opened_sum")).alias("peak_opened_sum"),
    )
    joined = beside(groups, covered, ("hour", *_SERVICE), "boots_started")
    return joined.withColumns(
        {
            "surge_ratio": ratio(F.col("peak_connections"), F.col("steady_connections")),
            # Of a second, both: the mean is `opened / 3600`.
            "opened_ratio": ratio(F.col("peak_opened_sum") * _SECONDS, F.col("opened")),
        }
    )
