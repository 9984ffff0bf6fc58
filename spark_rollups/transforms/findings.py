"""What the agents found, and for how long it was so: the table `findings`."""

from __future__ import annotations

__all__ = ["findings"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.measures import exact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY: Final = (
    *("hour", "kafka_cluster", "cluster", "namespace", "service", "client_kind"),
    *("broker_id", "broker", "finding", "cause", "severity"),
)


def findings(grown: DataFrame) -> DataFrame:
    """Add up the findings of an hour; a series whose finding was not true adds nothing to it."""
    return (
        grown.where("kind = 'finding'")
        .groupBy(*_KEY)
        .agg(
            exact(F.col("active_ms")).alias("active_ms"),
            exact(F.col("begun")).alias("begun"),
            F.max("value_max").alias("value_max"),
            F.count(F.lit(1)).alias("series"),
        )
    )
