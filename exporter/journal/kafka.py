"""Sends the journal from the spool to a Kafka topic, in order, until it is acknowledged.

The client library is imported by this thread alone, so an agent without it does not pay for it.
Its producer is idempotent and never gives up by itself; what it has not acknowledged stays in the
spool. After an error all that is under way is awaited, and sent again from the oldest on.
"""

from __future__ import annotations

__all__ = ["KafkaDelivery"]

import json
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exporter.config.values_in_files import read_value
from exporter.journal.retry_queue import Figures
from exporter.kernel.own_connections import OWN_RECEIVE_BUFFER

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.config.settings import JournalKafkaSettings
    from exporter.journal.spool import Spool

log = logging.getLogger("brokerwire.journal")

# Under way at once: a replay of a long outage must not take more memory than this.
WINDOW_BYTES = 2 * 1024 * 1024
WINDOW_BATCHES = 64

PAUSE_SECONDS = 10.0
POLL_SECONDS = 0.5

_DEFAULTS = {
    "compression.type": "zstd",
    "linger.ms": 100,
    # The same partition as a Java producer's for the same key.
    "partitioner": "murmur2_random",
    # A connection more is what this tool is against: ask seldom, and only brokers that are needed.
    "reconnect.backoff.max.ms": 30_000,
    "enable.metrics.push": False,
    # Failures come as errors, too, which are logged once.
    "log_level": 0,
}
_OWN = {
    "client.id": "brokerwire-journal",
    "enable.idempotence": True,
    "message.timeout.ms": 0,
    "statistics.interval.ms": 2000,
    "socket.receive.buffer.bytes": OWN_RECEIVE_BUFFER,
}
_NOT_CONNECTED = frozenset({"INIT", "DOWN", "TRY_CONNECT", "CONNECT"})


@dataclass(slots=True)
class _Sending:
    """One batch that is under way."""

    left: int
    bytes: int
    records: int
    failed: bool = False


