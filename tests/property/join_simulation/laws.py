"""The laws, asked of what the observer saw and of the truth: a world that breaks them proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.model import ClientKind, Library, Role

if TYPE_CHECKING:
    from tests.property.join_simulation.host import Host
    from tests.property.join_simulation.wires import Wire


class LawBrokenError(AssertionError):
    """The simulated truth breaks a measured law."""


def check_laws(host: Host, at: float) -> int:
    """Hold every quiet connection's kernel counts against its node's; return how many were."""
    checked = 0
    for wire in host.sockets.wires:
        node = wire.node
        if not wire.is_open(at) or wire.ready_at > at or node.wire is not wire:
            continue
        totals = (
            wire.written,
            wire.arrived,
            wire.taken,
            node.out,
            node.incoming,
            node.requests,
            node.responses,
        )
        if any(total.times[-1] > at - 0.001 for total in totals):
            continue
        _check(wire, at)
        checked += 1
    return checked


def _check(wire: Wire, at: float) -> None:
    """bytes = handshake and login + counted + cost * records, in both directions."""
    node = wire.node
    client = node.client
    cost = client.security.cost
    opened = wire.opened_at
    out = node.out.at(at) - node.out.at(opened)
    incoming = node.incoming.at(at) - node.incoming.at(opened)
    requests = node.requests.at(at) - node.requests.at(opened)
    responses = node.responses.at(at) - node.responses.at(opened)
    over_out = wire.written.at(at) - wire.uncounted_out.at(at) - out
    over_in = wire.taken.at(at) - wire.uncounted_in.at(at) - incoming
    _same("out", wire, over_out, cost.out * wire.records_out.at(at))
    _same("in", wire, over_in, cost.incoming * wire.records_in.at(at))
    if not cost.out:
        return
    per_request = 2 if client.library is Library.JAVA and client.version == "2.1.0" else 1
    _at_least("records out", wire, wire.records_out.at(at), per_request * requests)
    _at_least("records in", wire, wire.records_in.at(at), responses)
    plain = node.role in (Role.BOOTSTRAP, Role.COORDINATOR) or client.kind is ClientKind.ADMIN
    if plain or client.kind is ClientKind.CONSUMER:
        _same("records out", wire, wire.records_out.at(at), per_request * requests)
    if (plain or client.kind is ClientKind.PRODUCER) and client.largest_answer < 16_000:
        _same("records in", wire, wire.records_in.at(at), responses)


def _same(what: str, wire: Wire, found: int, expected: int) -> None:
    if found != expected:
        raise LawBrokenError(
            f"{what} of {wire.cookie}, {wire.node.node_id}: {found}, not {expected}"
        )


def _at_least(what: str, wire: Wire, found: int, least: int) -> None:
    if found < least:
        raise LawBrokenError(f"{what} of {wire.cookie}, {wire.node.node_id}: {found} < {least}")
