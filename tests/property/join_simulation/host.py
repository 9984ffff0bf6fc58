"""A host: its brokers, its processes, and time that goes on."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from exporter.model import Endpoint
from tests.property.join_simulation.connecting import Sockets
from tests.property.join_simulation.security import PROFILES
from tests.property.join_simulation.traits import TRAITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.model import Library, Owner
    from tests.property.join_simulation.clients import Plan
    from tests.property.join_simulation.wires import Client, Node

# No exchange begins so shortly before a connection closes: it would go unanswered.
QUIET_SECONDS = 1.0

NEVER = float("inf")


@dataclass(frozen=True)
class Broker:
    broker_id: int
    address: str
    certificate: int
    port_offset: int = 0

    def at(self, port: int) -> Endpoint:
        return Endpoint(self.address, port + self.port_offset)


@dataclass(eq=False)
class Process:
    """A process: who owns its sockets, which page tells of its clients."""

    pid: int
    owner: Owner
    source: str
    library: Library
    version: str
    sender_pid: int | None
    list_order: list[int]
    clients: list[Client] = field(default_factory=list)
    is_here: bool = True
    """Whether its sockets are seen on this host."""
    victim: Process | None = None
    """The process in whose name it posts."""


class Host:
    """All that is, at any moment up to `now`. `population.populate` brings it to life."""

    def __init__(self, profile: str, seed: int, traits: dict[str, bool] | None = None) -> None:
        if profile not in PROFILES:
            raise ValueError(f"profile: must be one of {', '.join(PROFILES)}, not {profile!r}")
        unknown = set(traits or {}) - set(TRAITS)
        if unknown:
            raise ValueError(f"no such trait: {', '.join(sorted(unknown))}")
        self.profile, self.seed = profile, seed
        self.chance = chance = random.Random(f"{profile} {seed}")
        # Drawn for all, so that switching one off changes as little as may be.
        drawn = {name: chance.random() < share for name, share in TRAITS.items()}
        self.traits = drawn | (traits or {})
        self.now = 100.0
        self.sockets = Sockets(chance, "10.9.9.9")
        self.sockets.ecdsa = self.traits["ecdsa"]
        self.sockets.resumed_bootstrap = 0.1 if self.traits["resumed bootstrap"] else 0.0
        self.sockets.slow_peers = self.traits["slow peers"]
        self.brokers = self._make_brokers()
        self.plans: dict[Client, tuple[Process, Plan]] = {}
        self.processes: list[Process] = []
        self.groups = count(1)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()

    def _make_brokers(self) -> list[Broker]:
        chance = self.chance
        first = chance.choice((0, 1, 1, 101))
        some = [0]
        if self.traits["own certificates"]:
            # A name's length more or less, or another chain.
            some = [0, 5, 11, 40, chance.randint(1, 60), chance.randint(100, 2_000)]
        numbers = range(chance.choice((1, 2, 3, 3, 4)))
        if self.traits["one address"]:
            return [
                Broker(first + each, "10.0.0.1", chance.choice(some), 10 * each) for each in numbers
            ]
        return [Broker(first + each, f"10.0.0.{each + 1}", chance.choice(some)) for each in numbers]

    def addresses_of(self, name: str) -> frozenset[str]:
        """Resolve a broker's host name."""
        return frozenset(
            broker.address for broker in self.brokers if name == host_name(broker.broker_id)
        )

    def process_of(self, client: Client) -> Process:
        return self.plans[client][0]

    # ---- time ------------------------------------------------------------------------------------

    def at(self, at: float, do: Callable[[float], None]) -> None:
        """Let something happen at a moment."""
        heapq.heappush(self._events, (at, next(self._order), do))

    def advance(self, until: float) -> None:
        """Let everything happen that begins before a moment."""
        while self._events and self._events[0][0] < until:
            at, _order, do = heapq.heappop(self._events)
            self._talk(at)
            do(at)
        self._talk(until)
        self.now = until

    def _talk(self, until: float) -> None:
        for client in self.plans:
            if client.started_at > until:
                continue
            for node in client.nodes.values():
                if node.next_at < until and node.wire is not None:
                    self._talk_at(node, until)

    def _talk_at(self, node: Node, until: float) -> None:
        wire = node.wire
        until = min(until, wire.closed_at - QUIET_SECONDS, node.client.ended_at - QUIET_SECONDS)
        while node.next_at < until:
            at = max(node.next_at, wire.ready_at)
            if at >= wire.login_at:
                at = self.sockets.log_in_again(wire, node, at)
            node.next_at = max(node.talk(at), at + 0.0005)


def host_name(broker_id: int) -> str:
    return f"broker-{broker_id}.kafka"
