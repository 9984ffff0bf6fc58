"""A share of one processor for work that others cause: they may not take the client's."""

from __future__ import annotations

__all__ = ["ProcessorShare"]

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ProcessorShare:
    """Counts processor time, and says how long to rest so that it stays within a share.

    Time that was not used adds up to `burst_seconds`.
    """

    def __init__(
        self,
        share: float,
        *,
        burst_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = share
        self._burst = burst_seconds / share
        self._clock = clock
        self._paid_until = clock() - self._burst

    def spend(self, seconds: float) -> None:
        """Count work that has just ended."""
        start = max(self._paid_until, self._clock() - seconds - self._burst)
        self._paid_until = start + seconds / self._share

    def rest(self) -> float:
        """Return how many seconds to wait before the next work; 0 where there is time left."""
        return max(0.0, self._paid_until - self._clock())
