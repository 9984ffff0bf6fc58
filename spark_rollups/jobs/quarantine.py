"""What was set aside, read again: after an upgrade some of it is a record."""

from __future__ import annotations

__all__ = ["read_again"]

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_rollups.jobs.ingest import ingest
from spark_rollups.jobs.stale import StaleHours
from spark_rollups.transforms.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rollups.tables import Tables


def read_again(tables: Tables, say: Callable[[str], None]) -> int:
    """Take from `quarantine` into `silver` what can be read by now; return how many texts.

    Those that are kept cut cannot come back: their files, read again, would bring them.
    Done twice, or killed in between, it changes nothing: a text leaves last, and the hours that
    it changes are written down for the next run.
    """
    if not tables.exists("quarantine"):
        return 0
    whole = tables.read("quarantine").where(F.octet_length("raw") == F.col("raw_bytes"))
    texts = whole.select("raw", "source")
    still_bad = parse(texts).where("reason IS NOT NULL").select("raw_sha256")
    good = whole.join(still_bad, "raw_sha256", "left_anti").persist()
    try:
        count = good.count()
        if count:
            stale = StaleHours(tables.spark, tables.root)
            ingest(tables, good.select("raw", "source"), about_to_change=stale.add)
            tables.forget("quarantine", good.select("raw_sha256"), key="raw_sha256")
    finally:
        good.unpersist()
    say(f"{count} texts of quarantine are records now, {tables.count('quarantine')} are not")
    return int(count)
