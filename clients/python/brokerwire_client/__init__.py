"""Send librdkafka's statistics to brokerwire from a Python application.

    from brokerwire_client import send_statistics

    conf = {
        "statistics.interval.ms": 5000,
        "stats_cb": send_statistics("unix:///run/brokerwire/statistics.sock"),
    }

Standard library only: an application may copy this file as `brokerwire_client.py`. The callback
never raises and never blocks: a thread sends, and while the agent is down or slow, documents are
dropped.
"""

from __future__ import annotations

__all__ = ["__version__", "send_statistics"]

import json
import os
import re
import socket
import sys
import threading
from collections import deque
from typing import Callable
from urllib.parse import urlsplit

__version__ = "0.1.0"

# One document of each client that shares the sender. When it is full the oldest one is dropped.
MAX_WAITING = 16
TIMEOUT_SECONDS = 1.0
STATISTICS_PATH = "/api/v1/statistics"
_BEGINNING = re.compile(r'^{\s*"')


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


class _Target:
    """Where documents go; `send` raises an OSError where it cannot."""

    def send(self, document: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close what stays open between two documents: here nothing."""


class _UnixTarget(_Target):
    """A connection that stays open; after an error the next document opens a new one."""

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


class _HttpTarget(_Target):
    """One request per document, each on a new connection."""

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
            # Closing before the response is read would reset the connection.
            sock.recv(4096)


class _Sender:
    """The callback: queues a document for its thread."""

    _thread: threading.Thread | None

    def __init__(self, target: _Target) -> None:
        self._target = target
        self._reset()

    def __call__(self, statistics: str) -> None:
        try:
            if self._pid != os.getpid():
                # After a fork the thread is gone, and the connection belongs to the parent.
                self._target.close()
                self._reset()
            self._waiting.append(statistics)
            self._ready.set()
            self._ensure_thread()
        except Exception:  # noqa: BLE001, S110 (no thread available, or the interpreter is
            # shutting down: the application's client must not see it)
            pass

    def _reset(self) -> None:
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
            # The agent is down or slow. It discards a partial document when the connection closes.
            self._target.close()


def _library_version() -> str | None:
    """Return librdkafka's version from its binding: statistics do not contain it."""
    binding = sys.modules.get("confluent_kafka")
    try:
        return None if binding is None else str(binding.libversion()[0])
    except Exception:  # noqa: BLE001 (a binding that is partly loaded, or a different one)
        return None
