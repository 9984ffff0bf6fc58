"""How much of what is pushed a poll joins: its senders take turns, each within its share."""

from __future__ import annotations

__all__ = ["Turns"]

import time
from itertools import zip_longest
from typing import TYPE_CHECKING

from exporter.processor_share import ProcessorShare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exporter.model import SourceReading

    Sender = int | str

# Of a processor: a process may invent any number of clients and sockets.
_SHARE = 1 / 4


class Turns:
    """Joins a reading of each sender in turn; for one thread."""

    def __init__(
        self,
        interval: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Allow joins their share of each poll, `interval` seconds apart."""
        self._most = _SHARE * interval
        self._clock, self._cpu_clock = clock, cpu_clock
        self._shares: dict[Sender, ProcessorShare] = {}

    def join(
        self, readings: Iterable[SourceReading], join_one: Callable[[SourceReading], None]
    ) -> list[SourceReading]:
        """Join these readings as far as there is time; return the others.

        The first of each sender is joined at every poll, unless its last ones took more than that.
        """
        senders: dict[Sender, list[SourceReading]] = {}
        for reading in readings:
            # A process is one sender whichever way it sends.
            senders.setdefault(reading.sender_pid or reading.source, []).append(reading)
        self._follow(senders)
        left = []
        end = self._cpu_clock() + self._most
        for number, turn in enumerate(zip_longest(*senders.values())):
            for sender, reading in zip(senders, turn, strict=True):
                if reading is None:
                    continue
                begun = self._cpu_clock()
                if (number and begun > end) or self._shares[sender].rest():
                    left.append(reading)
                    continue
                join_one(reading)
                self._shares[sender].spend(self._cpu_clock() - begun)
        return left

    def _follow(self, senders: Iterable[Sender]) -> None:
        """Keep the shares of these senders, and of those that have taken too much."""
        before = self._shares
        self._shares = {sender: share for sender, share in before.items() if share.rest()}
        for sender in senders:
            self._shares[sender] = before.get(sender) or ProcessorShare(
                _SHARE, burst_seconds=self._most, clock=self._clock
            )
