"""Waste by the library's version, over all services, from `daily`."""

from __future__ import annotations

__all__ = ["version_cohorts"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.transforms.measures import ratio, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DAY_MS: Final = 86_400_000
_SUMS: Final = ("connection_ms", "useful_ms", "waste_ms", "unknown_ms", "opened")
_BOOTSTRAP: Final = "cause <=> 'superseded_bootstrap' OR class <=> 'bootstrap'"
"""The waste that a library's version decides on; idle limits and instances are its user's."""


def version_cohorts(days: DataFrame) -> DataFrame:
    """Add up by library, version and kind of client."""
    groups = days.groupBy("day", "library", "library_version", "client_kind").agg(
        *(total(F.col(name)).alias(name) for name in _SUMS),
        total(F.when(F.expr(_BOOTSTRAP), F.col("waste_ms"))).alias("bootstrap_waste_ms"),
        F.hll_sketch_estimate(F.hll_union_agg("clients_sketch")).alias("clients"),
    )
    return groups.withColumns(
        {
            "efficiency": ratio(F.col("useful_ms"), F.col("useful_ms") + F.col("waste_ms")),
            "waste_connections_per_client": ratio(
                F.col("waste_ms"), F.col("clients") * F.lit(_DAY_MS)
            ),
        }
    )
