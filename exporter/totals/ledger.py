"""What has added up since the agent's start: counters and integrals that only grow.

Every figure is kept by client and broker. A pair that is gone for long is folded, so that the
number of series stays bounded whatever the clients call themselves. What is shown by client goes on
as that client's at the broker `other`, what is shown by broker as that of the client `other`, so
neither sum goes back. A client that is gone as a whole goes on as `other`, which jumps by that: who
takes a rate leaves it out (decisions/0006).
Pure.
"""

from __future__ import annotations

__all__ = ["OTHER", "Ledger", "bucket_of"]

from collections import defaultdict
from typing import TYPE_CHECKING

from exporter.model import ClosedBy
from exporter.snapshot import LIFETIME_BUCKETS, ClientBroker, Histogram, Totals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from exporter.model import ConnectionClass

# A client without connections keeps its series for so long: longer than Prometheus looks back.
KEEP_SECONDS = 900.0

OTHER = "other"

# A program may call each of its clients anew: more than this are not told apart.
MOST_BEYOND = 10_000


class Ledger:
    """Counters by client and broker."""

    def __init__(self, most_clients: int) -> None:
        self._most_clients = most_clients
        self._seconds: dict[tuple[ClientBroker, ConnectionClass], float] = defaultdict(float)
        self._useful: dict[ClientBroker, float] = defaultdict(float)
        self._opened: dict[ClientBroker, int] = defaultdict(int)
        self._closed: dict[tuple[ClientBroker, ClosedBy], int] = defaultdict(int)
        self._lifetime_counts: dict[ClientBroker, list[int]] = {}
        self._lifetime_sums: dict[ClientBroker, float] = defaultdict(float)
        self._outgoing: dict[ClientBroker, int] = defaultdict(int)
        self._incoming: dict[ClientBroker, int] = defaultdict(int)
        self._retransmits: dict[ClientBroker, int] = defaultdict(int)
        self._failures: dict[ClientBroker, int] = defaultdict(int)
        self._probes: dict[str, int] = defaultdict(int)
        self._last_seen: dict[ClientBroker, float] = {}
        self._in_use: AbstractSet[ClientBroker] = frozenset()
        self._clients: dict[tuple[str, str, str], set[ClientBroker]] = {}
        self._beyond: dict[tuple[str, str, str], float] = {}

    def key(self, wanted: ClientBroker, now: float) -> ClientBroker:
        """Return the series of a client and broker: its own, or `other` beyond the limit."""
        if wanted in self._last_seen:
            self._last_seen[wanted] = now
            return wanted
        client = wanted[:3]
        if client not in self._clients and len(self._clients) >= self._most_clients:
            if client in self._beyond or len(self._beyond) < MOST_BEYOND:
                self._beyond[client] = now
            return ClientBroker(OTHER, OTHER, OTHER, wanted.broker_id, wanted.broker)
        self._clients.setdefault(client, set()).add(wanted)
        self._last_seen[wanted] = now
        return wanted

    @property
    def folded_clients(self) -> int:
        """How many clients there are beyond the limit, up to MOST_BEYOND."""
        return len(self._beyond)

    def integrate(
        self,
        counts: Mapping[ClientBroker, Mapping[ConnectionClass, int]],
        useful: Mapping[ClientBroker, int],
        seconds: float,
    ) -> None:
        """Add what was open for `seconds`."""
        self._in_use = counts.keys()
        for key, by_class in counts.items():
            for connection_class, count in by_class.items():
                if count:
                    self._seconds[key, connection_class] += count * seconds
        for key, count in useful.items():
            self._useful[key] += count * seconds

    def opened(self, key: ClientBroker) -> None:
        """Count a connection that was opened."""
        self._opened[key] += 1

    def closed(self, key: ClientBroker, closed_by: ClosedBy, lifetime_seconds: float) -> None:
        """Count a connection that ended, or never got through (which has no life to measure)."""
        self._closed[key, closed_by] += 1
        if closed_by is ClosedBy.REFUSED:
            self._failures[key] += 1
            return
        counts = self._lifetime_counts.setdefault(key, [0] * (len(LIFETIME_BUCKETS) + 1))
        counts[bucket_of(lifetime_seconds)] += 1
        self._lifetime_sums[key] += lifetime_seconds

    def moved(self, key: ClientBroker, outgoing: int, incoming: int, retransmits: int) -> None:
        """Count bytes that went, and segments that had to be sent again."""
        self._outgoing[key] += outgoing
        self._incoming[key] += incoming
        self._retransmits[key] += retransmits

    def probed(self, broker: str) -> None:
        """Count a short connection without a Kafka conversation."""
        self._probes[broker] += 1

    def fold_old(self, now: float) -> None:
        """Fold clients that are long gone into `other`.

        One whose connections are merely idle is not looked at for hours, and is not gone.
        """
        for key in self._in_use & self._last_seen.keys():
            self._last_seen[key] = now
        for client, seen in list(self._beyond.items()):
            if now - seen > KEEP_SECONDS or client in self._clients:
                del self._beyond[client]
        for key, seen in list(self._last_seen.items()):
            if now - seen > KEEP_SECONDS:
                self._fold(key)

    def totals(self) -> Totals:
        """Return a copy that no later poll changes."""
        return Totals(
            connection_seconds=dict(self._seconds),
            useful_seconds=dict(self._useful),
            opened=dict(self._opened),
            closed=dict(self._closed),
            lifetimes={
                key: Histogram(tuple(counts), self._lifetime_sums[key])
                for key, counts in self._lifetime_counts.items()
            },
            outgoing_bytes=dict(self._outgoing),
            incoming_bytes=dict(self._incoming),
            retransmits=dict(self._retransmits),
            connect_failures=dict(self._failures),
            probes=dict(self._probes),
        )

    def _fold(self, key: ClientBroker) -> None:
        del self._last_seen[key]
        client = key[:3]
        self._clients[client].discard(key)
        if not self._clients[client]:
            del self._clients[client]
        of_client = key._replace(broker_id=OTHER, broker=OTHER)
        self._move_of_client(key, of_client)
        self._move_at_broker(key, ClientBroker(OTHER, OTHER, OTHER, key.broker_id, key.broker))
        if client not in self._clients:
            self._move_of_client(of_client, ClientBroker(OTHER, OTHER, OTHER, OTHER, OTHER))

    def _move_of_client(self, key: ClientBroker, to: ClientBroker) -> None:
        """Move what is shown by client."""
        for seconds in (self._useful, self._lifetime_sums):
            if key in seconds:
                seconds[to] += seconds.pop(key)
        for pair in [pair for pair in self._seconds if pair[0] == key]:
            self._seconds[to, pair[1]] += self._seconds.pop(pair)
        counts = self._lifetime_counts.pop(key, None)
        if counts is not None:
            into = self._lifetime_counts.setdefault(to, [0] * len(counts))
            self._lifetime_counts[to] = [a + b for a, b in zip(into, counts, strict=True)]

    def _move_at_broker(self, key: ClientBroker, to: ClientBroker) -> None:
        """Move what is shown by broker."""
        for counter in (
            self._opened,
            self._outgoing,
            self._incoming,
            self._retransmits,
            self._failures,
        ):
            if key in counter:
                counter[to] += counter.pop(key)
        for ending in [ending for ending in self._closed if ending[0] == key]:
            self._closed[to, ending[1]] += self._closed.pop(ending)


def bucket_of(seconds: float) -> int:
    """Return which of LIFETIME_BUCKETS a life falls into; the one after them holds the rest."""
    for index, bound in enumerate(LIFETIME_BUCKETS):
        if seconds <= bound:
            return index
    return len(LIFETIME_BUCKETS)
