"""A librdkafka client on a thread of its own.

The thread is tagged in the shim, so that the threads librdkafka starts for it are tagged too.
"""

from __future__ import annotations

import ctypes
import itertools
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.lab.rdkafka.delivery import Delivery

__all__ = ["POLL_SECONDS", "Hosted"]

POLL_SECONDS: Final = 0.1
_SHIM: Final = ctypes.CDLL(None)
_TAGS: Final = itertools.count(1)


class Hosted:
    """One client under one name, on a thread that alone touches it."""

    kind = ""

    def __init__(self, name: str, properties: dict[str, str], deliver: Delivery) -> None:
        self.name = name
        self.properties = properties
        self.deliver = deliver
        self.tags: list[int] = []
        self.instances: list[Any] = []  # what was leaked stays when the first is closed
        self.last_error: str | None = None
        self.stopping = False
        self._closed = False
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]]] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._run, name=name, daemon=True).start()
        self.ask(self.open)

    # Below, what runs on the caller's thread.

    def ask(self, work: Callable[[], Any], *, wait: bool = True) -> Any:
        """Do `work` on the client's thread; its exception becomes the caller's."""
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._tasks.put((work, answer))
        if not wait:
            return None
        result = answer.get()
        if isinstance(result, Exception):
            raise result
        return result

    def status(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "instances": len(self.instances),
            "last_error": self.last_error,
            "statistics_delivered": self.deliver.delivered,
            "statistics_error": self.deliver.last_error,
        }

    def owners(self) -> Iterable[dict[str, Any]]:
        client_id = self.properties["client.id"]
        for instance, tag in enumerate(self.tags):
            yield {
                "tag": tag,
                "name": self.name,
                "kind": self.kind,
                "client_id": client_id,
                "instance": instance,
            }

    def close(self) -> None:
        self.stopping = True
        self.ask(self._close)

    # Below, what runs on the client's thread.

    def open(self) -> None:
        self.instances.append(self.tagged(self.make))

    def make(self) -> Any:
        raise NotImplementedError

    def tagged(self, make: Callable[[], Any]) -> Any:
        tag = next(_TAGS)
        self.tags.append(tag)
        _SHIM.lab_set_tag(tag)
        return make()

    def poll_once(self) -> None:
        raise NotImplementedError

    def shut(self) -> None:
        """Do what the library has for an orderly end; dropping the object does the rest."""

    def configuration(self) -> dict[str, Any]:
        return {**self.properties, "stats_cb": self.deliver, "error_cb": self._note}

    def _note(self, error: Any) -> None:
        self.last_error = str(error)

    def _close(self) -> None:
        self.shut()
        del self.instances[:1]
        self._closed = not self.instances

    def _run(self) -> None:
        while not self._closed:
            try:
                work, answer = self._tasks.get_nowait()
            except queue.Empty:
                if self.instances:
                    self.poll_once()
                else:
                    time.sleep(0.01)
                continue
            try:
                result: Any = work()
            except Exception as error:  # noqa: BLE001 - handed to the caller
                result = error
            answer.put(result)
