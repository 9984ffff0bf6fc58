"""Collects the metrics of Java clients row by row, independent of the page's format.

A figure with two different values is useless and becomes None: two clients of one
client id on one page cannot be distinguished.
"""

from __future__ import annotations

__all__ = ["CIPHERS", "ClientFigures", "ClientRows", "NodeFigure", "whole"]

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from exporter.clients.node_ids import parse_node_id, unquoted
from exporter.errors import SourceDecodeError
from exporter.model import CipherUse, ClientKind, ClientReading, Library, NodeReading

# One JVM holds some hundreds of clients at most; a page beyond these is not one client's page.
MAX_CLIENTS = 10_000
MAX_NODES = 100_000
# A client uses one or two; the rest is not one of Kafka's pages.
MAX_CIPHERS = 100
# A double counts single bytes up to here; above it equality of byte counts means nothing.
HIGHEST_COUNT = 2**53


class NodeFigure(StrEnum):
    """Fields of a NodeReading that Java clients report."""

    OUTGOING_BYTES = "outgoing_bytes"
    INCOMING_BYTES = "incoming_bytes"
    REQUESTS = "requests"
    RESPONSES = "responses"


class ClientFigures(StrEnum):
    """Fields of a ClientReading that Java clients report in numbers."""

    CONNECTION_COUNT = "connection_count"
    CONNECTIONS_CREATED = "connections_created"
    CONNECTIONS_CLOSED = "connections_closed"
    AUTHENTICATIONS = "authentications"
    REAUTHENTICATIONS = "reauthentications"


CIPHERS: Final = "ciphers"
"""The figure that comes once for each TLS protocol and cipher suite."""


def whole(value: float) -> int | None:
    """Return a count, or None for what cannot be one (NaN, negative, broken, beyond a double)."""
    if not math.isfinite(value) or not 0 <= value <= HIGHEST_COUNT:
        return None
    count = int(value)
    return count if count == value else None


class _Key(NamedTuple):
    kind: ClientKind
    client_id: str
    instance: str


@dataclass(slots=True)
class _Client:
    figures: dict[ClientFigures, int | None] = field(default_factory=dict)
    nodes: dict[str, dict[NodeFigure, int | None]] = field(default_factory=dict)
    ciphers: dict[tuple[str, str], int | None] = field(default_factory=dict)
    version: str | None = None


class ClientRows:
    """Gathers rows and makes readings of them."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._clients: dict[_Key, _Client] = {}
        self._node_count = 0

    def node(
        self, key: tuple[ClientKind, str, str], raw_id: str, figure: NodeFigure, count: int | None
    ) -> None:
        """Take one figure of one node; `raw_id` is as the page spells it."""
        nodes = self._client(key).nodes
        node_id, _, _ = parse_node_id(raw_id, key[0])
        if node_id not in nodes:
            self._node_count += 1
            if self._node_count > MAX_NODES:
                raise SourceDecodeError(f"{self._where} reports more than {MAX_NODES} nodes")
            nodes[node_id] = {}
        figures = nodes[node_id]
        figures[figure] = count if figures.get(figure, count) == count else None

    def client(
        self, key: tuple[ClientKind, str, str], figure: ClientFigures, count: int | None
    ) -> None:
        """Take one figure of a client as a whole."""
        figures = self._client(key).figures
        figures[figure] = count if figures.get(figure, count) == count else None

    def cipher(
        self, key: tuple[ClientKind, str, str], protocol: str, cipher: str, count: int | None
    ) -> None:
        """Take how many connections use a TLS protocol and cipher suite."""
        ciphers = self._client(key).ciphers
        use = unquoted(protocol), unquoted(cipher)
        if use not in ciphers and len(ciphers) >= MAX_CIPHERS:
            raise SourceDecodeError(f"{self._where} reports more than {MAX_CIPHERS} ciphers")
        ciphers[use] = count if ciphers.get(use, count) == count else None

    def version(self, key: tuple[ClientKind, str, str], version: str) -> None:
        """Take the version of a client's library."""
        if version and version.lower() != "unknown":
            self._client(key).version = version

    def readings(self) -> tuple[ClientReading, ...]:
        """Return the clients in the order in which they first appeared."""
        return tuple(_reading(key, client) for key, client in self._clients.items())

    def _client(self, key: tuple[ClientKind, str, str]) -> _Client:
        kind, client_id, instance = key
        known = _Key(kind, unquoted(client_id), instance)
        client = self._clients.get(known)
        if client is None:
            if len(self._clients) >= MAX_CLIENTS:
                raise SourceDecodeError(f"{self._where} reports more than {MAX_CLIENTS} clients")
            client = self._clients[known] = _Client()
        return client


def _reading(key: _Key, client: _Client) -> ClientReading:
    return ClientReading(
        client_id=key.client_id,
        kind=key.kind,
        library=Library.JAVA,
        nodes=tuple(_node(raw, key.kind, figures) for raw, figures in client.nodes.items()),
        instance=key.instance,
        version=client.version,
        connection_count=client.figures.get(ClientFigures.CONNECTION_COUNT),
        connections_created=client.figures.get(ClientFigures.CONNECTIONS_CREATED),
        connections_closed=client.figures.get(ClientFigures.CONNECTIONS_CLOSED),
        authentications=client.figures.get(ClientFigures.AUTHENTICATIONS),
        reauthentications=client.figures.get(ClientFigures.REAUTHENTICATIONS),
        ciphers=tuple(
            CipherUse(*use, count) for use, count in sorted(client.ciphers.items()) if count
        ),
    )


def _node(raw_id: str, kind: ClientKind, figures: dict[NodeFigure, int | None]) -> NodeReading:
    node_id, role, broker_id = parse_node_id(raw_id, kind)
    return NodeReading(
        node_id=node_id,
        role=role,
        broker_id=broker_id,
        outgoing_bytes=figures.get(NodeFigure.OUTGOING_BYTES),
        incoming_bytes=figures.get(NodeFigure.INCOMING_BYTES),
        requests=figures.get(NodeFigure.REQUESTS),
        responses=figures.get(NodeFigure.RESPONSES),
    )
