"""How a command that runs until it is told learns that it has been told."""

from __future__ import annotations

__all__ = ["StopSignals"]

import os
import select
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType

_STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Turns SIGTERM and SIGINT into the end of a wait. Use it in the main thread.

    The handler asks nothing of Spark: the main thread's connection to the JVM may be in the middle
    of an answer, and a second question on it is an error. A second signal ends the process at once.
    """

    def __init__(self) -> None:
        self._name = ""
        self._before: dict[signal.Signals, Any] = {}
        self._end, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        for number in _STOPPING:
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._end)
        os.close(self._bell)

    @property
    def told(self) -> str:
        """The name of the signal that has come, or ""."""
        return self._name

    def wait(self, seconds: float) -> str:
        """Wait for a signal and return its name; "" where the time was over first."""
        # What was written is left there: every later wait is over at once.
        select.select([self._end], [], [], seconds)
        return self._name

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._name = signal.Signals(number).name
        for each in _STOPPING:
            signal.signal(each, signal.SIG_DFL)
        with suppress(BlockingIOError):
            os.write(self._bell, b"x")
