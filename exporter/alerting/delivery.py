"""One Alertmanager and the thread that sends to it, with backoff."""

from __future__ import annotations

__all__ = ["Delivery", "alerts_document", "pause_after"]

import json
import logging
import random
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exporter.alerting.queue import AlertQueue
from exporter.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exporter.alerting.states import Alert

    Send = Callable[[bytes], None]

log = logging.getLogger("brokerwire.alertmanager")

# Some 200 kB: as many as Prometheus sends at once.
MOST_AT_ONCE = 256

LEAST_BETWEEN_TRIES = 1.0
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 30.0

_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC).timestamp()
_LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def alerts_document(alerts: Sequence[Alert], generator_url: str | None) -> bytes:
    """Return the body of `POST /api/v2/alerts`."""
    link = {} if generator_url is None else {"generatorURL": generator_url}
    told = [
        {
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": _moment(alert.starts_at),
            "endsAt": _moment(alert.ends_at),
            **link,
        }
        for alert in alerts
    ]
    return json.dumps(told).encode()


def _moment(wall: float) -> str:
    # A wall clock can be anything before it is set.
    within = min(max(wall, _FIRST_MOMENT), _LAST_MOMENT)
    return datetime.fromtimestamp(within, UTC).isoformat(timespec="milliseconds")


def pause_after(failures: int, share: float) -> float:
    """Return how long to wait after so many failures in a row; `share`, 0 to 1, is the dice's."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))
    return max(LEAST_BETWEEN_TRIES, longest * (0.5 + share / 2))


@dataclass(slots=True)
class Figures:
    """What has become of the alerts for one Alertmanager, since the start."""

    sent: int = 0
    failures: int = 0
    lost: int = 0
    last_success: float | None = None


class Delivery:
    """Sends what is put, oldest first, at most one request a second.

    `send` posts a body, and raises SourceError where that did not work.
    """

    def __init__(
        self,
        name: str,
        send: Send,
        *,
        most: int,
        generator_url: str | None,
        wall_clock: Callable[[], float],
    ) -> None:
        self.name = name
        self.queue = AlertQueue(most)
        self.figures = Figures()
        self._send = send
        self._generator_url = generator_url
        self._wall_clock = wall_clock
        self._dice = random.Random()  # noqa: S311 - jitter is no secret
        self._failures_in_a_row = 0
        self._error: str | None = None
        self._something = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerwire-am", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; a request that is under way is left to its deadline."""
        self._stopping.set()
        self._something.set()

    def join(self, seconds: float) -> None:
        """Wait for the end, not for ever."""
        if self._thread.is_alive():
            self._thread.join(max(seconds, 0.0))

    def put(self, alerts: Sequence[Alert]) -> None:
        """Take alerts; never waits."""
        if alerts:
            self.queue.put(alerts)
            self._something.set()

    def send_once(self) -> float:
        """Send the oldest that wait; return how long to rest then."""
        batch = self.queue.take(MOST_AT_ONCE)
        if not batch:
            return 0.0
        try:
            self._send(alerts_document(batch, self._generator_url))
        except SourceError as error:
            self.queue.put_back(batch)
            return self._failed(str(error))
        except Exception as error:
            # What one batch brings out must not be met again and again.
            log.exception("bug while sending alerts", extra={"alertmanager": self.name})
            self.figures.lost += len(batch)
            return self._failed(f"bug: {type(error).__name__}")
        if self._error is not None:
            log.info("Alertmanager reachable again", extra={"alertmanager": self.name})
        self._error = None
        self._failures_in_a_row = 0
        self.figures.sent += len(batch)
        self.figures.last_success = self._wall_clock()
        return LEAST_BETWEEN_TRIES

    def _failed(self, text: str) -> float:
        if self._error != text:
            log.warning("alerts cannot be sent", extra={"alertmanager": self.name, "error": text})
        self._error = text
        self.figures.failures += 1
        self._failures_in_a_row += 1
        return pause_after(self._failures_in_a_row, self._dice.random())

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._something.clear()
            rest = self.send_once()
            if rest:
                self._stopping.wait(rest)
            else:
                self._something.wait()
