"""A connection of the API's document as the core's value: the way back of `sinks.document`."""

from __future__ import annotations

__all__ = ["connection_from_record"]

from typing import TYPE_CHECKING, Any

from exporter.errors import SourceDecodeError
from exporter.model import (
    ClientKind,
    Confidence,
    Connection,
    ConnectionClass,
    Endpoint,
    Library,
    Owner,
    OwnerRung,
    Role,
    TcpState,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def connection_from_record(record: Mapping[str, Any]) -> Connection:
    """Return the connection that a record describes.

    Raises:
        SourceDecodeError: it is not one, or of a class that this version does not know.
    """
    try:
        return _connection(record)
    except (KeyError, TypeError, ValueError) as error:
        raise SourceDecodeError(
            f"the agent describes a connection in a way that this version does not know ({error});"
            " use the agent's own version"
        ) from error


def _connection(record: Mapping[str, Any]) -> Connection:
    return Connection(
        cookie=int(record["cookie"]),
        local=_endpoint(str(record["local"])),
        remote=_endpoint(str(record["remote"])),
        tcp_state=TcpState(record["tcp_state"]),
        connection_class=ConnectionClass(record["class"]),
        role=Role(record["role"]),
        confidence=Confidence(record["confidence"]),
        evidence=tuple(str(line) for line in record["evidence"]),
        owner=Owner(
            key="",
            rung=OwnerRung(record["owner_rung"]),
            name=str(record["process"] or ""),
            pid=record["pid"],
            uid=record["uid"],
            cgroup_id=record["cgroup_id"],
        ),
        client_id=record["client_id"],
        client_kind=ClientKind(record["client_kind"]),
        client_instance=record["client_instance"] or "",
        library=Library(record["library"]),
        node_id=record["node_id"],
        broker_id=record["broker_id"],
        broker=str(record["broker"]),
        useful=bool(record["useful"]),
        equals=tuple(str(node) for node in record["equals"]),
        age_seconds=float(record["age_seconds"]),
        age_is_exact=bool(record["age_is_exact"]),
        idle_seconds=record["idle_seconds"],
        outgoing_bytes=record["outgoing_bytes"],
        incoming_bytes=record["incoming_bytes"],
        send_queue=int(record["send_queue"]),
        receive_queue=int(record["receive_queue"]),
        retransmits_total=record["retransmits_total"],
        rtt_seconds=record["rtt_seconds"],
        source=record["source"],
        expected_rule=record["expected_rule"],
        close_expected=str(record["close_expected"]),
        closes_in_seconds=_seconds(record["closes_in_seconds"]),
        unused_seconds=_seconds(record.get("unused_seconds")),
    )


def _endpoint(text: str) -> Endpoint:
    address, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} is no address with a port")
    return Endpoint(address.removeprefix("[").removesuffix("]"), int(port))


def _seconds(value: Any) -> float | None:
    return None if value is None else float(value)
