"""Who is in the fleet: clusters, services and their places, by size, mix and seed.

Pure, and cheap enough for each process that writes a part of the journals to repeat it whole.
"""

from __future__ import annotations

__all__ = [
    "BEHAVIOURS",
    "DEFAULT_MIX",
    "FIRST_HOUR_MS",
    "Fleet",
    "Order",
    "parse_mix",
    "plan_fleet",
]

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from fleet_simulator.events import HOUR_MS, WEEK_MS, Broker, Cluster, Service

# Monday 2026-01-05 08:00 UTC: a seed must mean the same fleet on every day.
FIRST_HOUR_MS = 1_767_600_000_000

# Shares of the agents. Each is a way of holding connections, see `behaviours`.
DEFAULT_MIX = {
    "producer": 22,
    "consumer": 24,
    "streams": 10,
    "superseded": 12,
    "idle_off": 9,
    "per_request": 4,
    "excess": 6,
    "stuck": 4,
    "probe": 3,
    "storm": 3,
    "stale": 2,
    "ghost": 1,
}
BEHAVIOURS = tuple(DEFAULT_MIX)

_SIZES = (1, 2, 3, 3, 4, 6, 8, 12, 20)
_NAMESPACES = ("checkout", "payments", "catalogue", "logistics", "identity", "analytics", "search")
_WORDS = ("orders", "prices", "stock", "events", "mail", "fraud", "routes", "carts", "invoices",
          "sessions", "refunds", "labels", "quotes", "offers", "alerts", "audit")  # fmt: skip
