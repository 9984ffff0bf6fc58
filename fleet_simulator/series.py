"""From what happened to what an agent counts: the counters of each series, batch by batch.

A series is a client, a broker, a class, a role and a cause.
"""

from __future__ import annotations

__all__ = ["CLOSED_BY", "LIFETIME_BOUNDS_MS", "Series", "SeriesKey", "series_of"]

from bisect import bisect_left
from collections import Counter
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from fleet_simulator.events import BUSY_IDLE_MS, MINUTE_MS, SECOND_MS, Phase
from fleet_simulator.flow import Flow
from journal_schema import definitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet_simulator.batch_times import BatchTimes
    from fleet_simulator.events import Expectation, Pod

LIFETIME_BOUNDS_MS = tuple(
    definitions()["connections"]["properties"]["lifetime_buckets"]["x-bounds-ms"]
)
CLOSED_BY = ("client", "broker", "reset", "unknown")
_OPENED, _CLOSED, _FAILED, _LIFETIME, _BUCKETS = 0, 1, 5, 6, 7
_COUNTS = _BUCKETS + len(LIFETIME_BOUNDS_MS) + 1
# An agent calls these useful as long as it knows no cause for them.
_USEFUL = frozenset({"data", "coordinator", "transaction", "admin", "bootstrap"})


class SeriesKey(NamedTuple):
    """What tells the series of one boot apart."""

    client: int
    broker: int
    connection_class: str
    role: str
    cause: str