class KafkaDelivery:
    """Sends what is in the spool, from `start` to `stop`."""

    def __init__(
        self,
        settings: JournalKafkaSettings,
        agent_id: str,
        spool: Spool,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.figures = Figures()
        self.own_connections = 0
        self.own_established = 0
        self._settings = settings
        self._key = agent_id.encode()
        self._spool = spool
        self._clock = clock
        self._wall_clock = wall_clock
        self._sending: dict[str, _Sending] = {}
        self._producer: Any = None
        self._broken = False
        self._await_all = False
        self._pause_until = float("-inf")
        self._error: str | None = None
        self._stop_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="brokerwire-kafka", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send what is left, for `flush_timeout` at most."""
        self._stop_at = self._clock() + self._settings.flush_timeout

    @property
    def flush_seconds(self) -> float:
        """How long the end may take."""
        return self._settings.flush_timeout + 2 * POLL_SECONDS

    def join(self) -> None:
        """Wait for the end, not for ever."""
        if self._thread.is_alive():
            self._thread.join(self.flush_seconds)

    # ---- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_over():
            try:
                self._step()
            except OSError as error:
                self._fail(f"{error.strerror}: {error.filename}", pause=True)
            except Exception:
                log.exception("bug while sending the journal")
                self._fail("bug", pause=True)
        self._producer = None
        self.own_connections = 0

    def _is_over(self) -> bool:
        if self._stop_at is None:
            return False
        is_done = not self._sending and self._spool.oldest(()) is None
        return is_done or self._clock() >= self._stop_at

    def _step(self) -> None:
        if self._broken:
            self._part_with_producer()
        if self._clock() < self._pause_until:
            self._wait()
            return
        if self._producer is None:
            self._spool.open()
            self._producer = self._connect()
        if self._producer is not None:
            self._fill_window()
        self._wait()

    def _part_with_producer(self) -> None:
        """Let a producer go that can do nothing any more, once it has said what became of all."""
        if self._sending:
            self._producer.purge()
            return
        self._producer, self._broken = None, False
        self.own_connections = 0

    def _wait(self) -> None:
        if self._producer is None:
            time.sleep(POLL_SECONDS)
        else:
            # Serves acknowledgements, statistics, errors and log lines, all in this thread.
            self._producer.poll(POLL_SECONDS)

    def _fill_window(self) -> None:
        if self._await_all and self._sending:
            return
        self._await_all = False
        while not self._await_all and (
            len(self._sending) < WINDOW_BATCHES
            and sum(each.bytes for each in self._sending.values()) < WINDOW_BYTES
        ):
            name = self._spool.oldest(self._sending)
            if name is None:
                return
            self._send(name)

    def _send(self, name: str) -> None:
        records = self._spool.read(name)
        if not records:
            self._spool.remove(name)
            return
        size = sum(map(len, records))
        sending = self._sending[name] = _Sending(len(records), size, len(records))

        def answered(error: Any, _message: Any) -> None:
            self._answered(name, sending, None if error is None else error.str())

        for position, record in enumerate(records):
            try:
                self._produce(record, answered)
            except Exception:
                # Records that were never handed over are never answered; the batch must not wait.
                sending.left -= len(records) - position
                sending.failed = self._await_all = True
                if not sending.left:
                    self._settle(name, sending)
                raise

    def _produce(self, record: bytes, answered: Callable[[Any, Any], None]) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(
                    self._settings.topic, record, self._key, on_delivery=answered
                )
            except BufferError:
                self._producer.poll(POLL_SECONDS)
            except KafkaException as error:
                answered(error.args[0], None)
                return
            else:
                return

    def _answered(self, name: str, sending: _Sending, error: str | None) -> None:
        """Take what became of one record."""
        sending.left -= 1
        if error is not None:
            sending.failed = self._await_all = True
            self._fail(error, pause=True)
        if not sending.left:
            self._settle(name, sending)

    def _settle(self, name: str, sending: _Sending) -> None:
        del self._sending[name]
        if sending.failed:
            return
        self._spool.remove(name)
        self.figures.records += sending.records
        self.figures.bytes += sending.bytes
        self.figures.last_success = self._wall_clock()
        if self._error is not None:
            log.info("journal delivery to Kafka resumed", extra={"sink": "kafka"})
        self._error = None

    # ---- the client ---------------------------------------------------------------------------

    def _connect(self) -> Any:
        from confluent_kafka import KafkaException, Producer

        settings = self._settings
        try:
            client = {name: read_value(name, text) for name, text in settings.client.items()}
            return Producer(
                _DEFAULTS
                | client
                | _OWN
                | {
                    "bootstrap.servers": settings.bootstrap_servers,
                    "error_cb": self._take_error,
                    "stats_cb": self._take_statistics,
                }
            )
        except (KafkaException, TypeError) as error:
            # The library's text may quote a value: only the kind of the mistake is shown.
            self._fail(
                "journal.kafka.client: the client library refuses these settings"
                f" ({type(error).__name__}); check the names against librdkafka's CONFIGURATION.md",
                pause=True,
            )
        except ValueError as error:
            self._fail(f"journal.kafka.client: {error}", pause=True)
        return None

    def _take_error(self, error: Any) -> None:
        if error.fatal():
            # This producer is done for; what is under way fails now and is sent by the next one.
            self._broken = True
        self._fail(error.str(), pause=error.fatal())

    def _take_statistics(self, text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        # Its own count of attempts starts over with each reconnect to a broker.
        before = self.own_connections
        self.own_connections = sum(each["state"] not in _NOT_CONNECTED for each in brokers)
        self.own_established += max(0, self.own_connections - before)

    def _fail(self, text: str, *, pause: bool = False) -> None:
        self.figures.failures += 1
        if pause:
            self._pause_until = self._clock() + PAUSE_SECONDS
        if self._error is None:
            log.warning("cannot send the journal", extra={"sink": "kafka", "error": text})
        self._error = text
