"""Texts into `silver` and `quarantine`: the one way in, for files and for Kafka."""

from __future__ import annotations

__all__ = ["Ingested", "ingest"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.schemas import silver_type
from spark_rollups.transforms.lattice import (
    GREATEST,
    KEY,
    LEAST,
    bad_rows,
    good_rows,
    reduce_records,
)
from spark_rollups.transforms.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from spark_rollups.tables import Tables

_UPDATES: Final = {
    # greatest and least leave nulls out: what one side knows, the joined row knows.
    **{name: f"greatest(t.{name}, s.{name})" for name in GREATEST},
    **{name: f"least(t.{name}, s.{name})" for name in LEAST},
    "minutes": "t.minutes | s.minutes",
    "minute_peaks": "coalesce(zip_with(t.minute_peaks, s.minute_peaks,"
    " (one, other) -> greatest(one, other)), t.minute_peaks, s.minute_peaks)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What a load of texts was."""

    hours: list[int]
    """Hours since the epoch that have records in it."""
    rows: int
    """Rows of silver that it was reduced to."""
    quarantined: int
    """Distinct texts that could not be read."""


def ingest(
    tables: Tables,
    texts: DataFrame,
    *,
    about_to_change: Callable[[list[int]], None] = lambda _: None,
) -> Ingested:
    """Join `raw, source` into the tables. Done twice it changes nothing.

    `about_to_change` hears which hours silver will have anew, before it has them.
    """
    reduced = reduce_records(parse(texts)).persist()
    try:
        outline, twins = _outline(reduced)
        good, bad = good_rows(reduced, twins=twins), bad_rows(reduced)
        tables.open("silver", silver_type(), "hour")
        tables.open("quarantine", bad.schema)
        if outline.quarantined:
            tables.join(
                "quarantine",
                bad,
                key=("raw_sha256",),
                updates={"source": "least(t.source, s.source)"},
            )
        if outline.rows:
            about_to_change(outline.hours)
            tables.join_hours("silver", good, outline.hours, key=KEY, updates=_UPDATES)
    finally:
        reduced.unpersist()
    return outline


def _outline(reduced: DataFrame) -> tuple[Ingested, bool]:
    """Return what is in it, and whether a key has several rows: one job, which fills the cache."""
    named = reduced.select(
        F.expr("unix_seconds(hour) div 3600").alias("hour"),
        F.struct(*KEY[1:], "raw_sha256").alias("row"),
    )
    counts = F.count_distinct("row").alias("rows"), F.count(F.lit(1)).alias("all")
    found = {each["hour"]: each for each in named.groupBy("hour").agg(*counts).collect()}
    bad = found.pop(None, None)
    outline = Ingested(
        hours=sorted(found),
        rows=sum(each["rows"] for each in found.values()),
        quarantined=bad["rows"] if bad else 0,
    )
    return outline, any(each["rows"] < each["all"] for each in found.values())
