"""What each fix would save at each broker: the table `savings`."""

from __future__ import annotations

__all__ = ["savings"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.measures import beside, ratio, total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DAY_MS: Final = 86_400_000
_SHORT_BUCKETS: Final = 4
"""The first buckets: connections that lived at most 10 s."""

_FIX_OF_CLASS: Final = {
    "zombie": "idle_closing_on",
    "excess": "one_shared_client",
    "half_closed": "poll_or_close",
    "ghost": "close_on_error",
    "stale": "resolve_again",
    "probe": "probe_less",
}


def savings(days: DataFrame) -> DataFrame:
    """Add up by fix what would be gone; one connection is in one fix, but for `opened_saved`."""
    place = ("day", "kafka_cluster", "broker_id", "broker", "fix")
    standing = days.withColumns({"fix": _fix(), "short": F.lit(None).cast("decimal(38,0)")})
    short = sum(
        (
            F.coalesce(F.get("lifetime_buckets", F.lit(at)), F.lit(0))
            for at in range(_SHORT_BUCKETS)
        ),
        F.lit(0),
    ).cast("decimal(38,0)")
    brief = (
        days.where("NOT class <=> 'probe'")
        .withColumns({"fix": F.lit("client_kept"), "short": short, "waste_ms": F.lit(0)})
        .where("short > 0")
    )
    limit = days.groupBy("day", "kafka_cluster", "broker_id", "broker").agg(
        F.max("broker_max_connections").alias("max_connections")
    )
    groups = (
        standing.where("fix IS NOT NULL AND (waste_ms > 0 OR opened > 0)")
        .withColumn("short", F.when(F.col("fix") == "probe_less", F.col("opened")))
        .unionByName(brief)
        .groupBy(*place)
        .agg(
            total(F.col("waste_ms")).alias("connection_ms"),
            total(F.col("short")).alias("opened_saved"),
            F.hll_sketch_estimate(F.hll_union_agg("clients_sketch")).alias("clients"),
        )
    )
    joined = beside(groups, limit, place[:-1], "max_connections")
    saved = ratio(F.col("connection_ms"), F.lit(_DAY_MS))
    return joined.withColumn("connections_saved", saved).withColumn(
        "share_of_limit", ratio(F.col("connections_saved"), F.col("max_connections"))
    )


def _fix() -> Column:
    chain = F.when(F.col("cause") == "superseded_bootstrap", F.lit("fewer_bootstrap_servers"))
    for name, fix in _FIX_OF_CLASS.items():
        chain = chain.when(F.col("class") == name, F.lit(fix))
    return chain
