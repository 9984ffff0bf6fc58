"""Which node of which client each socket is: what the byte counts leave no choice for.

Each read of a client's figures is held against the sockets of its process; what every feasible
assignment shares is stated, and taken back when a later read contradicts it (`join_source`).
Pure: all state is values, all times come with the samples.
"""

from __future__ import annotations

__all__ = ["Attributor"]

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.join.claims import Claims
from exporter.join.history import Socket
from exporter.join.laws import PLAIN
from exporter.join.source import Source
from exporter.model import (
    Attribution,
    ClientKey,
    ClientKind,
    Confidence,
    Library,
    NodeReading,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from exporter.connections.tracker import TrackedConnection
    from exporter.join.claims import Claim
    from exporter.join.history import Row
    from exporter.join.pairs import Pair
    from exporter.model import JoinSample, SourceReading

# A socket is dated by the poll that first saw it: it may have been opened so much earlier.
OPENED_SLACK = 2.0

# A socket that may be more nodes than these is not known at all.
MOST_EQUALS = 32


_UNKNOWN_NODE = NodeReading(
    node_id="", role=Role.UNKNOWN, broker_id=None, outgoing_bytes=None, incoming_bytes=None
)


class Attributor:
    """The join, carried from read to read of every source."""

    def __init__(self) -> None:
        # By who sent it, too: nobody's statistics replace those of another process.
        self._sources: dict[tuple[str, int | None], Claims] = {}
        self._sockets: dict[int, Socket] = {}
        self._attributions: dict[int, Attribution] = {}
        self._outlived: set[int] = set()

    # ---- queries ------------------------------------------------------------------------------

    @property
    def attributions(self) -> Mapping[int, Attribution]:
        """What is known, by cookie."""
        return self._attributions

    @property
    def outlived(self) -> AbstractSet[int]:
        """Sockets that were a client's and fit none of its nodes any more.

        A second client with the same client.id takes over the metrics of the first one.
        """
        return self._outlived

    @property
    def senders(self) -> AbstractSet[tuple[str, int | None]]:
        """The sources that are remembered, each with the pid of its sender."""
        return self._sources.keys()

    def is_claimable(self, cookie: int) -> bool:
        """Whether a socket that is no client's yet may still turn out to be some node."""
        socket = self._sockets.get(cookie)
        if socket is None:
            return False
        return any(
            socket in known.source.pairs and known.may_claim(socket)
            for known in self._sources.values()
        )

    def has_learned(self, client: ClientKey) -> bool:
        """Whether a client has talked to a broker under its real id."""
        return any(
            row.is_learned and bool(row.node.incoming_bytes)
            for (name, _sender), known in self._sources.items()
            if name == client.source and client in known.source.clients
            for row in known.source.clients[client].rows.values()
        )

    # ---- updates ------------------------------------------------------------------------------

    def update(
        self,
        sample: JoinSample,
        connections: Mapping[int, TrackedConnection],
        addresses_of: Callable[[str], frozenset[str]] = lambda _host: frozenset(),
    ) -> None:
        """Take one read of one source.

        `addresses_of` resolves a host name that a client gave (librdkafka's node names).
        """
        reading = sample.reading
        key = reading.source, reading.sender_pid
        known = self._sources.get(key)
        if known is None:
            self._forget_ended(reading.source)
            known = self._sources[key] = Claims(Source())
        source = known.source
        source.take(reading)
        senders = {pid for _name, pid in self._sources}
        owners = _owners(source, reading, connections, senders)
        sockets = self._take_sockets(sample, connections, owners)
        source.advance(sockets, lambda row, socket: _may_be(row, socket, addresses_of))
        self._state(known, sockets, needs_witness=reading.sender_pid is None)
        self._refresh(reading.source, source)

    def release(self, cookie: int) -> None:
        """Free the node of a socket that is dead but still there (a ghost)."""
        self._outlived.discard(cookie)
        socket = self._sockets.pop(cookie, None)
        if socket is not None:
            for known in self._sources.values():
                known.source.forget(socket)

    def forget(self, cookies: Iterable[int]) -> None:
        """Forget sockets that are gone."""
        for cookie in set(cookies):
            self.release(cookie)
            self._attributions.pop(cookie, None)

    def forget_silent(self, source: str, before: float) -> None:
        """Forget librdkafka clients that have sent nothing since `before`."""
        for name, known in list(self._sources.items()):
            if name[0] != source:
                continue
            for key in [key for key, at in known.source.seen_at.items() if at < before]:
                known.source.drop(key)
                for cookie in known.held_by(key):
                    self._attributions.pop(cookie, None)
            if not known.source.clients:
                del self._sources[name]

    def _forget_ended(self, name: str) -> None:
        """Forget senders under a name that have no sockets left: the process was restarted."""
        for key, known in list(self._sources.items()):
            if key[0] == name and not known.source.pairs:
                del self._sources[key]

    # ---- the sockets --------------------------------------------------------------------------

    def _take_sockets(
        self,
        sample: JoinSample,
        connections: Mapping[int, TrackedConnection],
        owners: AbstractSet[str],
    ) -> list[Socket]:
        """Bring the sockets that may be of this source's process up to this read."""
        source = sample.reading.source
        seen: dict[int, Socket] = {}
        for look in (sample.before, sample.after):
            for reading in look.sockets:
                cookie = reading.cookie
                tracked = connections.get(cookie)
                if tracked is None or tracked.ghost or tracked.owner.key not in owners:
                    continue
                claim = self._attributions.get(cookie)
                if claim is not None and claim.client.source != source:
                    continue
                socket = self._sockets.get(cookie)
                if socket is None:
                    socket = self._sockets[cookie] = Socket(
                        cookie,
                        reading.remote,
                        tracked.owner.key,
                        tracked.opened_at,
                        tracked.opened_at - OPENED_SLACK if tracked.age_is_exact else float("-inf"),
                    )
                socket.owner, socket.group = tracked.owner.key, tracked.group
                socket.note(look.at, reading)
                seen[cookie] = socket
        return [socket for socket in seen.values() if socket.looks]

    # ---- the statements -----------------------------------------------------------------------

    def _state(
        self,
        known: Claims,
        sockets: Sequence[Socket],
        *,
        needs_witness: bool,
    ) -> None:
        claims = self._claims(known, sockets, needs_witness=needs_witness)
        stated = {claim.socket.cookie: _attribution(claim) for claim in claims}
        for socket in sockets:
            cookie = socket.cookie
            attribution = stated.get(cookie)
            if attribution is not None:
                self._attributions[cookie] = attribution
                self._outlived.discard(cookie)
            elif cookie in self._attributions:
                del self._attributions[cookie]
                if not known.may_claim(socket):
                    self._outlived.add(cookie)

    def _claims(
        self, known: Claims, sockets: Sequence[Socket], *, needs_witness: bool
    ) -> list[Claim]:
        """Return the claims of the one process whose sockets fit; none where several do."""
        by_owner: dict[str, list[Socket]] = {}
        for socket in sockets:
            by_owner.setdefault(socket.owner, []).append(socket)
        found = {
            owner: claims
            for owner, own in by_owner.items()
            if (claims := known.claims(own, needs_witness=needs_witness))
        }
        if len(found) != 1:
            return []
        owner = next(iter(found))
        if any(known.may_hold(own) for other, own in by_owner.items() if other != owner):
            return []
        known.source.owner = owner
        return found[owner]

    def _refresh(self, name: str, source: Source) -> None:
        """Show what the clients say of their nodes now."""
        for cookie, known in self._attributions.items():
            if known.client.source != name or not known.node.node_id:
                continue
            client = source.clients.get(known.client)
            row = client.rows.get(known.node.node_id) if client is not None else None
            if row is not None and row.node is not known.node and row.node != known.node:
                self._attributions[cookie] = replace(known, node=row.node)


def _owners(
    source: Source,
    reading: SourceReading,
    connections: Mapping[int, TrackedConnection],
    senders: AbstractSet[int | None],
) -> set[str]:
    """Return the owners, by key, whose sockets may be this source's.

    A process that pushes statistics speaks for itself alone; a page that the operator has
    configured may be served by another process than the client's. A process that sends its own
    figures is not the one of a source without a sender.
    """
    owners = {tracked.owner.key: tracked.owner.pid for tracked in connections.values()}
    pushed = any(client.library is Library.LIBRDKAFKA for client in reading.clients)
    if reading.sender_pid is not None:
        own = {key for key, pid in owners.items() if pid == reading.sender_pid}
        if own or (pushed and any(pid is not None for pid in owners.values())):
            return own
    else:
        owners = {key: pid for key, pid in owners.items() if pid is None or pid not in senders}
    if source.owner in owners:
        return {source.owner}
    return set(owners)


def _may_be(row: Row, socket: Socket, addresses_of: Callable[[str], frozenset[str]]) -> bool:
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
        addresses = addresses_of(host)
        return not addresses or socket.remote.address in addresses
    return False


def _attribution(claim: Claim) -> Attribution | None:
    """Return what all options share: the node, else client and role, else one of the two."""
    pairs = list({pair.row: pair for pair in claim.pairs}.values())
    first, others = pairs[0], pairs[1:]
    row, node, client = first.row, first.row.node, first.row.client
    equals = others
    if any(other.row.node.role is not node.role for other in others):
        equals = pairs
        node = _UNKNOWN_NODE
    if any(other.row.client != client and other.row.counts != row.counts for other in others):
        # Of clients that count the same each may have each other's name.
        equals = pairs
        kinds = {other.row.client.kind for other in pairs}
        kind = client.kind if len(kinds) == 1 else ClientKind.UNKNOWN
        client = ClientKey(client.source, kind, "")
        node = replace(_UNKNOWN_NODE, role=node.role)
        if node.role is Role.UNKNOWN:
            return None
    if len(equals) > MOST_EQUALS:
        return None
    exact = claim.is_grouped or first.is_equal
    return Attribution(
        client=client,
        node=node,
        library=row.library,
        confidence=Confidence.EXACT if exact and not others else Confidence.STRONG,
        evidence=(_evidence(first, claim),),
        equals=_names(pair.row for pair in equals),
    )


def _evidence(pair: Pair, claim: Claim) -> str:
    counts = pair.row.counts
    figures = f"{counts.outgoing} B out and {counts.incoming} B in" if counts else "no bytes"
    where = "its client's" if claim.is_grouped else "its process's"
    if pair.is_equal:
        how = "the kernel counts the same for this socket"
    elif pair.law == PLAIN:
        how = f"of {where} sockets only this one counts as much with its login"
    else:
        how = f"of {where} sockets only this one counts as much with its TLS handshake"
    if len({each.row for each in claim.pairs}) > 1:
        how = "this socket is one of several that no figure distinguishes"
    return f"the client counts {figures} for node {pair.row.node_id}; {how}"


def _names(rows: Iterable[Row]) -> tuple[str, ...]:
    """Name clients' nodes in words."""
    names = {f"{row.client.kind} {row.client.client_id!r} node {row.node_id}" for row in rows}
    return tuple(sorted(names))
