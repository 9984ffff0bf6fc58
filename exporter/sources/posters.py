"""Who posts to the agent: the process at the other end of a connection on this host.

HTTP does not say who sends. The kernel does: the sender's own socket has the agent's port as its
remote port, and the ladder of ownership finds the process that holds it.
"""

from __future__ import annotations

__all__ = ["Posters"]

import threading
from typing import TYPE_CHECKING

from exporter.errors import SourceError
from exporter.model import Endpoint
from exporter.settings import PortRange
from exporter.sources.processes import OwnerLadder
from exporter.sources.sock_diag import NetlinkSocketTable

if TYPE_CHECKING:
    from collections.abc import Iterable


class Posters:
    """Finds senders; `ports` are those that the agent listens on. Made for any thread."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = tuple(PortRange(port, port) for port in sorted(set(ports)) if port > 0)
        self._lock = threading.Lock()
        self._table: NetlinkSocketTable | None = None
        # Without rules: whoever may post may be told apart.
        self._ladder = OwnerLadder(())

    def pid_of(self, address: str, port: int) -> int | None:
        """Return the process that holds this end of a connection to the agent, where it shows.

        It must be asked while the connection is open. None: another host, another PID namespace,
        or a process that may not be looked into.
        """
        if not self._ports:
            return None
        with self._lock:
            try:
                if self._table is None:
                    self._table = NetlinkSocketTable(self._ports, events=False)
                sockets = self._table.read().sockets
            except SourceError:
                return None
            sender = Endpoint(address, port)
            for reading in sockets:
                if reading.local == sender:
                    owner = self._ladder.owners_of(sockets).get(reading.cookie)
                    return None if owner is None else owner.pid
        return None

    def close(self) -> None:
        """Let go of the kernel."""
        with self._lock:
            if self._table is not None:
                self._table.close()
                self._table = None
            self._ladder.close()
