"""What each fix would save at each broker: the table `savings`."""

from __future__ import annotations

__all__ = ["savings"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.brokers import identified, known_ids
from spark_rollups.transforms.measures import beside, ratio, total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DAY_MS: Final = 86_400_000
_SHORT_BUCKETS: Final = 4
"""The first buckets: connections that lived at most 10 s."""

_SHORT_LIVED_BY_DESIGN: Final = ("librdkafka", "kafka-python", "aiokafka", "franz-go")
"""These close a bootstrap connection themselves once they know the brokers, librdkafka within two
seconds: that is no client for each request."""
_ADVERTISED_SINCE: Final = "2.10"
"""librdkafka before this keeps a bootstrap connection whose name is not the advertised one."""

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
    place = ("day", "kafka_cluster", "broker_id", "unnamed")
    days = identified(days, known_ids(days, ("day",)), ("day",))
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
        .where(~(F.col("class").eqNullSafe("bootstrap") & _closes_bootstrap()))
        .withColumns({"fix": F.lit("client_kept"), "short": short, "waste_ms": F.lit(0)})
        .where("short > 0")
    )
    # Whoever wastes nothing may be the only one that knows it.
    limit = days.groupBy(*place).agg(F.max("broker_max_connections").alias("max_connections"))
    groups = (
        standing.where("fix IS NOT NULL AND (waste_ms > 0 OR opened > 0)")
        .withColumn("short", F.when(F.col("fix") == "probe_less", F.col("opened")))
        .unionByName(brief)
        .groupBy(*place, "fix")
        .agg(
            F.min("broker").alias("broker"),
            total(F.col("waste_ms")).alias("connection_ms"),
            total(F.col("short")).alias("opened_saved"),
            F.hll_sketch_estimate(F.hll_union_agg("clients_sketch")).alias("clients"),
        )
    )
    joined = beside(groups, limit, place, "max_connections")
    saved = ratio(F.col("connection_ms"), F.lit(_DAY_MS))
    return (
        joined.drop("unnamed")
        .withColumn("connections_saved", saved)
        .withColumn("share_of_limit", ratio(F.col("connections_saved"), F.col("max_connections")))
    )


def _fix() -> Column:
    superseded = F.col("cause") == "superseded_bootstrap"
    chain = F.when(superseded & _older_librdkafka(), F.lit("update_librdkafka"))
    chain = chain.when(superseded & ~_closes_bootstrap(), F.lit("fewer_bootstrap_servers"))
    for name, fix in _FIX_OF_CLASS.items():
        chain = chain.when(F.col("class") == name, F.lit(fix))
    return chain


def _closes_bootstrap() -> Column:
    """Tell which clients end their bootstrap connections within seconds, as they are meant to."""
    library = F.coalesce("library", F.lit(""))
    return library.isin(*_SHORT_LIVED_BY_DESIGN) & ~_older_librdkafka()


def _older_librdkafka() -> Column:
    """Tell a librdkafka that keeps its bootstrap connections; of no version nobody knows."""
    part = F.split("library_version", r"\.")
    numbers = [F.get(part, F.lit(at)).try_cast("int") for at in (0, 1)]
    major, minor = (int(each) for each in _ADVERTISED_SINCE.split("."))
    older = (numbers[0] < major) | ((numbers[0] == major) & (numbers[1] < minor))
    return F.coalesce(F.col("library").eqNullSafe("librdkafka") & older, F.lit(False))
