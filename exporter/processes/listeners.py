"""Finds the process that serves a local metrics page: the page is about its clients.

Two processes that run the same clients have the same figures for a while; who listens on the page's
port says whose they are. A page behind another process (a proxy, a port forward) names that one,
which holds no connection to a broker: then the figures decide as before.
"""

from __future__ import annotations

__all__ = ["Listeners"]

import ipaddress
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from exporter.kernel.sock_diag import LISTENERS
from exporter.processes.holders import Holders

if TYPE_CHECKING:
    from collections.abc import Callable

# A process that is replaced on the same port is known again after so long.
LOOK_SECONDS = 10.0

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Listeners:
    """Finds the process that listens where a URL points. Not for use by several threads."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        self._clock = clock
        self._due = float("-inf")
        self._pid: int | None = None
        self._holders = Holders(states=LISTENERS)

    def pid(self) -> int | None:
        """Return the listener's pid; None: another host, out of sight, or nobody listens."""
        now = self._clock()
        if now >= self._due:
            self._due = now + LOOK_SECONDS
            self._pid = self._look() if self._is_local() else None
        return self._pid

    def close(self) -> None:
        """Let go of the kernel."""
        self._holders.close()

    def _is_local(self) -> bool:
        if self._host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self._host).is_loopback
        except ValueError:
            return False

    def _look(self) -> int | None:
        # Two that share a port on different addresses: the page is one's, nobody says whose.
        return self._holders.lone_pid(lambda reading: reading.local.port == self._port)
