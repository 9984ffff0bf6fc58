"""The store as metrics show it: by client and broker, since the agent's start.

A client and broker that are gone for long are folded into `other`, so that the number of series
stays bounded whatever clients call themselves. What metrics show by client is then that client's at
the broker `other`, what they show by broker is that of the client `other`: neither sum goes back.
A client that is gone from all brokers is `other` altogether, which jumps by that: a rate leaves it
out (decisions/0006).
Pure.
"""

from __future__ import annotations

__all__ = ["KEEP_SECONDS", "MetricTotals"]

from functools import cache, partial
from operator import add
from typing import TYPE_CHECKING, TypeVar

from exporter.model import ClosedBy
from exporter.snapshot import ClientBroker, Histogram, Late, Totals
from exporter.totals.series import (
    BY_BROKER,
    BY_CLIENT,
    CLOSED,
    CONNECTION_US,
    LIFETIME_US,
    LIFETIMES,
    OPENED,
    OTHER,
    RECEIVED,
    RETRANSMITS,
    SENT,
    USEFUL_US,
    microseconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exporter.model import ConnectionClass
    from exporter.totals.series import Frozen, Series
    from exporter.totals.store import Store

    OfClients = Mapping[tuple[ClientBroker, ConnectionClass], Sequence[int]]
    AtBrokers = Mapping[ClientBroker, Sequence[int]]

# A client without connections keeps its series for so long: longer than Prometheus looks back.
KEEP_SECONDS = 900.0

# A program may give each of its clients a new name: more than this are not told apart.
MOST_BEYOND = 10_000

Key = TypeVar("Key")

_NOBODY = ClientBroker(OTHER, OTHER, OTHER, OTHER, OTHER)


class MetricTotals:
    """Which clients have a name in the metrics, and what those that are gone have left behind."""

    def __init__(self, most_clients: int) -> None:
        self._most_clients = most_clients
        self._last_seen: dict[ClientBroker, float] = {}
        self._clients: dict[tuple[str, str, str], set[ClientBroker]] = {}
        self._beyond: dict[tuple[str, str, str], float] = {}
        # Replaced, never changed: totals that somebody holds have them, too.
        self._of_clients: OfClients = {}
        self._at_brokers: AtBrokers = {}
        self._probes: dict[str, int] = {}

    def key(self, wanted: ClientBroker, now: float) -> ClientBroker:
        """Return the labels of a client and broker: its own, or `other` beyond the limit."""
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

    def probed(self, broker: str) -> None:
        """Count a short connection without a Kafka conversation."""
        self._probes[broker] = self._probes.get(broker, 0) + 1

    def fold_old(self, store: Store, now: float) -> None:
        """Fold clients that are long gone into `other`.

        One whose connections are merely idle is not described for hours, and is not gone.
        """
        for client, seen in list(self._beyond.items()):
            if now - seen > KEEP_SECONDS or client in self._clients:
                del self._beyond[client]
        for pair in store.clients():
            seen_at = self._last_seen.get(pair)
            if any(series.is_in_use for series in store.of_client(pair)):
                if seen_at is not None:
                    self._last_seen[pair] = now
            elif seen_at is None or now - seen_at > KEEP_SECONDS:
                new = [each for each in store.of_client(pair) if each.folded != each.numbers]
                if new:
                    self._fold(pair, new)
                store.drop(pair)

    def totals(self, store: Store, at: float) -> Totals:
        """Return what has added up until now; it is worked out when somebody asks."""
        now = microseconds(at)
        made = cache(partial(_totals, store.freeze(), self._of_clients, self._at_brokers, now))
        return Totals(
            connection_seconds=Late(lambda: made().connection_seconds),
            useful_seconds=Late(lambda: made().useful_seconds),
            opened=Late(lambda: made().opened),
            closed=Late(lambda: made().closed),
            lifetimes=Late(lambda: made().lifetimes),
            outgoing_bytes=Late(lambda: made().outgoing_bytes),
            incoming_bytes=Late(lambda: made().incoming_bytes),
            retransmits=Late(lambda: made().retransmits),
            connect_failures=Late(lambda: made().connect_failures),
            probes=dict(self._probes),
        )

    def _fold(self, pair: ClientBroker, all_series: Iterable[Series]) -> None:
        client = pair[:3]
        of_client = pair._replace(broker_id=OTHER, broker=OTHER)
        at_broker = ClientBroker(OTHER, OTHER, OTHER, pair.broker_id, pair.broker)
        of_clients, at_brokers = dict(self._of_clients), dict(self._at_brokers)
        for series in all_series:
            numbers = series.unfolded()
            _add(of_clients, (of_client, series.key.connection_class), numbers[BY_CLIENT])
            _add(at_brokers, at_broker, numbers[BY_BROKER])
            series.folded, series.frozen = list(series.numbers), None
        if self._last_seen.pop(pair, None) is not None:
            self._clients[client].discard(pair)
            if not self._clients[client]:
                del self._clients[client]
        if client not in self._clients:
            for key in [key for key in of_clients if key[0] == of_client and key[0] != _NOBODY]:
                _add(of_clients, (_NOBODY, key[1]), of_clients.pop(key))
        self._of_clients, self._at_brokers = of_clients, at_brokers


def _add(sums: dict[Key, Sequence[int]], key: Key, numbers: Sequence[int]) -> None:
    if any(numbers):
        known = sums.get(key)
        sums[key] = numbers if known is None else tuple(map(add, known, numbers))


def _totals(
    series: Iterable[Frozen], of_clients: OfClients, at_brokers: AtBrokers, now: int
) -> Totals:
    """Sum series by client and broker, as of now."""
    by_client, by_broker = dict(of_clients), dict(at_brokers)
    for key, numbers, held, is_useful, settled_at in series:
        grown = list(numbers[BY_CLIENT])
        if held and now > settled_at:
            grown[CONNECTION_US] += held * (now - settled_at)
            grown[USEFUL_US] += held * (now - settled_at) * is_useful
        _add(by_client, (key.client, key.connection_class), grown)
        _add(by_broker, key.client, numbers[BY_BROKER])
    seconds = {key: each[CONNECTION_US] / 1e6 for key, each in by_client.items()}
    useful: dict[ClientBroker, int] = {}
    lifetimes: dict[ClientBroker, Sequence[int]] = {}
    for (pair, _), each in by_client.items():
        if each[CONNECTION_US]:
            useful[pair] = useful.get(pair, 0) + each[USEFUL_US]
        _add(lifetimes, pair, each[LIFETIME_US : LIFETIMES.stop])
    return Totals(
        connection_seconds={key: each for key, each in seconds.items() if each},
        useful_seconds={pair: each / 1e6 for pair, each in useful.items()},
        lifetimes={
            pair: Histogram(tuple(each[1:]), each[0] / 1e6) for pair, each in lifetimes.items()
        },
        closed={
            (pair, side): each[at - OPENED]
            for pair, each in by_broker.items()
            for side, at in CLOSED.items()
            if each[at - OPENED]
        },
        opened=_by_pair(by_broker, OPENED),
        outgoing_bytes=_by_pair(by_broker, SENT),
        incoming_bytes=_by_pair(by_broker, RECEIVED),
        retransmits=_by_pair(by_broker, RETRANSMITS),
        connect_failures=_by_pair(by_broker, CLOSED[ClosedBy.REFUSED]),
    )


def _by_pair(by_broker: AtBrokers, at: int) -> dict[ClientBroker, int]:
    """Return one number of every client and broker that has it."""
    return {pair: each[at - OPENED] for pair, each in by_broker.items() if each[at - OPENED]}
