"""One series of the journal: connections of one client, broker, class and cause, added up.

Whole microseconds inside, so that sums are exact; a record has milliseconds.
Pure.
"""

from __future__ import annotations

__all__ = ["KEEP_MICROSECONDS", "Series", "SeriesKey", "microseconds"]

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from exporter.model import ClientKind, ClosedBy, Library
from exporter.snapshot import LIFETIME_BUCKETS
from exporter.totals.ledger import OTHER, bucket_of

if TYPE_CHECKING:
    from exporter.connections.endings import ClosedConnection
    from exporter.model import Cause, ClientKey, ConnectionClass, Role
    from exporter.snapshot import ClientBroker

# A series that rested for so long is forgotten: a client that is away for a deployment is not gone.
KEEP_MICROSECONDS = 3600 * 1_000_000

_FIELD_OF_END = {
    ClosedBy.CLIENT: "closed_by_client",
    ClosedBy.BROKER: "closed_by_broker",
    ClosedBy.ABORT: "closed_by_reset",
    ClosedBy.UNKNOWN: "closed_unknown",
    ClosedBy.REFUSED: "connect_failures",
}


class SeriesKey(NamedTuple):
    """What a series is about; `library` is a name as in the record, None where it is not known."""

    client: ClientBroker
    library: str | None
    library_version: str | None
    connection_class: ConnectionClass
    role: Role
    cause: Cause | None


def microseconds(seconds: float) -> int:
    """Return a time of the monotonic clock as a whole number."""
    return round(seconds * 1e6)


class Series:
    """The counters of one series; only `Accounts` writes here."""

    def __init__(self, number: int, key: SeriesKey, since_ms: int, now: int) -> None:
        self.number = number
        self.key = key
        self.since_ms = since_ms
        self.held = 0
        self.is_useful = False
        self.expected = 0
        self.active_at = now
        self._settled_at = now
        self._connection_us = 0
        self._useful_us = 0
        self._expected_us = 0
        self._opened = 0
        self._ends: Counter[ClosedBy] = Counter()
        self._out = 0
        self._in = 0
        self._retransmits = 0
        self._lifetime_us = 0
        self._lifetimes = [0] * (len(LIFETIME_BUCKETS) + 1)
        self.counts_bytes = False
        self._idle_us: int | None = None
        self._peak = 0
        self._seconds: Counter[int] = Counter()
        self._grown = True
        self.clients: set[ClientKey] = set()

    @property
    def is_known(self) -> bool:
        """Whether the client shows its metrics, so that somebody can tell what it needs."""
        client = self.key.client
        return bool(client.client_id) or client.client_kind != ClientKind.UNKNOWN.value

    # ---- what happens -------------------------------------------------------------------------

    def settle(self, now: int) -> None:
        """Add the time since the last change; whatever is about to change held until now."""
        elapsed = now - self._settled_at
        if elapsed <= 0:
            return
        self._settled_at = now
        self._peak = max(self._peak, self.held)
        if self.held or self.expected:
            self._connection_us += self.held * elapsed
            self._useful_us += self.held * elapsed * self.is_useful
            self._expected_us += self.expected * elapsed
            self._grown = True

    def open(self, opened_at: float) -> None:
        """Count an opening, at this second of the monotonic clock."""
        self._opened += 1
        self._seconds[int(opened_at)] += 1
        self._grown = True

    def end(self, closed: ClosedConnection) -> None:
        """Count an end; what never got through had no life."""
        self._ends[closed.closed_by] += 1
        self._grown = True
        if closed.closed_by is not ClosedBy.REFUSED:
            self._lifetime_us += microseconds(closed.lifetime_seconds)
            self._lifetimes[bucket_of(closed.lifetime_seconds)] += 1

    def move(self, outgoing: int, incoming: int, retransmits: int) -> None:
        """Count bytes that went, and segments that went again."""
        self._out += outgoing
        self._in += incoming
        self._retransmits += retransmits
        self._grown = True

    def be_idle(self, seconds: float) -> None:
        """Take the silence of one connection."""
        silence = microseconds(seconds)
        if self._idle_us is None or silence > self._idle_us:
            self._idle_us = max(0, silence)

    # ---- records ------------------------------------------------------------------------------

    def rests(self) -> bool:
        """Whether there is nothing new to say."""
        return not (self.held or self.expected or self._grown)

    def begin_interval(self) -> None:
        """Forget what was told of the interval that has ended."""
        self._idle_us = None
        self._peak = self.held
        self._seconds.clear()
        self._grown = False
        self.clients = set()

    def record(self) -> dict[str, Any]:
        """Return the fields that are the series' own."""
        key, client = self.key, self.key.client
        bytes_of = (lambda count: count) if self.counts_bytes else (lambda _count: None)
        known = self.is_known
        return {
            "series": self.number,
            "since_ms": self.since_ms,
            "process": client.process or None,
            "client_id": client.client_id or None,
            "client_kind": _known(client.client_kind),
            "library": key.library,
            "library_version": key.library_version,
            "broker_id": int(client.broker_id) if client.broker_id else None,
            "broker": client.broker or None,
            "folded": client.client_kind == OTHER,
            "class": key.connection_class.value,
            "role": key.role.value,
            "cause": None if key.cause is None else key.cause.value,
            "connection_ms": self._connection_us // 1000,
            "useful_ms": self._useful_us // 1000,
            "expected_ms": self._expected_us // 1000 if known else None,
            "opened": self._opened,
            **{name: self._ends[end] for end, name in _FIELD_OF_END.items()},
            "bytes_out": bytes_of(self._out),
            "bytes_in": bytes_of(self._in),
            "retransmits": bytes_of(self._retransmits),
            "lifetime_ms_sum": self._lifetime_us // 1000,
            "lifetime_buckets": list(self._lifetimes),
            "idle_max_ms": None if self._idle_us is None else self._idle_us // 1000,
            "peak_connections": max(self._peak, self.held),
            "peak_opened": max(self._seconds.values(), default=0),
            "connections": self.held,
            "expected": self.expected if known else None,
            "instances": len(self.clients) if known else None,
        }


def _known(name: str) -> str | None:
    return None if name in {"", Library.UNKNOWN.value} else name
