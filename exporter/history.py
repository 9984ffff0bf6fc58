"""The last hours in figures: values of a fixed size, copied into each snapshot.

Pure.
"""

from __future__ import annotations

__all__ = ["FIGURES", "ClientSeries", "ConnectionEvent", "History", "Mark", "Ring"]

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import ConnectionClass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What each step of a ring holds, in this order.
FIGURES = (*(str(each) for each in ConnectionClass), "expected", "opened", "closed")

_EMPTY = -1


class Mark(NamedTuple):
    """Something that explains a step in the figures; `at` as `Snapshot.at`."""

    at: float
    kind: str
    name: str
    text: str


class ConnectionEvent(NamedTuple):
    """A connection was opened, found open, changed its class, or was closed; `at` as above.

    `cookie` is None of a connection that opened and closed between two polls.
    """

    at: float
    kind: str
    cookie: int | None
    client: tuple[str, ...]
    """Its labels as in `ClientBroker`."""
    local: str
    before: str | None
    after: str | None
    detail: str


class Ring:
    """The figures of the last `slots` steps of equal length; a step that was not read is absent."""

    __slots__ = ("_numbers", "_values", "slots", "step_seconds")

    def __init__(self, step_seconds: int, slots: int, like: Ring | None = None) -> None:
        self.step_seconds = step_seconds
        self.slots = slots
        if like is None:
            self._numbers = array("q", [_EMPTY]) * slots
            self._values = array("I", [0]) * (slots * len(FIGURES))
        else:
            self._numbers, self._values = like._numbers[:], like._values[:]  # noqa: SLF001

    def put(self, at: float, counts: array[int], opened: int, closed: int) -> None:
        """Take the counts as of `at`; `opened` and `closed` add up within a step."""
        number = int(at // self.step_seconds)
        index = number % self.slots
        start = index * len(FIGURES)
        before = self._values[start + len(FIGURES) - 2 : start + len(FIGURES)]
        if self._numbers[index] != number:
            self._numbers[index] = number
            before = array("I", (0, 0))
        moved = array("I", (before[0] + opened, before[1] + closed))
        self._values[start : start + len(FIGURES)] = counts + moved

    def rows(self, at: float) -> Iterator[tuple[int, array[int]]]:
        """Give the begin of each step that was read, as `Snapshot.at`, and its figures."""
        last = int(at // self.step_seconds)
        for number in range(max(0, last - self.slots + 1), last + 1):
            index = number % self.slots
            if self._numbers[index] == number:
                start = index * len(FIGURES)
                yield number * self.step_seconds, self._values[start : start + len(FIGURES)]

    def copy(self) -> Ring:
        """Return the same figures, which do not change any more."""
        return Ring(self.step_seconds, self.slots, self)


class ClientSeries(NamedTuple):
    """One client's connections, and the wasted ones of them, at the end of each minute."""

    connections: array[int]
    wasted: array[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a snapshot knows of the time before it.

    `rings` are of growing steps; `clients` is by (client_id, client_kind, process) and has the
    clients of the last minute. Nothing in it is changed after it was made.
    """

    rings: tuple[Ring, ...] = ()
    marks: tuple[Mark, ...] = ()
    events: tuple[ConnectionEvent, ...] = ()
    clients: Mapping[tuple[str, str, str], ClientSeries] = field(default_factory=dict)
