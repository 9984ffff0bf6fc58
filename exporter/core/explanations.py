"""One connection in words: what it is, why, what will close it, and what to change.

Pure.
"""

from __future__ import annotations

__all__ = ["Explanation", "explain"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.core.findings import remedy_of
from exporter.model import ConnectionClass, Library, Role

if TYPE_CHECKING:
    from exporter.model import Connection


@dataclass(frozen=True, slots=True)
class Explanation:
    """One connection in words."""

    connection: Connection
    what: str
    why: tuple[str, ...]
    closes: str
    change: str


_WHAT = {
    ConnectionClass.GHOST: "a leaked descriptor: its socket is dead, no tool lists it",
    ConnectionClass.HALF_CLOSED: "half closed: the broker has left it, the client holds it",
    ConnectionClass.CONNECTING: "still connecting",
    ConnectionClass.STALE: "to an address that is no longer the broker's",
    ConnectionClass.ZOMBIE: "waste: nobody will use it again and the client does not close it",
    ConnectionClass.EXCESS: "waste: more than the client needs",
    ConnectionClass.BOOTSTRAP: "opened to learn the brokers, under a made-up node id",
    ConnectionClass.COORDINATOR: "to the consumer group's coordinator: heartbeats and commits",
    ConnectionClass.TRANSACTION: "to the transaction coordinator",
    ConnectionClass.DATA: "for records: produce or fetch",
    ConnectionClass.ADMIN: "for an AdminClient's requests",
    ConnectionClass.PROBE: "no Kafka conversation: a health check or a port scan",
    ConnectionClass.UNKNOWN: "not known: too early, or too little to tell",
}

_CHANGE_UNKNOWN = (
    "Give the agent the client's metrics (jmx_exporter, Jolokia or statistics.interval.ms):"
    " then it is known to the byte."
)


def explain(connection: Connection) -> Explanation:
    """Say of one connection what it is, why, what will close it, and what to change."""
    connection_class = connection.connection_class
    remedy = remedy_of(connection_class)
    if remedy is not None:
        change = remedy
    elif connection_class is ConnectionClass.UNKNOWN:
        change = _CHANGE_UNKNOWN
    elif connection_class is ConnectionClass.BOOTSTRAP and connection.library is Library.JAVA:
        change = (
            "Nothing: it ends by idle closing. With fewer servers in bootstrap.servers there are"
            " fewer of them (two are enough)."
        )
    else:
        change = "Nothing."
    closes = connection.close_expected
    if connection.closes_in_seconds is not None:
        closes += f" (in {connection.closes_in_seconds:.0f} s if nothing goes over it)"
    what = _WHAT[connection_class]
    if connection.role is not Role.UNKNOWN and connection.role != connection_class.value:
        what += f"; opened as {connection.role}"
    return Explanation(connection, what, connection.evidence, closes, change)
