"""How a command that runs until it is told ends: by a signal, cleanly, and in time."""

from __future__ import annotations

__all__ = ["Deadline", "StopSignals"]

import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType

SECONDS = 0.9
STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Turns SIGTERM and SIGINT into the end of a wait. Use it in the main thread.

    A pipe and not an Event: a handler runs between two steps of the wait itself, and would wait
    for the very lock that the wait holds. Python itself writes to the pipe, and not the handler:
    where the kernel gives the signal to another thread, the wait is all that keeps the handler,
    which runs in the main thread, from running.
    """

    def __init__(self) -> None:
        self._name = ""
        self._before: dict[signal.Signals, Any] = {}
        self._bell_before = -1
        self._end, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        # A full pipe is one that has been told.
        self._bell_before = signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        for number in STOPPING:
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._bell_before)
        os.close(self._end)
        os.close(self._bell)

    @property
    def told(self) -> bool:
        """Whether a signal has come."""
        return bool(self._name)

    def wait(self, seconds: float | None = None, *, beside: int | None = None) -> str:
        """Wait for a signal and return its name; "" where the time was over first.

        With `beside`, a descriptor that can be read ends the wait, too.
        """
        # What was written is left there: every later wait is over at once.
        awaited = [self._end] if beside is None else [self._end, beside]
        select.select(awaited, [], [], seconds)
        return self._name

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._name = signal.Signals(number).name


class Deadline:
    """Ends the process where cleaning up takes longer than anybody waits for.

    A thread that hangs in a name look-up or in a dead file system cannot be stopped from outside;
    SIGTERM must work all the same.
    """

    def __init__(self, seconds: float = SECONDS, exit_code: int = 0) -> None:
        self._timer = threading.Timer(seconds, _leave, (exit_code,))
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _leave(exit_code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