class Series:
    """The counters of one series."""

    def __init__(self, key: SeriesKey, times: BatchTimes) -> None:
        count = len(times.at)
        self.key = key
        self.useful = key.connection_class in _USEFUL and not key.cause
        self.first = count
        """The batch in which it was written first, and `last` that in which it changed last."""
        self.last = 0
        self.connection_ms = Flow(times)
        self.expected_ms = Flow(times)
        self.bytes_out = Flow(times)
        self.bytes_in = Flow(times)
        self.idle_max: list[int | None] = [None] * count
        self.peaks: dict[int, int] = {}
        self.peaks_opened: dict[int, int] = {}
        self._events: dict[int, list[int]] = {}
        self._open = [0] * count
        self._expected = [0] * count
        self._times = times
        self._steps: list[tuple[int, int]] = []
        self._opened_at: list[int] = []

    def add(self, phase: Phase, begin: int, end: int, shift: int) -> None:
        """Count a phase, of which the agent saw what lies between begin and end (wall clock)."""
        first, last = self._seen(begin, end)
        self.connection_ms.spread(begin, end, 1)
        if phase.rate_out or phase.rate_in:
            self.bytes_out.tick(begin, end, phase.rate_out)
            self.bytes_in.tick(begin, end, phase.rate_in)
        self._change(self._open, begin, end, 1)
        self._steps += [(begin, 1), (end, -1)]
        self._silence(phase, first, last, end, shift)
        if begin == phase.begin + shift:
            self.bytes_out.add(first, phase.first_out)
            self.bytes_in.add(first, phase.first_in)
            if phase.opens:
                self._event(first)[_OPENED] += 1
                self._opened_at.append(begin)
        if phase.closed_by and end == phase.end + shift and end < self._times.until:
            self._close(phase, end, shift)

    def need(self, expectation: Expectation, begin: int, end: int) -> None:
        """Count what the client needs."""
        self._seen(begin, end)
        self.expected_ms.spread(begin, end, expectation.needed)
        self._change(self._expected, begin, end, expectation.needed)

    def fail(self, at: int) -> None:
        """Count an attempt to connect that did not get through."""
        first, _ = self._seen(at, at + 1)
        counts = self._event(first)
        counts[_OPENED] += 1
        counts[_FAILED] += 1
        self._opened_at.append(at)

    def finish(self) -> None:
        """Find the peaks, once all phases are known."""
        now = 0
        for at, steps in groupby(sorted(self._steps), itemgetter(0)):
            if at >= self._times.until:
                break
            index = self._times.index(at)
            before = now if at > self._times.begin(index) else 0
            now += sum(change for _, change in steps)
            self.peaks[index] = max(self.peaks.get(index, 0), before, now)
        for second, opened in Counter(at // SECOND_MS for at in self._opened_at).items():
            index = self._times.index(second * SECOND_MS)
            self.peaks_opened[index] = max(self.peaks_opened.get(index, 0), opened)

    @property
    def open(self) -> list[int]:
        """How many were open as each batch was written."""
        return list(accumulate(self._open))

    @property
    def expected(self) -> list[int]:
        """How many were needed as each batch was written."""
        return list(accumulate(self._expected))

    @property
    def events(self) -> dict[int, list[int]]:
        """Totals of batches that differ: opened, closed by each side, failures, lifetimes."""
        totals = [0] * _COUNTS
        made = {}
        for index, counts in sorted(self._events.items()):
            totals = [a + b for a, b in zip(totals, counts, strict=True)]
            made[index] = totals
        return made

    def _seen(self, begin: int, end: int) -> tuple[int, int]:
        first, last = self._times.index(begin), self._times.index(end - 1)
        self.first = min(self.first, first)
        self.last = max(self.last, last)
        return first, last

    def _change(self, state: list[int], begin: int, end: int, count: int) -> None:
        """Let batches show what began before them and had not ended before them."""
        state[self._times.index(begin)] += count
        if end < self._times.until:
            state[self._times.index(end)] -= count
            self.last = max(self.last, self._times.index(end))

    def _event(self, index: int) -> list[int]:
        return self._events.setdefault(index, [0] * _COUNTS)

    def _close(self, phase: Phase, end: int, shift: int) -> None:
        counts = self._event(self._times.index(end))
        counts[_CLOSED + CLOSED_BY.index(phase.closed_by)] += 1
        # An agent knows no more of an age than it has seen itself.
        lifetime = end - max(phase.born + shift, self._times.since)
        counts[_LIFETIME] += lifetime
        counts[_BUCKETS + bisect_left(LIFETIME_BOUNDS_MS, lifetime)] += 1

    def _silence(self, phase: Phase, first: int, last: int, end: int, shift: int) -> None:
        """Note the longest silence in each batch."""
        at, idle = self._times.at, self.idle_max
        since = None if phase.quiet_since is None else phase.quiet_since + shift
        if since is None:
            silences = [BUSY_IDLE_MS] * (last + 1 - first)
        else:
            silences = list(range(at[first] - since, at[last] - since + 1, MINUTE_MS))
            silences[last - first :] = [min(end, at[last]) - since]
        known = idle[first : last + 1]
        if any(known):
            silences = [max(old or 0, new) for old, new in zip(known, silences, strict=True)]
        idle[first : last + 1] = silences


def series_of(pod: Pod, times: BatchTimes, shift: int) -> Sequence[Series]:
    """Return what one boot of a pod's agent counts, in the order in which it learned of it."""
    made: dict[SeriesKey, Series] = {}

    def of(key: SeriesKey) -> Series:
        if key not in made:
            made[key] = Series(key, times)
        return made[key]

    for phase in pod.phases:
        begin, end = max(phase.begin + shift, times.since), min(phase.end + shift, times.until)
        if begin < end:
            key = SeriesKey(
                phase.client, phase.broker, phase.connection_class, phase.role, phase.cause
            )
            of(key).add(phase, begin, end, shift)
    for need in pod.expectations:
        begin, end = max(need.begin + shift, times.since), min(need.end + shift, times.until)
        if begin < end:
            name = need.connection_class
            of(SeriesKey(need.client, need.broker, name, name, "")).need(need, begin, end)
    for failure in pod.failures:
        at = failure.at + shift
        if times.since <= at < times.until:
            of(SeriesKey(failure.client, failure.broker, "connecting", "unknown", "")).fail(at)
    for series in made.values():
        series.finish()
    return sorted(made.values(), key=lambda series: (series.first, series.key))
