"""The streaming job: a topic into the same tables, by the same code, a batch at a time."""

from __future__ import annotations

__all__ = ["start_stream"]

from typing import TYPE_CHECKING

from spark_rollups.jobs.ingest import ingest
from spark_rollups.jobs.refresh import refresh
from spark_rollups.jobs.sources import text_of_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_rollups.tables import Tables


def start_stream(
    tables: Tables,
    options: Mapping[str, str],
    checkpoint: str,
    say: Callable[[str], None],
    *,
    every: str | None = None,
) -> StreamingQuery:
    """Start the query; without `every` it takes what is there and ends.

    The checkpoint only saves work. A batch is done when all tables have it and is committed after
    that, so one that was interrupted, and all of them after a lost checkpoint, come again: the
    same greatest values. There is no watermark: a record is never too late.
    """

    def take(messages: DataFrame, number: int) -> None:
        loaded = ingest(tables, text_of_kafka(messages))
        say(
            f"batch {number}: {loaded.rows} rows in {len(loaded.hours)} hours,"
            f" {loaded.quarantined} quarantined"
        )
        refresh(tables, loaded.hours, say)

    reader = tables.spark.readStream.format("kafka").options(**options)
    writer = reader.load().writeStream.option("checkpointLocation", checkpoint).foreachBatch(take)
    trigger = {"processingTime": every} if every else {"availableNow": True}
    return writer.trigger(**trigger).start()
