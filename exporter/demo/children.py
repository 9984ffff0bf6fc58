"""Starting and ending demo processes, from the parent's side."""

from __future__ import annotations

__all__ = ["Child", "Children"]

import json
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from exporter.errors import BrokerwireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

READY_SECONDS = 20.0
END_SECONDS = 0.4
LOOK_SECONDS = 0.1
MODULE = "exporter.demo.child"


@dataclass(frozen=True, slots=True)
class Child:
    """One demo process; `told` is what it said when it was ready."""

    name: str
    process: subprocess.Popen[str]
    told: Mapping[str, Any]

    def go(self, options: Mapping[str, Any]) -> None:
        """Let it begin; one that has ended already is told by `has_ended`."""
        if self.process.stdin is not None:
            try:
                self.process.stdin.write(json.dumps(options) + "\n")
                self.process.stdin.flush()
            except OSError:
                return

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself, which none is meant to."""
        return self.process.poll() is not None


class Children:
    """All demo processes; leaving the block ends them, and none is left unreaped."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._stderr = None if verbose else subprocess.DEVNULL

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, names: Iterable[str], is_over: Callable[[], bool]) -> dict[str, Child]:
        """Start parts side by side and wait until each is ready; nobody when `is_over` by then.

        Call it in the main thread: the kernel ends a child with the thread that started it.

        Raises:
            BrokerwireError: one ended or did not get ready in time.
        """
        begun = {name: self._begin(name) for name in names}
        deadline = time.monotonic() + READY_SECONDS
        ready = {}
        for name, process in begun.items():
            told = _told(name, process, deadline, is_over)
            if told is None:
                return {}
            ready[name] = Child(name, process, told)
        return ready

    def stop(self) -> None:
        """End all, first politely, and wait for every one."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + END_SECONDS
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        self._processes.clear()

    def _begin(self, name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 -- our own interpreter and our own module
            # -P: a folder called exporter where the user happens to stand is not ours.
            [sys.executable, "-P", "-m", MODULE, name, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            # Ctrl-C goes to a whole process group; the children end when the parent says so.
            process_group=0,
        )
        self._processes.append(process)
        return process


def _told(
    name: str, process: subprocess.Popen[str], deadline: float, is_over: Callable[[], bool]
) -> dict[str, Any] | None:
    """Return what a part says when it is ready; None where nobody wants to know any more."""
    if process.stdout is None:
        raise AssertionError("a child without output")
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not selector.select(LOOK_SECONDS):
            if is_over():
                return None
            if time.monotonic() > deadline:
                raise _not_ready(name)
    line = process.stdout.readline()
    if not line:
        raise _not_ready(name)
    told: dict[str, Any] = json.loads(line)
    return told


def _not_ready(name: str) -> BrokerwireError:
    return BrokerwireError(
        f"the demo's {name} did not get ready; `brokerwire demo --verbose` shows why"
    )
