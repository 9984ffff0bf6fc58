"""Explains one connection: class, evidence, what will close it, and the recommendation.

Pure.
"""

from __future__ import annotations

__all__ = ["MEANINGS", "Explanation", "explain", "recommendation_of_class"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.findings.findings import remedy_of
from exporter.model import ConnectionClass, Library, Role
from exporter.text import duration

if TYPE_CHECKING:
    from exporter.model import Connection


@dataclass(frozen=True, slots=True)
class Explanation:
    """One connection in words."""

    connection: Connection
    meaning: str
    evidence: tuple[str, ...]
    closes: str
    recommendation: str


MEANINGS = {
    ConnectionClass.GHOST: "leaked descriptor of a dead socket, not shown by ss or netstat",
    ConnectionClass.HALF_CLOSED: "half closed (CLOSE_WAIT): the broker closed it, the client did"
    " not",
    ConnectionClass.CONNECTING: "TCP handshake not complete",
    ConnectionClass.STALE: "to an address that no longer belongs to the broker",
    ConnectionClass.ZOMBIE: "wasted: not used any more, and the client does not close it",
    ConnectionClass.EXCESS: "wasted: of a client that the process does not need",
    ConnectionClass.BOOTSTRAP: "opened to a bootstrap server to get the list of brokers",
    ConnectionClass.COORDINATOR: "to the consumer group's coordinator: heartbeats and commits",
    ConnectionClass.TRANSACTION: "to the transaction coordinator",
    ConnectionClass.DATA: "produce or fetch requests",
    ConnectionClass.ADMIN: "requests of an AdminClient",
    ConnectionClass.PROBE: "no Kafka requests: a health check or a port scan",
    ConnectionClass.UNKNOWN: "unknown: too young, or the kernel's counters fit several roles",
}

_NOTHING = "None."
_OF_UNKNOWN = (
    "Configure the client's metrics endpoint (jmx_exporter, Jolokia or statistics.interval.ms) to"
    " identify it exactly."
)
_OF_BOOTSTRAP = (
    "None: the idle timeout closes it. Listing one or two servers in bootstrap.servers opens fewer."
)


def explain(connection: Connection) -> Explanation:
    """Say of one connection what it is, why, what will close it, and what to change."""
    connection_class = connection.connection_class
    closes = connection.close_expected
    if connection.closes_in_seconds is not None:
        closes += f" (in {duration(connection.closes_in_seconds)} if it stays idle)"
    meaning = MEANINGS[connection_class]
    if connection.role is not Role.UNKNOWN and connection.role != connection_class.value:
        meaning += f"; opened as {connection.role}"
    evidence = connection.evidence
    if connection.unused_seconds is not None:
        evidence = (
            *evidence,
            f"unused since it was opened, for {duration(connection.unused_seconds)}",
        )
    return Explanation(connection, meaning, evidence, closes, _recommendation(connection))


def recommendation_of_class(connection_class: ConnectionClass) -> str | None:
    """Return what to do about connections of a class; None where nothing is to be done."""
    remedy = remedy_of(connection_class)
    if remedy is None and connection_class is ConnectionClass.UNKNOWN:
        return _OF_UNKNOWN
    return remedy


def _recommendation(connection: Connection) -> str:
    connection_class = connection.connection_class
    if connection_class is ConnectionClass.BOOTSTRAP and connection.library is Library.JAVA:
        return _OF_BOOTSTRAP
    return recommendation_of_class(connection_class) or _NOTHING
