"""Something that is done again and again beside a test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["repeating"]


@contextmanager
def repeating(action: Callable[[], None], *, interval: float) -> Iterator[None]:
    """Do it every so many seconds in a thread, first after as long, until the end of the block."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(interval):
            action()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
