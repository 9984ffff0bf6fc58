"""One read of one source, as the rules of the join need it.

Pure.
"""

from __future__ import annotations

__all__ = ["Read"]

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.core.join_state import Look
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from exporter.core.join_laws import Bracket
    from exporter.core.join_state import Row, SourceState
    from exporter.core.tracker import TrackedConnection
    from exporter.model import SourceReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read of a client's nodes (`fresh`) and of its process's sockets around that."""

    source: str
    state: SourceState
    reading: SourceReading
    fresh: AbstractSet[Row]
    brackets: Mapping[int, Bracket]
    connections: Mapping[int, TrackedConnection]
    addresses_of: Callable[[str], frozenset[str]]

    @property
    def at(self) -> float:
        """When the figures were read."""
        return self.reading.ended_at

    @property
    def series(self) -> object:
        """What is read together: a page, or one librdkafka client's statistics."""
        clients = self.reading.clients
        if len(clients) == 1 and clients[0].library is Library.LIBRDKAFKA:
            return clients[0].kind, clients[0].client_id, clients[0].instance
        return None

    def free_looks(self) -> dict[int, Look]:
        """Return the sockets that have no node yet."""
        joined = self.state.joined
        return {
            cookie: Look(
                cookie,
                bracket,
                self.connections[cookie].reading.remote,
                self.connections[cookie].opened_at,
            )
            for cookie, bracket in self.brackets.items()
            if cookie not in joined
        }

    def free_rows(self) -> list[Row]:
        """Return the nodes that were just read, have counted and have no socket yet."""
        rows = self.state.rows
        return sorted(
            row for row in self.fresh if rows[row].cookie is None and rows[row].counts is not None
        )

    def may_be(self, row: Row, look: Look) -> bool:
        """Whether the address that a client names for a node, if any, allows this socket."""
        name = self.state.rows[row].node.remote_name
        return name is None or _is_address(name, look, self.addresses_of)


def _is_address(name: str, look: Look, addresses_of: Callable[[str], frozenset[str]]) -> bool:
    host, _, port = name.rpartition(":")
    host = host.strip("[]")
    if not port.isdigit() or int(port) != look.remote.port:
        return False
    if host == look.remote.address:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        addresses = addresses_of(host)
        return not addresses or look.remote.address in addresses
    return False
