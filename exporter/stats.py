"""Send librdkafka's statistics to brokerwire from a Python application.

    from exporter.stats import send_statistics

    conf = {
        "statistics.interval.ms": 5000,
        "stats_cb": send_statistics("unix:///run/brokerwire/statistics.sock"),
    }

This file needs nothing but the standard library: an application that does not want the whole
package copies it. It never raises into the client and never waits: a thread sends, and when
brokerwire is away or slow, documents are dropped.
"""

from __future__ import annotations

__all__ = ["send_statistics"]

import json
import os
import re
import socket
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

# One document of each client that shares the sender; older ones are worth less than new ones.
MAX_WAITING = 16
TIMEOUT_SECONDS = 1.0
_BEGINNING = re.compile(r'^{\s*"')
STATISTICS_PATH = "/api/v1/statistics"


def send_statistics(target: str) -> Callable[[str], None]:
    """Return a `stats_cb` that sends to `unix:///path/of/socket` or to `http://host:port`.

    One sender may serve several clients.

    Raises:
        ValueError: the target is neither.
    """
    parts = urlsplit(target)
    if parts.scheme == "unix" and parts.path and not parts.netloc:
        return _Sender(_UnixTarget(parts.path))
    if parts.scheme == "http" and parts.hostname:
        path = parts.path if parts.path not in ("", "/") else STATISTICS_PATH
        return _Sender(_HttpTarget(parts.hostname, parts.port or 80, path))
    raise ValueError(f"must be unix:///path or http://host:port, not {target!r}")


class _UnixTarget:
    """A connection that stays open; a broken one is made anew for the next document."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._sock: socket.socket | None = None

    def send(self, document: bytes) -> None:
        if self._sock is None:
            self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._sock.settimeout(TIMEOUT_SECONDS)
            self._sock.connect(self._path)
        self._sock.sendall(document + b"\n")

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None


class _HttpTarget:
    """A request for each document, on a connection of its own."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._host = host
        self._port = port
        self._path = path

    def send(self, document: bytes) -> None:
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(document)}\r\n"
            "Connection: close\r\n\r\n"
        )
        with socket.create_connection((self._host, self._port), TIMEOUT_SECONDS) as sock:
            sock.sendall(head.encode() + document)
            # Closing with the answer unread would reset the connection under the request.
            sock.recv(4096)

    def close(self) -> None:
        """Nothing stays open."""


class _Sender:
    """The callback: puts a document down and lets a thread send it."""

    _thread: threading.Thread | None

    def __init__(self, target: _UnixTarget | _HttpTarget) -> None:
        self._target = target
        self._start_anew()

    def __call__(self, statistics: str) -> None:
        try:
            if self._pid != os.getpid():
                # After a fork the thread is gone, and the connection is the parent's.
                self._target.close()
                self._start_anew()
            self._waiting.append(statistics)
            self._ready.set()
            self._ensure_thread()
        except Exception:  # noqa: BLE001, S110 (no thread to be had, an interpreter that ends:
            # whatever it is, the application's client must not hear of it)
            pass

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self._waiting: deque[str] = deque(maxlen=MAX_WAITING)
        self._ready = threading.Event()
        self._starting = threading.Lock()
        self._thread = None

    def _ensure_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="brokerwire-stats", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while True:
            self._ready.wait()
            self._ready.clear()
            while self._waiting:
                self._send(self._waiting.popleft())

    def _send(self, statistics: str) -> None:
        version = _library_version()
        if version is not None:
            first = f'{{"librdkafka_version": {json.dumps(version)}, "'
            statistics = _BEGINNING.sub(lambda _: first, statistics, count=1)
        try:
            self._target.send(statistics.encode(errors="replace"))
        except OSError:
            # Brokerwire is away or does not keep up; half a document ends with its connection.
            self._target.close()


def _library_version() -> str | None:
    """Return librdkafka's version as its binding tells it: the statistics themselves do not."""
    binding = sys.modules.get("confluent_kafka")
    try:
        return None if binding is None else str(binding.libversion()[0])
    except Exception:  # noqa: BLE001 (a binding that is half loaded, or of another kind)
        return None
