"""Keeps the last hours in memory of a fixed size: 5 s steps for an hour, minutes for six hours.

Pure.
"""

from __future__ import annotations

__all__ = ["MOST_CLIENTS", "MOST_MARKS", "Recorder"]

from array import array
from collections import deque
from typing import TYPE_CHECKING

from exporter.history import ClientSeries, History, Mark, Ring
from exporter.model import WASTED_CLASSES, ConnectionClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exporter.snapshot import ClientBroker, Expectation, Finding

MOST_MARKS = 200
# Those with the most connections: 200 clients of 60 minutes are 50 KiB.
MOST_CLIENTS = 200
_MINUTE, _HOUR = 60, 3600
_STEP_SECONDS = 5
_HOURS = 6

_FindingKey = tuple[str, tuple[tuple[str, str], ...]]


class Recorder:
    """Takes the figures of each poll; `history` is what a snapshot may keep."""

    def __init__(self) -> None:
        self._rings = (
            Ring(_STEP_SECONDS, _HOUR // _STEP_SECONDS),
            Ring(_MINUTE, _HOURS * _HOUR // _MINUTE),
        )
        self._marks: deque[Mark] = deque(maxlen=MOST_MARKS)
        self._findings: dict[_FindingKey, Finding] | None = None
        # Replaced by a poll that counts, never changed: the same mapping has the same counts.
        self._by_class: Mapping[ClientBroker, Mapping[ConnectionClass, int]] | None = None
        self._expected: Mapping[ClientBroker, Expectation] | None = None
        self._counts = array("I")
        self._counted: tuple[int, int] | None = None
        self._minute = -1
        self._clients: dict[tuple[str, str, str], ClientSeries] = {}

    def take(
        self,
        at: float,
        by_class: Mapping[ClientBroker, Mapping[ConnectionClass, int]],
        expected: Mapping[ClientBroker, Expectation],
        counted: tuple[int, int],
        findings: Iterable[Finding],
    ) -> History:
        """Take one poll and return everything since `_HOURS` ago.

        `counted`: how many connections have opened and closed since the agent's start.
        """
        if self._by_class is not by_class or self._expected is not expected:
            self._by_class, self._expected = by_class, expected
            self._counts = _counted(by_class, expected)
        # What closed before the first poll is none of this history.
        before = self._counted or counted
        self._counted = counted
        opened, closed = counted[0] - before[0], counted[1] - before[1]
        for ring in self._rings:
            ring.put(at, self._counts, opened, closed)
        self._note(at, findings)
        self._end_minute(at, by_class)
        return History(
            rings=tuple(ring.copy() for ring in self._rings),
            marks=tuple(self._marks),
            clients=self._clients,
        )

    def _note(self, at: float, findings: Iterable[Finding]) -> None:
        """Mark where a finding begins and ends, and where the agent itself began."""
        now = {(each.name, tuple(sorted(each.labels.items()))): each for each in findings}
        before = self._findings
        self._findings = now
        if before is None:
            self._marks.append(Mark(at, "agent", "", "brokerwire started"))
            before = {}
        for key in now.keys() - before.keys():
            self._marks.append(Mark(at, "begin", key[0], now[key].summary))
        for key in before.keys() - now.keys():
            self._marks.append(Mark(at, "end", key[0], before[key].summary))

    def _end_minute(
        self, at: float, by_class: Mapping[ClientBroker, Mapping[ConnectionClass, int]]
    ) -> None:
        minute = int(at // _MINUTE)
        if minute == self._minute:
            return
        follows = minute == self._minute + 1
        self._minute = minute
        held: dict[tuple[str, str, str], tuple[int, int]] = {}
        for pair, counts in by_class.items():
            connections, wasted = held.get(pair[:3], (0, 0))
            connections += sum(counts.values())
            wasted += sum(counts[each] for each in WASTED_CLASSES)
            held[pair[:3]] = connections, wasted
        most = sorted(held, key=lambda client: held[client], reverse=True)[:MOST_CLIENTS]
        # Replaced as a whole: snapshots keep the one before.
        self._clients = {
            client: _appended(self._clients.get(client) if follows else None, *held[client])
            for client in most
        }


def _counted(
    by_class: Mapping[ClientBroker, Mapping[ConnectionClass, int]],
    expected: Mapping[ClientBroker, Expectation],
) -> array[int]:
    sums = dict.fromkeys(ConnectionClass, 0)
    for counts in by_class.values():
        for name, count in counts.items():
            sums[name] += count
    return array("I", (*sums.values(), sum(each.count for each in expected.values())))


def _appended(series: ClientSeries | None, connections: int, wasted: int) -> ClientSeries:
    if series is None:
        return ClientSeries(array("I", (connections,)), array("I", (wasted,)))
    keep = _HOUR // _MINUTE - 1
    return ClientSeries(
        series.connections[-keep:] + array("I", (connections,)),
        series.wasted[-keep:] + array("I", (wasted,)),
    )
