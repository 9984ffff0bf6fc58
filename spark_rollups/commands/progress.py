"""How far a long run is, for whoever reads a log: a line now and then while Spark is at work."""

from __future__ import annotations

__all__ = ["tell_of", "words_of"]

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import StatusTracker

_SECONDS: Final = 15.0


def tell_of(
    tracker: StatusTracker, say: Callable[[str], None], *, seconds: float = _SECONDS
) -> threading.Thread:
    """Tell how far Spark's stages are, from a thread that ends with the process or with Spark."""

    def watch() -> None:
        while True:
            time.sleep(seconds)
            try:
                words = words_of(tracker)
            except Exception:  # noqa: BLE001 -- Spark has ended, in one of many ways
                return
            if words:
                say(words)

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    return thread


def words_of(tracker: StatusTracker) -> str:
    """Say how many tasks of the stages under way are done; "" where none is."""
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    if not known:
        return ""
    done = sum(stage.numCompletedTasks for stage in known)
    tasks = sum(stage.numTasks for stage in known)
    numbers = ", ".join(str(stage.stageId) for stage in known)
    return f"at work: stage {numbers}, {done} of {tasks} tasks done"
