"""Finds the process that posts to the agent: the other end of a local connection.

HTTP does not say who sends. The kernel does: the sender's own socket has the agent's port as its
remote port.
"""

from __future__ import annotations

__all__ = ["Posters"]

from typing import TYPE_CHECKING

from exporter.config.settings import PortRange
from exporter.model import Endpoint
from exporter.processes.holders import Holders

if TYPE_CHECKING:
    from collections.abc import Iterable


class Posters:
    """Finds senders; `ports` are those that the agent listens on. Made for any thread."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = tuple(PortRange(port, port) for port in sorted(set(ports)) if port > 0)
        self._holders = Holders(self._ports)

    def pid_of(self, address: str, port: int) -> int | None:
        """Return the process that holds this end of a connection to the agent, where it shows.

        It must be asked while the connection is open. None: another host, another PID namespace,
        or a process that may not be looked into.
        """
        if not self._ports:
            return None
        sender = Endpoint(address, port)
        return self._holders.lone_pid(lambda reading: reading.local == sender)

    def close(self) -> None:
        """Let go of the kernel."""
        self._holders.close()
