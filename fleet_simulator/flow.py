"""A counter batch by batch, at the cost of its changes and not of its length."""

from __future__ import annotations

__all__ = ["Flow"]

from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING

from fleet_simulator.events import MINUTE_MS, SECOND_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet_simulator.batch_times import BatchTimes


class Flow:
    """A counter: amounts in single batches, and steady growth from one batch to another."""

    def __init__(self, times: BatchTimes) -> None:
        self._times = times
        self._amounts = [0] * len(times.at)
        self._slopes = [0] * len(times.at)

    def add(self, index: int, amount: int) -> None:
        """Grow once."""
        self._amounts[index] += amount

    def spread(self, begin: int, end: int, factor: int) -> None:
        """Grow by `factor` in each millisecond from begin up to but not with end."""
        times = self._times
        first, last = times.index(begin), times.index(end - 1)
        if first == last:
            self._amounts[first] += factor * (end - begin)
            return
        self._amounts[first] += factor * (times.at[first] - begin)
        self._amounts[last] += factor * (end - times.at[last - 1])
        self._steady(first, last, factor * MINUTE_MS)

    def tick(self, begin: int, end: int, rate: int) -> None:
        """Grow by `rate` at each whole second from begin up to but not with end."""
        times = self._times
        first, last = times.index(begin), times.index(end - 1)
        if first == last:
            self._amounts[first] += rate * (_seconds(end) - _seconds(begin))
            return
        self._amounts[first] += rate * (_seconds(times.at[first]) - _seconds(begin))
        self._amounts[last] += rate * (_seconds(end) - _seconds(times.at[last - 1]))
        self._steady(first, last, rate * (MINUTE_MS // SECOND_MS))

    def totals(self) -> Iterator[int]:
        """Yield the counter as each batch shows it."""
        return accumulate(map(add, self._amounts, accumulate(self._slopes)))

    def _steady(self, first: int, last: int, amount: int) -> None:
        self._slopes[first + 1] += amount
        self._slopes[last] -= amount


def _seconds(at: int) -> int:
    """Count the whole seconds before this moment."""
    return -(-at // SECOND_MS)
