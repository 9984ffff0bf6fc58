"""Alerts not yet sent to one Alertmanager: bounded, the latest state of each."""

from __future__ import annotations

__all__ = ["AlertQueue"]

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exporter.alerting.states import Alert, AlertKey


class AlertQueue:
    """For one thread that puts and one that takes. Where it is full, the oldest is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[AlertKey, Alert] = {}
        self._lock = threading.Lock()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, alerts: Iterable[Alert]) -> None:
        """Add alerts; one that waits already is replaced and keeps its place."""
        with self._lock:
            for alert in alerts:
                self._waiting[alert.key] = alert
                if len(self._waiting) > self._most:
                    del self._waiting[next(iter(self._waiting))]
                    self.dropped += 1

    def take(self, most: int) -> list[Alert]:
        """Remove and return the oldest."""
        with self._lock:
            keys = [key for key, _ in zip(self._waiting, range(most), strict=False)]
            return [self._waiting.pop(key) for key in keys]

    def put_back(self, alerts: Sequence[Alert]) -> None:
        """Return what could not be sent to the front, but for what newer words have come of."""
        with self._lock:
            older = {alert.key: alert for alert in alerts if alert.key not in self._waiting}
            while len(older) + len(self._waiting) > self._most:
                del older[next(iter(older))]
                self.dropped += 1
            self._waiting = older | self._waiting
