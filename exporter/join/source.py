"""One source of metrics and the sockets of its process: what was read of both, held together.

Pure.
"""

from __future__ import annotations

__all__ = ["WITNESS_GROWTHS", "Source"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.join.clients import Client
from exporter.join.history import LAG, Row
from exporter.join.laws import PLAIN, shape_of
from exporter.join.pairs import MATURE_READS, Pair
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from exporter.join.history import Socket
    from exporter.join.laws import Law
    from exporter.model import ClientKey, ClientReading, Endpoint, SourceReading

# Pairs of one source, laws counted: 55 MiB at first, before most are disproved. With more there is
# no join of that process.
_MOST_PAIRS = 100_000

# Growth in step so often is no coincidence (1 of 13,000 wrong pairs at one read, measured).
WITNESS_GROWTHS = 2


@dataclass(slots=True)
class Source:
    """All that is remembered of one source."""

    clients: dict[ClientKey, Client] = field(default_factory=dict)
    pairs: dict[Socket, dict[Row, list[Pair]]] = field(default_factory=dict)
    """The pairs that nothing disproves."""
    owner: str | None = None
    """The process whose sockets these are, by its owner's key; None until a read shows it."""
    seen_at: dict[ClientKey, float] = field(default_factory=dict)
    open_ends: set[Endpoint] = field(default_factory=set)
    """Listeners that neither encrypt nor ask for a login: a listener speaks one protocol."""
    reads: int = 0
    _begun: float = 0.0
    """The moment before which the last read was certainly not taken."""

    # ---- what was read ------------------------------------------------------------------------

    def take(self, reading: SourceReading) -> None:
        """Bring clients and nodes up to a read; those that a whole page leaves out are gone."""
        self.reads += 1
        self._begun = reading.begun_at - LAG
        times = (reading.begun_at, reading.ended_at)
        # librdkafka reports one client at a time; a page without any says that all are gone.
        is_whole = all(each.library is not Library.LIBRDKAFKA for each in reading.clients)
        shown = {each.key(reading.source): each for each in reading.clients}
        for key, told in shown.items():
            self.seen_at[key] = reading.ended_at
            client = self.clients.get(key)
            if client is None:
                client = self.clients[key] = Client(key, told)
            else:
                before = client.reading
                client.is_steady = told.connection_count is not None and (
                    (before.connection_count, before.connections_created)
                    == (told.connection_count, told.connections_created)
                )
                client.reading = told
            self._take_nodes(client, told, times)
            client.count_reads()
        for key in self.clients.keys() - shown.keys() if is_whole else ():
            self.drop(key)

    def _take_nodes(self, client: Client, told: ClientReading, times: tuple[float, float]) -> None:
        for node in told.nodes:
            row = client.rows.get(node.node_id)
            if row is None:
                row = client.rows[node.node_id] = Row(
                    client.key, node.node_id, told.library, node, shape_of(node, told.kind)
                )
            if not row.take(node, told.kind, self.reads, times):
                # librdkafka makes a broker anew with totals from 0, Java a whole client.
                gone = [row] if told.library is Library.LIBRDKAFKA else list(client.rows.values())
                self._drop_rows(client, gone)
                if told.library is Library.LIBRDKAFKA:
                    fresh = Row(client.key, node.node_id, told.library, node, row.shape)
                    client.rows[node.node_id] = fresh
                    fresh.take(node, told.kind, self.reads, times)
                else:
                    self._take_nodes(client, told, times)
                    return
        left = client.rows.keys() - {node.node_id for node in told.nodes}
        self._drop_rows(client, [client.rows[name] for name in left])

    def drop(self, key: ClientKey) -> None:
        """Forget a client."""
        client = self.clients.pop(key, None)
        self.seen_at.pop(key, None)
        if client is not None:
            self._drop_rows(client, list(client.rows.values()))

    def _drop_rows(self, client: Client, rows: Iterable[Row]) -> None:
        for row in rows:
            client.rows.pop(row.node_id, None)
            for pairs in self.pairs.values():
                pairs.pop(row, None)

    def forget(self, socket: Socket) -> None:
        """Forget a socket that is gone."""
        for row, pairs in self.pairs.pop(socket, {}).items():
            if pairs:
                row.lost_at = self.reads

    # ---- pairs --------------------------------------------------------------------------------

    def advance(self, sockets: Collection[Socket], may_be: Callable[[Row, Socket], bool]) -> None:
        """Hold every socket against every node, as far as both were read."""
        for client in self.clients.values():
            if client.learn_law():
                self._narrow(client, client.law)
        rows = sum(len(client.rows) * len(client.laws) for client in self.clients.values())
        if rows * len(sockets) > _MOST_PAIRS:
            self.pairs.clear()
            return
        for socket in self.pairs.keys() - set(sockets):
            self.forget(socket)
        for client in self.clients.values():
            laws = client.laws
            for socket in sockets:
                known = self.pairs.setdefault(socket, {})
                is_idle = socket.is_idle_since(self._begun)
                for row in client.rows.values():
                    pairs = known.get(row)
                    if pairs is None:
                        allowed = laws if may_be(row, socket) else ()
                        pairs = known[row] = [Pair(socket, row, law) for law in allowed]
                    elif not pairs or (
                        is_idle and row.is_idle and all(pair.is_settled for pair in pairs)
                    ):
                        continue
                    known[row] = [pair for pair in pairs if self._advance(client, pair)]

    def _narrow(self, client: Client, law: Law | None) -> None:
        """Leave one law; None: begin again with all.

        What was read so far allowed for logins that an open client has not.
        """
        for socket, known in self.pairs.items():
            for row in client.rows.values():
                pairs = known.pop(row, None)
                if pairs is None or law is None:
                    continue
                kept = [pair for pair in pairs if pair.law == law != PLAIN]
                known[row] = kept or ([Pair(socket, row, law)] if pairs else [])

    def _advance(self, client: Client, pair: Pair) -> bool:
        """Hold a pair's two sides against each other; return whether it is still possible."""
        pair.advance(may_log_in=client.may_log_in)
        if pair.growths >= WITNESS_GROWTHS and pair.is_equal:
            self.open_ends.add(pair.socket.remote)
            # Heartbeats are alike, and those of two clients may be in step.
            client.is_shown_open |= len(pair.increments) >= WITNESS_GROWTHS
        return pair.is_possible

    # ---- what is left -------------------------------------------------------------------------

    def alive(self, socket: Socket) -> Iterator[Pair]:
        """Return the pairs of a socket that nothing disproves."""
        for pairs in self.pairs.get(socket, {}).values():
            yield from pairs

    def is_mature(self, socket: Socket, client: Client) -> bool:
        """Whether its node must be on the page by now, and was compared with it.

        So are all nodes that have counted anything.
        """
        rows = client.counted_rows
        known = self.pairs.get(socket, {})
        left = [pair for row in rows for pair in known.get(row, ())]
        if not all(pair.is_read for pair in left):
            return False
        reads = max((pair.reads for pair in left), default=MATURE_READS)
        return socket.is_talking and bool(rows) and reads >= MATURE_READS
