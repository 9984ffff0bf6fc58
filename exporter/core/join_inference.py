"""One read of one source, and what it suggests: which nodes the open sockets might be.

Laws are told or voted for, nodes are looked up, handshakes are learned.
Pure.
"""

from __future__ import annotations

__all__ = ["Read", "learn", "look_up", "tell_laws"]

import ipaddress
from collections import deque
from typing import TYPE_CHECKING

from exporter.core.join_candidates import find_grown, find_named, find_totals, vote
from exporter.core.join_handshakes import ZERO
from exporter.core.join_laws import LAWS, PLAIN, law_told
from exporter.core.join_learning import elect_law, learn_handshakes
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from exporter.core.join_memory import Row, Socket
    from exporter.core.join_state import Listener, SourceState
    from exporter.model import SourceReading

# Reads of a source that are remembered to hold a later one against.
REMEMBERED_READS = 9

# What a growth weighs for a law: a producer's own records are not told, it agrees with several.
SURE_VOTE = 3
UNSURE_VOTE = 1

# Sockets that are asked for their law at one read, and nodes of one figure that are tried.
VOTERS = 64
FEW = 8


class Read:
    """One read of one source, as the parts of the join need it."""

    def __init__(
        self,
        state: SourceState,
        reading: SourceReading,
        addresses_of: Callable[[str], frozenset[str]],
    ) -> None:
        clients = reading.clients
        single = len(clients) == 1 and clients[0].library is Library.LIBRDKAFKA
        self.state = state
        self.at = reading.ended_at
        self.series = (clients[0].kind, clients[0].client_id, clients[0].instance) if single else ()
        self.fresh = state.take_rows(reading)
        self._addresses_of = addresses_of
        state.read_at.setdefault(self.series, deque(maxlen=REMEMBERED_READS)).append(self.at)

    def free_rows(self) -> list[Row]:
        """Return the nodes that were just read, have counted and have no socket for certain."""
        return [row for row in self.fresh if row.counts is not None and not row.is_settled]

    def may_be(self, row: Row, socket: Socket) -> bool:
        """Whether the address that a client names for a node, if any, allows this socket."""
        name = row.node.remote_name
        if name is None:
            return True
        host, _, port = name.rpartition(":")
        host = host.strip("[]")
        if not port.isdigit() or int(port) != socket.remote.port:
            return False
        if host == socket.remote.address:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            addresses = self._addresses_of(host)
            return not addresses or socket.remote.address in addresses
        return False


def tell_laws(state: SourceState, reading: SourceReading, sockets: Sequence[Socket]) -> None:
    """Believe the law that the clients tell of, at the ports to which they are connected."""
    law = law_told(reading.clients)
    if law is None:
        return
    for port in {socket.remote.port for socket in sockets}:
        known = state.listener(port)
        if known.law is None or (not known.told and known.law[:2] != law[:2]):
            known.rivals = ()
            known.believe(law)
        known.told = True


def look_up(read: Read, sockets: Sequence[Socket], rows: Sequence[Row]) -> None:
    """Find the nodes that open sockets might be, as far as this read tells anything new."""
    state = read.state
    for port, there in _by_port(sockets).items():
        known = state.listener(port)
        if known.law is None or known.rivals:
            _vote(read, known, there, rows)
        law = known.law or PLAIN
        if known.law is not None:
            for socket in there:
                for row in [row for row, pair in socket.pairs.items() if pair.law != law]:
                    del socket.pairs[row]
            find_grown(state, read.series, rows, there, law, read.may_be)
        handshakes = [*known.handshakes, *([ZERO] if law == PLAIN else [])]
        # One librdkafka client's nodes come at a time, and they are few.
        new = [
            each for each in there if read.series or each.moved or each.looked_up != known.version
        ]
        old = [] if read.series else [each for each in there if each not in set(new)]
        find_totals(state, rows, new, law, handshakes, read.may_be)
        changed = [row for row in rows if row.moved or row.reads <= 1]
        find_totals(state, changed, old, law, handshakes, read.may_be)
        find_named(rows, there, law, read.may_be)
        for socket in there:
            socket.looked_up = known.version


def _vote(read: Read, known: Listener, sockets: Sequence[Socket], rows: Sequence[Row]) -> None:
    """Let each socket that grew like some node under a law vote for that law, once a read."""
    laws = dict.fromkeys(law for row in rows for law in LAWS[row.library])
    for law in laws:
        for sure in vote(read.state, read.series, rows, sockets[:VOTERS], law, FEW):
            known.votes[law] += SURE_VOTE if sure else UNSURE_VOTE
    elect_law(known)


def learn(read: Read, sockets: Sequence[Socket]) -> bool:
    """Learn handshakes, and look up the nodes that sockets have by those; say whether any."""
    rows = [row for row in read.state.rows if row.counts is not None and not row.is_settled]
    learned = False
    for port, there in _by_port(sockets).items():
        known = read.state.listener(port)
        found = learn_handshakes(read.state, port, there, rows)
        if found and known.law is not None:
            find_totals(read.state, rows, there, known.law, found, read.may_be)
            for socket in there:
                socket.looked_up = known.version
            learned = True
    return learned


def _by_port(sockets: Iterable[Socket]) -> dict[int, list[Socket]]:
    ports: dict[int, list[Socket]] = {}
    for socket in sockets:
        ports.setdefault(socket.remote.port, []).append(socket)
    return ports
