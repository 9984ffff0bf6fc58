"""What a client itself says about its connections: the measure for everything brokerwire says."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ClientKind", "Role", "TruthConnection", "endpoint", "role_of_node", "truth_of_java"]

Role = Literal["bootstrap", "coordinator", "transaction", "data", "admin"]
ClientKind = Literal["producer", "consumer", "admin"]

_HIGHEST_NODE_ID: Final = 2**31 - 1
# Java numbers a coordinator down from the highest int, far above any real broker id.
_COORDINATOR_FROM: Final = 2**31 - 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthConnection:
    """One open connection, as its owner knows it."""

    local: str
    remote: str
    role: Role
    client_id: str
    client_kind: ClientKind
    broker_id: int | None
    """The broker at the remote's address; `None` for an address that is no broker's."""
    node_id: str
    """Raw: a key of Java's channel table, or the name of librdkafka's broker thread."""
    pid: int
    name: str
    """The lab's own name for the client, unique where `client_id` is not."""
    instance: int = 0
    """0 for the client of this name, from 1 on for the twins of it that were leaked."""
    connected: bool | None = None
    """False while it connects; `None` where the client does not tell."""
    closing: bool = False
    """Closed by the broker, kept by Java until what arrived has been read."""
    is_transaction_coordinator: bool = False
    """Java only: the node is also the producer's transaction coordinator."""
    totals: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Java only: the client's own totals for this *node*, over all its connections so far."""


def role_of_node(node_id: str, kind: ClientKind) -> Role:
    """Return what Java opened a connection for, by the id it gave the node."""
    if node_id.startswith("+"):
        return "coordinator"
    number = int(node_id)
    if number < 0:
        return "bootstrap"
    if _COORDINATOR_FROM < number <= _HIGHEST_NODE_ID:
        return "coordinator"
    return "admin" if kind == "admin" else "data"


def endpoint(text: str) -> str:
    """Return `ip:port` with an IPv4-mapped address written as IPv4."""
    host, _, port = text.rpartition(":")
    address = ipaddress.ip_address(re.sub(r"^\[|\]$|%.*$", "", host))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def truth_of_java(
    answer: Mapping[str, Any], *, pid: int, brokers: Mapping[str, int]
) -> TruthConnection:
    """Return one entry of the Java process's answer; `brokers` maps `ip:port` to ids."""
    remote = endpoint(answer["remote"])
    return TruthConnection(
        local=endpoint(answer["local"]),
        remote=remote,
        role=role_of_node(answer["node_id"], answer["client_kind"]),
        client_id=answer["client_id"],
        client_kind=answer["client_kind"],
        broker_id=brokers.get(remote),
        node_id=answer["node_id"],
        pid=pid,
        name=answer["name"],
        instance=answer["instance"],
        connected=answer["connected"],
        closing=answer["closing"],
        is_transaction_coordinator=answer["transaction_coordinator"],
        totals=answer["totals"] or {},
    )
