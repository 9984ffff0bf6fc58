"""The streaming job: a topic into the same tables, by the same code, a batch at a time."""

from __future__ import annotations

__all__ = ["Stream"]

import threading
import time
from typing import TYPE_CHECKING

from spark_rollups.jobs.ingest import ingest
from spark_rollups.jobs.sources import text_of_kafka
from spark_rollups.jobs.stale import StaleHours, catch_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_rollups.tables import Tables


class Stream:
    """A query that joins a topic into `silver`, and now and then makes the other tables anew.

    The checkpoint only saves work. A batch is committed to it once silver has its records and the
    hours to make anew are written down, so one that was interrupted, and all of them after a lost
    checkpoint, come again: the same greatest values. There is no watermark: a record is never too
    late. The tables behind silver cost the same for one new record as for a million, so they are
    not made with each batch.
    """

    def __init__(
        self,
        tables: Tables,
        checkpoint: str,
        say: Callable[[str], None],
        *,
        refresh_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = tables
        self._checkpoint = checkpoint
        self._say = say
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._stale = StaleHours(tables.spark, checkpoint)
        self._refreshed_at = clock()
        self._busy = threading.Lock()

    def run(self, options: Mapping[str, str], *, every: str | None = None) -> StreamingQuery:
        """Start the query; without `every` it takes what is there and ends."""
        reader = self._tables.spark.readStream.format("kafka").options(**options)
        writer = reader.load().writeStream.option("checkpointLocation", self._checkpoint)
        trigger = {"processingTime": every} if every else {"availableNow": True}
        return writer.foreachBatch(self.take).trigger(**trigger).start()

    def take(self, messages: DataFrame, number: int) -> None:
        """Join one batch of messages into the tables."""
        with self._busy:
            loaded = ingest(self._tables, text_of_kafka(messages))
            self._stale.add(loaded.hours)
            self._say(
                f"batch {number}: {loaded.rows} rows in {len(loaded.hours)} hours,"
                f" {loaded.quarantined} quarantined"
            )
        self.refresh_if_due()

    def refresh_if_due(self) -> None:
        """Make the stale hours anew if the last time was long enough ago and nobody is at work."""
        if self._clock() - self._refreshed_at < self._refresh_seconds:
            return
        # Whoever looks must not wait for a long batch here: it would not see a signal meanwhile.
        if self._busy.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._busy.release()

    def refresh(self) -> None:
        """Make the stale hours anew, those too that an earlier run left."""
        with self._busy:
            self._refresh()

    def _refresh(self) -> None:
        catch_up(self._tables, self._stale, self._say)
        self._refreshed_at = self._clock()
