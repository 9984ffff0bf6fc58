"""The line protocol between the lab and the processes that host Kafka clients.

A command is `id TAB verb TAB key=value ...`, values percent-encoded; an answer is one line of
JSON with the id of its command. Answers come in the order in which commands end.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from tests.lab.errors import LabError

if TYPE_CHECKING:
    from tests.lab.processes import ManagedProcess

__all__ = ["Control"]

_READY = "ready"


class Control:
    """Sends commands to one process and hands each answer to the caller that waits for it."""

    def __init__(self, process: ManagedProcess, *, timeout: float = 60.0) -> None:
        """Wait until the process says that it is ready."""
        self._process = process
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[str, SimpleQueue[dict[str, Any] | None]] = {_READY: SimpleQueue()}
        threading.Thread(target=self._read, name=f"{process.name}-answers", daemon=True).start()
        self.greeting = self._await(_READY, "start", timeout)

    def call(self, verb: str, *, timeout: float = 60.0, **arguments: Any) -> Any:
        """Send a command, wait for its answer and return its result.

        An argument that is `None` is left out; a mapping `p` becomes client properties.
        """
        number = str(next(self._ids))
        properties = arguments.pop("p", {})
        pairs = {**arguments, **{f"p.{key}": value for key, value in properties.items()}}
        line = "\t".join(
            [number, verb, *(f"{k}={_encode(v)}" for k, v in pairs.items() if v is not None)]
        )
        with self._lock:
            self._waiting[number] = SimpleQueue()
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError) as error:
                raise self._process.failure(f"cannot be told to {verb}") from error
        return self._await(number, verb, timeout)

    def _await(self, number: str, verb: str, timeout: float) -> Any:
        try:
            answer = self._waiting[number].get(timeout=timeout)
        except Empty:
            raise self._process.failure(f"no answer to {verb} in {timeout:g} s") from None
        finally:
            del self._waiting[number]
        if answer is None:
            raise self._process.failure(f"ended before it answered {verb}")
        if answer["error"] is not None:
            raise LabError(f"{self._process.name}: {verb}: {answer['error']}")
        return answer["result"]

    def _read(self) -> None:
        for line in self._process.stdout:
            if not line.startswith(b'{"id"'):  # a Java agent's greeting
                continue
            answer = json.loads(line)
            waiting = self._waiting.get(answer["id"])
            if waiting is not None:  # else its caller has given up
                waiting.put(answer)
        with self._lock:
            for waiting in list(self._waiting.values()):
                waiting.put(None)


def _encode(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return quote_plus(",".join(str(item) for item in value))
    return quote_plus(str(value))
