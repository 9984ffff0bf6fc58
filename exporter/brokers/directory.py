"""The address of each broker: learned from the join, configured, or requested.

Broker ids are only unique in a cluster, and a process may talk to several clusters through several
listeners. Two clients are of one cluster when they reach one broker id at one address; only within
a cluster does a newer address make an older one stale. A broker that was reached at two addresses
in turn has both of them (several records of one name) and is stale at neither.
Pure.
"""

from __future__ import annotations

__all__ = ["Directory"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.model import Endpoint

Place = tuple[int, "Endpoint"]


class _Span(NamedTuple):
    """When a place was first and last connected to."""

    first: float
    last: float


@dataclass(slots=True)
class _Believer:
    """A client, or the configuration: where it reaches brokers, and when it connected there."""

    places: dict[Place, _Span] = field(default_factory=dict)
    authoritative: bool = False


class Directory:
    """The brokers that are known, by cluster."""

    def __init__(self) -> None:
        self._believers: dict[str, _Believer] = {}
        self._clusters: list[list[_Believer]] | None = None

    def learn(self, client: str, broker_id: int, endpoint: Endpoint, at: float) -> None:
        """Note that a client opened a connection to a broker at an address at a time."""
        believer = self._believers.setdefault(client, _Believer())
        place = broker_id, endpoint
        known = believer.places.get(place)
        if known is None:
            believer.places[place] = _Span(at, at)
            self._clusters = None
        elif not known.first <= at <= known.last:
            believer.places[place] = _Span(min(known.first, at), max(known.last, at))

    def set_known(self, name: str, places: Mapping[int, frozenset[Endpoint]]) -> None:
        """Set what the configuration or a metadata answer says: it holds until it is set again."""
        believer = _Believer(authoritative=True)
        for broker_id, endpoints in places.items():
            for endpoint in endpoints:
                believer.places[broker_id, endpoint] = _Span(0.0, 0.0)
        self._believers[name] = believer
        self._clusters = None

    def forget(self, client: str) -> None:
        """Forget a client that ended."""
        if self._believers.pop(client, None) is not None:
            self._clusters = None

    def broker_at(self, endpoint: Endpoint) -> int | None:
        """Return the id of the broker at an address; None where none or several are known there."""
        found = {
            broker_id
            for believer in self._believers.values()
            for broker_id, known in believer.places
            if known == endpoint
        }
        return next(iter(found)) if len(found) == 1 else None

    def addresses(self) -> frozenset[str]:
        """Return every address that a broker is known to have or to have had."""
        return frozenset(
            endpoint.address
            for believer in self._believers.values()
            for _broker_id, endpoint in believer.places
        )

    def endpoints_at(self, address: str) -> frozenset[Endpoint]:
        """Return the places that are known at an address, where the kernel forgot the port."""
        return frozenset(
            endpoint
            for believer in self._believers.values()
            for _broker_id, endpoint in believer.places
            if endpoint.address == address
        )

    def stale_reason(
        self, client: str, broker_id: int, endpoint: Endpoint, opened_at: float
    ) -> str | None:
        """Say why a client's connection goes to a place where its broker no longer is, or None.

        Places are compared only where the port is the same: another port is another listener.
        """
        believer = self._believers.get(client)
        if believer is None:
            return None
        for cluster in self._clusters_now():
            if believer in cluster:
                return _stale_in(cluster, broker_id, endpoint, opened_at)
        return None

    def _clusters_now(self) -> list[list[_Believer]]:
        if self._clusters is None:
            self._clusters = _clusters(list(self._believers.values()))
        return self._clusters


def _stale_in(
    cluster: list[_Believer], broker_id: int, endpoint: Endpoint, opened_at: float
) -> str | None:
    for believer in cluster:
        if not believer.authoritative:
            continue
        told = {
            known
            for known_id, known in believer.places
            if known_id == broker_id and known.port == endpoint.port
        }
        if told:
            where = ", ".join(map(str, sorted(told)))
            return None if endpoint in told else f"broker {broker_id} is known to be at {where}"
    if any(
        known == endpoint
        for believer in cluster
        for known_id, known in believer.places
        if known_id != broker_id
    ):
        # Another broker is there: whatever the join says, the address is still in use.
        return None
    spans = _spans(cluster, broker_id, endpoint.port)
    here = spans.pop(endpoint, _Span(opened_at, opened_at))
    here = _Span(here.first, max(here.last, opened_at))
    if not spans:
        return None
    latest = max(spans, key=lambda known: spans[known].last)
    # It is stale only if nobody has come back to it since the other place was first reached.
    if spans[latest].first > here.last:
        return f"broker {broker_id} has since been reached at {latest}"
    return None


def _spans(cluster: list[_Believer], broker_id: int, port: int) -> dict[Endpoint, _Span]:
    """Return when each address of a broker was connected to; other ports are other listeners."""
    spans: dict[Endpoint, _Span] = {}
    for believer in cluster:
        for (known_id, known), span in believer.places.items():
            if known_id == broker_id and known.port == port and not believer.authoritative:
                other = spans.get(known, span)
                spans[known] = _Span(min(span.first, other.first), max(span.last, other.last))
    return spans


def _clusters(believers: list[_Believer]) -> list[list[_Believer]]:
    """Group those that agree on the place of a broker."""
    clusters: list[tuple[set[Place], list[_Believer]]] = []
    for believer in believers:
        places = set(believer.places)
        joined = [believer]
        rest = []
        for known, members in clusters:
            if known & places:
                places |= known
                joined += members
            else:
                rest.append((known, members))
        clusters = [*rest, (places, joined)]
    return [members for _places, members in clusters]
