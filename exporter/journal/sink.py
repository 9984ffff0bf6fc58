"""The journal's sink: takes batches from the poll thread, writes them to files and the spool.

One thread writes, so that a slow disk never delays a poll; another sends what is in the spool.
"""

from __future__ import annotations

__all__ = ["JournalSink"]

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from exporter.journal.file import JournalFile
from exporter.journal.kafka import KafkaDelivery
from exporter.journal.lines import lines_of
from exporter.journal.retry_queue import MOST_BATCHES, RetryQueue
from exporter.journal.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.config.settings import JournalSettings
    from exporter.journal.retry_queue import Figures
    from exporter.metrics.families import Reading
    from exporter.totals.journal_values import Batch

log = logging.getLogger("brokerwire.journal")

# What could not be written is tried again so often.
RETRY_SECONDS = 10.0
STOP_SECONDS = 2.0


class JournalSink:
    """Takes batches from `start` to `stop`."""

    def __init__(
        self,
        settings: JournalSettings,
        agent_id: str,
        label_bytes: int,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._label_bytes = label_bytes
        self._outputs: list[RetryQueue] = []
        self._file: JournalFile | None = None
        self._spool: Spool | None = None
        self._kafka: KafkaDelivery | None = None
        self.series = 0
        if settings.file is not None:
            self._file = JournalFile(settings.file)
            self._outputs.append(RetryQueue("file", self._file.append, wall_clock))
        if settings.kafka is not None:
            self._spool = Spool(settings.kafka.spool_folder, settings.kafka.spool_max_bytes)
            self._kafka = KafkaDelivery(
                settings.kafka, agent_id, self._spool, wall_clock=wall_clock
            )
            self._outputs.append(RetryQueue("spool", self._spool.add, wall_clock))
        self._queue: deque[Batch] = deque()
        self._unwritten = 0
        self._own_failures = 0
        self._condition = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="brokerwire-journal", daemon=True)

    # ---- life ---------------------------------------------------------------------------------

    @property
    def stop_seconds(self) -> float:
        """How long `stop` may take."""
        flush = 0.0 if self._kafka is None else self._kafka.flush_seconds
        return STOP_SECONDS + flush

    def start(self) -> None:
        """Start the threads."""
        self._thread.start()
        if self._kafka is not None:
            self._kafka.start()

    def stop(self) -> None:
        """Write and send what was taken, in time."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        if self._kafka is not None:
            self._kafka.stop()
            self._kafka.join()
        if self._file is not None:
            self._file.close()
        if self._spool is not None:
            self._spool.close()

    # ---- from the poll thread -----------------------------------------------------------------

    def take(self, batch: Batch) -> None:
        """Take a batch; never waits."""
        with self._condition:
            self.series = batch.records[0]["series_kept"]
            self._queue.append(batch)
            while len(self._queue) > MOST_BATCHES:
                self._unwritten += len(self._queue.popleft().records)
            self._condition.notify()

    def count_own_failures(self, count: int) -> None:
        """Count attempts to connect of the agent itself that did not get through."""
        self._own_failures += count

    @property
    def dropped_records(self) -> int:
        """Records that the journal could not keep, all ways together."""
        return sum(dropped for _name, _figures, dropped in self._ways())

    @property
    def own_connections(self) -> int:
        """Connections to brokers that the agent itself holds now."""
        return 0 if self._kafka is None else self._kafka.own_connections

    @property
    def own_opened(self) -> int:
        """Connections to brokers that the agent itself has begun to open."""
        established = 0 if self._kafka is None else self._kafka.own_established
        return established + self._own_failures

    # ---- for the metrics ----------------------------------------------------------------------

    def readings(self) -> list[Reading]:
        """Return the state of each output."""
        readings: list[Reading] = [
            ("brokerwire_journal_series", (), self.series),
            ("brokerwire_own_broker_connections", (), self.own_connections),
            ("brokerwire_own_broker_connections_opened_total", (), self.own_opened),
        ]
        for name, figures, dropped in self._ways():
            who = (name,)
            readings += [
                ("brokerwire_journal_records_total", who, figures.records),
                ("brokerwire_journal_bytes_total", who, figures.bytes),
                ("brokerwire_journal_failures_total", who, figures.failures),
                ("brokerwire_journal_dropped_records_total", who, dropped),
            ]
            if figures.last_success is not None:
                success = "brokerwire_journal_last_success_timestamp_seconds"
                readings.append((success, who, figures.last_success))
        if self._spool is not None:
            readings += [
                ("brokerwire_journal_spool_bytes", (), self._spool.room),
                ("brokerwire_journal_spool_batches", (), len(self._spool)),
            ]
        return readings

    def _ways(self) -> list[tuple[str, Figures, int]]:
        """Give each way out with how many records it has lost."""
        lost = {"spool": 0 if self._spool is None else self._spool.dropped_records}
        ways = [
            (
                output.name,
                output.figures,
                output.figures.dropped + self._unwritten + lost.get(output.name, 0),
            )
            for output in self._outputs
        ]
        if self._kafka is not None:
            # It gives nothing up: what it has not sent is the spool's.
            ways.append(("kafka", self._kafka.figures, 0))
        return ways

    # ---- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._queue and not self._stopping:
                    waits = any(output.waits for output in self._outputs)
                    self._condition.wait(RETRY_SECONDS if waits else None)
                batches = list(self._queue)
                self._queue.clear()
                stopping = self._stopping
            for batch in batches:
                self._put(batch)
            for output in self._outputs:
                output.write()
            if stopping and not self._queue:
                return

    def _put(self, batch: Batch) -> None:
        try:
            lines = lines_of(batch, self._label_bytes)
        except Exception:
            # One record that nobody thought of must not end the journal.
            log.exception("bug while encoding the journal")
            self._unwritten += len(batch.records)
            return
        for output in self._outputs:
            output.put(lines)
