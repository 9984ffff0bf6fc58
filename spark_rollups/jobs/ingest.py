"""Texts into `silver` and `quarantine`: the one way in, for files and for Kafka."""

from __future__ import annotations

__all__ = ["Ingested", "ingest"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_rollups.tables import Tables, hours_of
from spark_rollups.transforms.lattice import (
    GREATEST,
    KEY,
    LEAST,
    bad_rows,
    good_rows,
    has_twins,
    reduce_records,
)
from spark_rollups.transforms.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UPDATES: Final = {
    # greatest and least leave nulls out: what one side knows, the joined row knows.
    **{name: f"greatest(t.{name}, s.{name})" for name in GREATEST},
    **{name: f"least(t.{name}, s.{name})" for name in LEAST},
    "minutes": "t.minutes | s.minutes",
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


def ingest(tables: Tables, texts: DataFrame) -> Ingested:
    """Join `raw, source` into the tables. Done twice it changes nothing."""
    reduced = reduce_records(parse(texts)).persist()
    try:
        good, bad = good_rows(reduced, twins=has_twins(reduced)), bad_rows(reduced)
        tables.create("silver", good, "hour")
        tables.create("quarantine", bad)
        quarantined = bad.count()
        if quarantined:
            tables.join(
                "quarantine",
                bad,
                key=("raw_sha256",),
                updates={"source": "least(t.source, s.source)"},
            )
        good = good.persist()
        try:
            hours = hours_of(good)
            rows = good.count()
            if rows:
                tables.join_hours("silver", good, hours, key=KEY, updates=_UPDATES)
        finally:
            good.unpersist()
    finally:
        reduced.unpersist()
    return Ingested(hours=hours, rows=rows, quarantined=quarantined)
