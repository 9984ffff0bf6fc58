"""What each group of clients did in an hour: the table `hourly`."""

from __future__ import annotations

__all__ = ["hourly", "series_of"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.schemas import COUNTERS, LIFETIME_COLUMNS
from spark_rollups.transforms.lattice import state
from spark_rollups.transforms.measures import DIMS, MAXIMA, SUMS, exact, ratios

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CLOSED: Final = ("closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown")
_SKETCH_BITS: Final = 12
_BOOT: Final = ("hour", "agent_id", "boot_id")
_SILENT_MS: Final = 300_000
"""An agent that is silent for longer at the end of what is known of an hour is gone."""


def series_of(grown: DataFrame) -> DataFrame:
    """Return the series that did something in the hour, with what is decided for each of them."""
    return (
        grown.where("kind = 'connections'")
        .where(_did_something())
        .drop("minutes_seen", "minutes_expected")
        .join(_boots(grown), list(_BOOT), "left")
        .withColumns(_by_series())
    )


def hourly(series: DataFrame) -> DataFrame:
    """Add up `series_of` an hour by dimensions."""
    groups = series.groupBy("hour", *DIMS).agg(
        *(exact(F.col(name)).alias(name) for name in SUMS),
        *(F.max(name).alias(name) for name in MAXIMA),
        exact(F.col("peak_connections")).alias("peak_connections"),
        exact(F.col("peak_opened")).alias("peak_opened_sum"),
        exact(F.col("connections")).alias("connections"),
        exact(F.col("expected")).alias("expected"),
        F.array(*(exact(F.col(name)) for name in LIFETIME_COLUMNS)).alias("lifetime_buckets"),
        F.count(F.lit(1)).alias("series"),
        F.hll_sketch_agg("client", _SKETCH_BITS).alias("clients_sketch"),
    )
    return ratios(groups.withColumn("clients", F.hll_sketch_estimate("clients_sketch")))


def _did_something() -> Column:
    """Leave out series that rest: they are written now and then, and are no clients of the hour."""
    return F.greatest(*(F.col(name) for name in COUNTERS)) > 0


def _boots(grown: DataFrame) -> DataFrame:
    """Return each boot's coverage, and whether it was still there at the end of the hour.

    What is known of an hour ends at the latest moment that at least half of those that did not end
    in it have reached. Not at the newest record: that is of the agent whose clock is most ahead,
    and beside it all others would be gone.
    """
    agent = Window.partitionBy("hour", "agent_id").orderBy(F.desc("at_greatest"), "boot_id")
    goes_on = (F.row_number().over(agent) == 1) & (F.coalesce(state("final"), F.lit(0)) == 0)
    at = F.col("at_greatest")
    boots = grown.where("kind = 'agent'").withColumn("goes_on", goes_on)
    # Not over a window: that would bring all agents of an hour into one task.
    middle = "percentile_disc(0.5) WITHIN GROUP (ORDER BY IF(goes_on, at_greatest, NULL) DESC)"
    known_until = boots.groupBy("hour").agg(F.expr(middle).alias("known_until"))
    boots = boots.join(F.broadcast(known_until), "hour")
    there = F.col("goes_on") & (at >= F.col("known_until").cast("long") - _SILENT_MS)
    return boots.select(*_BOOT, "minutes_seen", "minutes_expected", there.alias("there"))


def _by_series() -> dict[str, Column]:
    """Return what is decided for each series before the sums."""
    connection_ms = F.col("connection_ms")
    unknown_ms = F.when(F.col("class") == "unknown", connection_ms).otherwise(
        F.when(connection_ms.isNotNull(), F.lit(0))
    )
    rest = connection_ms - F.col("useful_ms") - unknown_ms
    now = F.coalesce(F.col("there"), F.lit(False))
    return {
        "expected_known_ms": F.when(F.col("expected_ms").isNotNull(), connection_ms),
        "unknown_ms": unknown_ms,
        "waste_ms": F.when(rest.isNotNull(), F.greatest(rest, F.lit(0))),
        # Four numbers that are there or absent together: a null makes a null, and not a part.
        "closed": sum((F.col(name) for name in _CLOSED[1:]), F.col(_CLOSED[0])),
        "connections": F.when(now, state("connections")),
        "expected": F.when(now, state("expected")),
        "broker_max_connections": state("broker_max_connections"),
        # xxhash64 would be shorter and could collide; to_json keeps nulls apart from texts.
        "client": F.to_json(
            F.struct("agent_id", "process", "client_id"), {"ignoreNullFields": "false"}
        ),
    }
