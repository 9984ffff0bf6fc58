"""Where the statistics of the librdkafka process go: a file, a Unix socket, or an HTTP POST."""

from __future__ import annotations

import socket
import threading
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["Delivery"]


class Delivery:
    """Hands each statistics document to whoever was named on the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.delivered = 0
        self.last_error: str | None = None

    def __call__(self, document: str) -> None:
        """Deliver one document; a receiver that is away is a case to test, not an error."""
        line = document.replace("\n", " ").encode() + b"\n"
        with self._lock:
            try:
                self._deliver(line)
                self.delivered += 1
            except OSError as error:
                self._socket = None
                self.last_error = repr(error)

    def _deliver(self, line: bytes) -> None:
        if self._options.file:
            with open(self._options.file, "ab") as target:  # noqa: PTH123 - a path as text
                target.write(line)
        if self._options.socket:
            if self._socket is None:
                fresh = socket.socket(socket.AF_UNIX)
                fresh.settimeout(2)
                fresh.connect(self._options.socket)
                self._socket = fresh
            self._socket.sendall(line)
        if self._options.post:
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(self._options.post, line, headers)
            with urllib.request.urlopen(request, timeout=2) as response:
                response.read()
