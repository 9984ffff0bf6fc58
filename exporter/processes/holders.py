"""Finds the process that holds a local socket: the socket table and the owner lookup together.

For sockets that are no client's to a broker: who posts to the agent, who serves a page.
"""

from __future__ import annotations

__all__ = ["Holders"]

import threading
from typing import TYPE_CHECKING

from exporter.errors import SourceError
from exporter.kernel.sock_diag import CONNECTIONS, NetlinkSocketTable
from exporter.processes.owners import OwnerLadder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exporter.config.settings import PortRange
    from exporter.model import SocketReading


class Holders:
    """Finds holders among the sockets in `states` to remote `ports` (none: all). For any thread."""

    def __init__(self, ports: Sequence[PortRange] = (), *, states: int = CONNECTIONS) -> None:
        self._ports = tuple(ports)
        self._states = states
        self._lock = threading.Lock()
        self._table: NetlinkSocketTable | None = None
        # Without rules: whoever it is may be distinguished.
        self._ladder = OwnerLadder(())

    def lone_pid(self, is_wanted: Callable[[SocketReading], bool]) -> int | None:
        """Return the one process that holds all sockets that are wanted.

        None: there is no such socket, several processes hold them, or one is out of sight (another
        PID namespace, no permission, the agent itself).
        """
        with self._lock:
            wanted = tuple(filter(is_wanted, self._sockets()))
            owners = self._ladder.owners_of(wanted)
        pids = {owners[reading.cookie].pid for reading in wanted if reading.cookie in owners}
        return pids.pop() if len(pids) == 1 else None

    def close(self) -> None:
        """Let go of the kernel, and watch no process any longer."""
        with self._lock:
            self._forget_table()
            self._ladder.close()

    def _sockets(self) -> Sequence[SocketReading]:
        try:
            if self._table is None:
                self._table = NetlinkSocketTable(self._ports, events=False, states=self._states)
            return self._table.read().sockets
        except SourceError:
            # Where netlink is refused nobody is found; the sockets' own source says so.
            self._forget_table()
            return ()

    def _forget_table(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None
