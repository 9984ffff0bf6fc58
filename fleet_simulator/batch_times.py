"""When a boot of an agent writes, and which of its batches counts what happened at a moment."""

from __future__ import annotations

__all__ = ["BatchTimes"]

from typing import TYPE_CHECKING

from fleet_simulator.events import MINUTE_MS

if TYPE_CHECKING:
    from fleet_simulator.events import Boot


class BatchTimes:
    """Each whole minute of the wall clock, and the boot's end if it can still write then."""

    def __init__(self, boot: Boot) -> None:
        self.since = boot.since + boot.offset
        self.until = boot.until + boot.offset
        self._first = self.since // MINUTE_MS
        self.at = list(range((self._first + 1) * MINUTE_MS, self.until + 1, MINUTE_MS))
        if boot.final and self.until % MINUTE_MS:
            self.at.append(self.until)
        # What comes after the last batch nobody ever hears.
        self.until = self.at[-1] if self.at else self.since

    def index(self, at: int) -> int:
        """Return the batch that is the first to count what happened at this moment."""
        return at // MINUTE_MS - self._first

    def begin(self, index: int) -> int:
        """Return the moment up to which the batch before had counted."""
        return self.at[index - 1] if index else self.since
