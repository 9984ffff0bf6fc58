"""The batch job: what is new in folders, or a range of a topic, into the tables."""

from __future__ import annotations

__all__ = ["batch_files", "batch_kafka"]

from typing import TYPE_CHECKING, Final

from spark_rollups.jobs.ingest import Ingested, ingest
from spark_rollups.jobs.refresh import refresh
from spark_rollups.jobs.sources import mark_read, new_files, text_of_kafka, texts_of_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rollups.tables import Tables

_BYTES_AT_ONCE: Final = 64 * 2**30
"""Files are taken in portions of this size, so that a first run over a year makes steps."""


def batch_files(
    tables: Tables, inputs: Sequence[str], say: Callable[[str], None]
) -> list[Ingested]:
    """Read every file that is new, bring the tables up to date, and remember the files."""
    files = new_files(tables, inputs).orderBy("modified", "path").collect()
    done = []
    while files:
        portion, size = [files.pop(0)], 0
        while files and size + files[0]["length"] <= _BYTES_AT_ONCE:
            size += files[0]["length"]
            portion.append(files.pop(0))
        say(f"reading {len(portion)} files, {len(files)} to go")
        texts = texts_of_files(tables.spark, [file["path"] for file in portion])
        done.append(_load(tables, texts, say))
        mark_read(tables, tables.spark.createDataFrame(portion))
    return done


def batch_kafka(
    tables: Tables, options: Mapping[str, str], say: Callable[[str], None]
) -> list[Ingested]:
    """Read a range of a topic; which one, the options say. Read twice it changes nothing."""
    messages = tables.spark.read.format("kafka").options(**options).load()
    return [_load(tables, text_of_kafka(messages), say)]


def _load(tables: Tables, texts: DataFrame, say: Callable[[str], None]) -> Ingested:
    loaded = ingest(tables, texts)
    say(f"{loaded.rows} rows in {len(loaded.hours)} hours, {loaded.quarantined} quarantined")
    refresh(tables, loaded.hours, say)
    return loaded
