"""Batches on their way to one output: a failed write is tried again, within a bounded queue.

A full disk or a missing folder delays only this output.
"""

from __future__ import annotations

__all__ = ["Figures", "RetryQueue"]

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.journal.lines import Lines

log = logging.getLogger("brokerwire.journal")

# An hour of minutes, and no more memory than a busy agent needs anyway.
MOST_BATCHES = 60
MOST_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class Figures:
    """Counters of one output since the start."""

    records: int = 0
    bytes: int = 0
    failures: int = 0
    dropped: int = 0
    last_success: float | None = None


class RetryQueue:
    """Batches on their way to `write`, which returns when they are safe or raises OSError."""

    def __init__(
        self, name: str, write: Callable[[Lines], None], wall_clock: Callable[[], float]
    ) -> None:
        self.name = name
        self.figures = Figures()
        self._write = write
        self._wall_clock = wall_clock
        self._waiting: deque[Lines] = deque()
        self._error: str | None = None

    @property
    def waits(self) -> bool:
        """Whether batches are still to be written."""
        return bool(self._waiting)

    def put(self, lines: Lines) -> None:
        """Add a batch; beyond the limits the oldest are dropped."""
        self._waiting.append(lines)
        while len(self._waiting) > 1 and (
            len(self._waiting) > MOST_BATCHES
            or sum(len(each.data) for each in self._waiting) > MOST_BYTES
        ):
            self.figures.dropped += self._waiting.popleft().records

    def write(self) -> None:
        """Write all that waits, oldest first, until one does not work."""
        while self._waiting:
            lines = self._waiting[0]
            try:
                self._write(lines)
            except OSError as error:
                self.figures.failures += 1
                self._tell(f"{error.strerror or error}: {error.filename or self.name}")
                return
            except Exception as error:
                # What one batch brings out must not be met again and again.
                log.exception("bug while writing the journal", extra={"sink": self.name})
                self.figures.dropped += self._waiting.popleft().records
                self._tell(f"bug: {type(error).__name__}")
                return
            self._waiting.popleft()
            self.figures.records += lines.records
            self.figures.bytes += len(lines.data)
            self.figures.last_success = self._wall_clock()
        self._tell(None)

    def _tell(self, error: str | None) -> None:
        if error == self._error:
            return
        self._error = error
        if error is None:
            log.info("journal writing resumed", extra={"sink": self.name})
        else:
            log.warning("cannot write the journal", extra={"sink": self.name, "error": error})
