"""What the join knows of one source: its nodes, the sockets of its process, and what it learned.

Pure.
"""

from __future__ import annotations

__all__ = ["Listener", "SourceState"]

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.core.join_laws import shape_of
from exporter.core.join_memory import Row
from exporter.model import ClientKey, Library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from exporter.core.join_handshakes import Handshake
    from exporter.core.join_laws import Law
    from exporter.core.join_memory import Socket
    from exporter.model import Endpoint, NodeReading, SourceReading


@dataclass(slots=True)
class Listener:
    """What was learned of the brokers' listener at one port, for this process."""

    law: Law | None = None
    told: bool = False
    """Whether the clients themselves told the law."""
    rivals: tuple[Law, ...] = ()
    """Laws that what was read so far does not tell from `law`, that one included."""
    votes: Counter[Law] = field(default_factory=Counter)
    handshakes: list[Handshake] = field(default_factory=list)
    shelved: dict[Law, list[Handshake]] = field(default_factory=dict)
    """What was learned while another law was believed, in case it is believed again."""
    tolerance: int = 0
    """How many bytes a handshake is known to vary by."""
    is_steady: bool = False
    """Whether several sockets have shown that it does not vary at all."""
    searched: object = None
    """What the last search for a handshake was made with, when it found none."""
    refined_by: int = 0
    """How many joined sockets were heard on what varies."""
    version: int = 0
    """Grows with what is known."""

    def believe(self, law: Law) -> None:
        """Take a law for the right one; of another one's handshakes nothing follows."""
        if self.law is not None:
            self.shelved[self.law] = list(self.handshakes)
        self.law = law
        self.handshakes[:] = self.shelved.pop(law, [])
        self.version += 1


@dataclass(slots=True)
class SourceState:
    """All that is remembered of one source."""

    clients: dict[ClientKey, dict[str, Row]] = field(default_factory=dict)
    sockets: dict[int, Socket] = field(default_factory=dict)
    listeners: dict[int, Listener] = field(default_factory=dict)
    places: dict[tuple[int, int | str], set[Endpoint]] = field(default_factory=dict)
    """Where a broker, or the n-th bootstrap server, was found, by port."""
    at_place: dict[Endpoint, set[int | str]] = field(default_factory=dict)
    read_at: dict[object, deque[float]] = field(default_factory=dict)
    """The last reads, by who was read (librdkafka's clients come singly)."""
    in_round: set[object] = field(default_factory=set)
    """Who was read since the round began: a page is a round, librdkafka's clients come singly."""
    owner_votes: Counter[str] = field(default_factory=Counter)
    numbered: int = 0
    read_number: int = 0
    unsettled_reads: int = 0
    """Reads since anything that is not settled changed."""

    @property
    def rows(self) -> Iterator[Row]:
        """All nodes."""
        return (row for rows in self.clients.values() for row in rows.values())

    def take_rows(self, reading: SourceReading) -> list[Row]:
        """Bring the nodes up to this read and return them; those no longer shown are gone."""
        self._drop_restarted(reading)
        fresh, at = [], reading.ended_at
        whole = any(client.library is not Library.LIBRDKAFKA for client in reading.clients)
        shown: dict[ClientKey, set[str]] = {}
        for client in reading.clients:
            key = client.key(reading.source)
            rows = self.clients.setdefault(key, {})
            seen = shown.setdefault(key, set())
            for node in client.nodes:
                row = rows.get(node.node_id)
                if row is None:
                    self.numbered += 1
                    row = rows[node.node_id] = Row(
                        key, node.node_id, client.library, node,
                        shape_of(node, client.kind), self.numbered,
                    )  # fmt: skip
                seen.add(node.node_id)
                row.take(node, client.kind, at)
                fresh.append(row)
        for key, rows in list(self.clients.items()):
            gone = rows.keys() - shown.get(key, set() if whole else rows.keys())
            if gone:
                self.drop([rows[node_id] for node_id in gone])
        return fresh

    def _drop_restarted(self, reading: SourceReading) -> None:
        """Forget what clients counted that have since been made anew: their totals fell.

        A page without one joined socket whose totals fell is another process's: all of it is new,
        also a client that counts just what its forerunner did. librdkafka's nodes begin anew by
        themselves.
        """
        fallen: list[Row] = []
        for client in reading.clients:
            rows = self.clients.get(client.key(reading.source), {})
            if client.library is not Library.LIBRDKAFKA and any(
                _has_fallen(rows.get(node.node_id), node) for node in client.nodes
            ):
                fallen += rows.values()
        if fallen:
            joined = any(socket.row is not None for socket in self.sockets.values())
            self.drop(fallen if joined else list(self.rows))

    def drop(self, rows: Iterable[Row]) -> None:
        """Forget nodes that their client no longer shows."""
        gone = set(rows)
        for row in gone:
            known = self.clients[row.client]
            del known[row.node_id]
            if not known:
                del self.clients[row.client]
            if row.cookie is not None:
                self.part(self.sockets[row.cookie])
        for socket in self.sockets.values() if gone else ():
            for row in gone & socket.pairs.keys():
                del socket.pairs[row]

    def begins_round(self, series: object) -> bool:
        """Note who is read; say whether a new round begins, all having been read once."""
        begins = not self.in_round or series in self.in_round
        self.in_round = {series} if begins else self.in_round | {series}
        return begins

    def part(self, socket: Socket) -> None:
        """End what a socket was taken for."""
        if socket.row is not None:
            socket.row.cookie, socket.row.is_settled = None, False
        socket.row, socket.is_settled, socket.rule = None, False, ""
        self.unsettled_reads = 0

    def forget(self, cookie: int) -> None:
        """Forget a socket."""
        socket = self.sockets.pop(cookie, None)
        if socket is not None:
            self.part(socket)

    def listener(self, port: int) -> Listener:
        """Return what is known of a port."""
        return self.listeners.setdefault(port, Listener())

    def fit_of(self, row: Row, remote: Endpoint) -> int:
        """Say whether a node is known to be at an address: 1 yes, -1 elsewhere, 0 not known.

        A bootstrap server is a place in a list, the same list for all clients of most processes.
        """
        place = row.place
        if place is None:
            return 0
        known = self.places.get((remote.port, place))
        if known:
            return 1 if remote in known else -1
        others = self.at_place.get(remote)
        if others and isinstance(place, int) and any(isinstance(other, int) for other in others):
            return -1
        return 0

    def learn_place(self, row: Row, remote: Endpoint) -> bool:
        """Note where a node was found; say whether that was new."""
        place = row.place
        if place is None:
            return False
        known = self.places.setdefault((remote.port, place), set())
        new = remote not in known
        known.add(remote)
        self.at_place.setdefault(remote, set()).add(place)
        return new


def _has_fallen(known: Row | None, node: NodeReading) -> bool:
    if known is None or known.counts is None or node.outgoing_bytes is None:
        return False
    return node.outgoing_bytes < known.counts.outgoing