_SITES = ("prod-eu", "prod-us")
_CLUSTERS = ("core", "edge", "analytics", "payments", "archive", "lab")
_LIBRARIES = {
    "java": (("2.1.0", 2), ("2.8.2", 2), ("3.9.2", 5), ("4.4.0", 3)),
    "librdkafka": (("1.9.2", 1), ("2.8.0", 2), ("2.16.0", 4)),
}
# Streams are Java; so are most clients that close no idle connection or keep their first ones.
_ALWAYS_JAVA = frozenset({"streams", "idle_off", "superseded", "stuck"})
_NO_LIBRARY = frozenset({"probe"})
# Connections a pod holds to each broker, about: for limits that mean something.
_USUAL = {"streams": 6, "excess": 6, "superseded": 2, "idle_off": 2, "probe": 0, "per_request": 1}
# How full the fullest broker of a limited cluster is, about.
_FILL = 0.8
_MANY_BROKERS_FROM = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for."""

    agents: int
    hours: int
    weeks: int = 1
    seed: int = 0
    start: int = FIRST_HOUR_MS
    mix: dict[str, int] = field(default_factory=lambda: dict(DEFAULT_MIX))

    def __post_init__(self) -> None:
        if self.agents < 1 or self.hours < 1 or self.weeks < 1:
            raise ValueError("agents, hours and weeks must be 1 or more")
        if self.start % HOUR_MS:
            raise ValueError("start must be a whole hour")
        if self.hours * HOUR_MS > WEEK_MS:
            raise ValueError("hours must fit into one week; ask for more weeks instead")

    def window(self, week: int) -> tuple[int, int]:
        """Return when the simulated hours of a week begin and end."""
        begin = self.start + week * WEEK_MS
        return begin, begin + self.hours * HOUR_MS


class Outage(NamedTuple):
    """A broker that restarts: every connection to it ends at `at`."""

    cluster: str
    broker: int
    at: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """All services, and what befalls their brokers in each week."""

    order: Order
    services: tuple[Service, ...]
    outages: tuple[Outage, ...]


def parse_mix(text: str) -> dict[str, int]:
    """Read `producer=40,idle_off=10`: shares of the agents; what is not named has none."""
    mix: dict[str, int] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if name not in BEHAVIOURS:
            raise ValueError(f"{name!r} is not one of {', '.join(BEHAVIOURS)}")
        if not share.isdecimal():
            raise ValueError(f"{name} needs a whole number of shares, not {share!r}")
        mix[name] = int(share)
    if not sum(mix.values()):
        raise ValueError("a mix needs at least one share")
    return mix


def plan_fleet(order: Order) -> Fleet:
    """Lay out services until there are as many agents as were asked for."""
    random = Random(f"{order.seed}/plan")
    clusters = _CLUSTERS[: min(len(_CLUSTERS), 1 + order.agents // 60)]
    brokers = 6 if order.agents >= _MANY_BROKERS_FROM else 3
    bare = {name: _cluster(name, brokers, None) for name in clusters}
    drafts: list[Service] = []
    given = dict.fromkeys(order.mix, 0)
    agents = 0
    while agents < order.agents:
        behaviour = _furthest_behind(order.mix, given, agents)
        sizes = [size for size in _SIZES if size <= max(1, order.agents // 10)]
        pods = min(random.choice(sizes), order.agents - agents)
        drafts.append(_service(random, len(drafts), bare, behaviour, agents, pods))
        given[behaviour] += pods
        agents += pods
    limited = _limits(drafts, bare)
    services = tuple(draft._replace(cluster=limited[draft.cluster.name]) for draft in drafts)
    return Fleet(order, services, tuple(_outages(random, order, limited)))


def _furthest_behind(mix: dict[str, int], given: dict[str, int], agents: int) -> str:
    """Choose what has got least of its share, so that a small fleet has every sin too."""
    total = sum(mix.values())
    return max(mix, key=lambda name: (mix[name] * (agents + 1) / total - given[name], name))


def _service(
    random: Random, index: int, clusters: dict[str, Cluster], behaviour: str, agent: int, pods: int
) -> Service:
    if behaviour in _NO_LIBRARY:
        library, version = "", ""
    else:
        java = behaviour in _ALWAYS_JAVA or random.random() < 0.6
        library = "java" if java else "librdkafka"
        versions, weights = zip(*_LIBRARIES[library], strict=True)
        version = random.choices(versions, weights)[0]
    word = _WORDS[index % len(_WORDS)]
    turn = index // len(_WORDS)
    suffix = {"probe": "health", "streams": "aggregator", "producer": "writer"}.get(
        behaviour, "worker"
    )
    return Service(
        number=index,
        site=random.choice(_SITES),
        cluster=random.choice(list(clusters.values())),
        namespace=random.choice(_NAMESPACES),
        name=f"{word}-{suffix}" + (f"-{turn + 1}" if turn else ""),
        behaviour=behaviour,
        library=library,
        version=version,
        first_agent=agent,
        pods=pods,
    )


def _cluster(name: str, brokers: int, limits: list[int | None] | None) -> Cluster:
    return Cluster(
        name,
        tuple(
            Broker(
                broker_id=number + 1,
                address=f"10.9.{_CLUSTERS.index(name)}.{number + 10}:9092",
                max_connections=limits[number] if limits else None,
                max_connections_per_ip=None,
            )
            for number in range(brokers)
        ),
    )


def _limits(services: list[Service], clusters: dict[str, Cluster]) -> dict[str, Cluster]:
    """Give every other cluster limits near what its clients hold; of the others nobody knows."""
    made = {}
    for number, (name, cluster) in enumerate(clusters.items()):
        if number % 2:
            made[name] = cluster
            continue
        held = sum(
            service.pods * _USUAL.get(service.behaviour, 2)
            for service in services
            if service.cluster.name == name
        )
        fair = max(10, round(held / _FILL / 10) * 10)
        # The last broker is an older machine: it takes less.
        limits: list[int | None] = [fair] * len(cluster.brokers)
        limits[-1] = max(10, round(fair * 0.85 / 10) * 10)
        made[name] = _cluster(name, len(cluster.brokers), limits)
    return made


def _outages(random: Random, order: Order, clusters: dict[str, Cluster]) -> list[Outage]:
    """Restart one broker of each cluster in each simulated day."""
    made = []
    for week in range(order.weeks):
        begin, end = order.window(week)
        for cluster in clusters.values():
            for day in range(begin, end, 24 * HOUR_MS):
                at = random.randrange(day, min(day + 24 * HOUR_MS, end))
                made.append(Outage(cluster.name, random.randrange(len(cluster.brokers)), at))
    return made
