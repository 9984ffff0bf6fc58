"""A host with processes and their clients, and what happens to them as time goes on."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from exporter.model import ClientKind, Endpoint, Library, Owner, OwnerRung, Role
from tests.property.join_simulation import clients as doing
from tests.property.join_simulation.connecting import OLD_JAVA, Sockets
from tests.property.join_simulation.security import PROFILES, security_of
from tests.property.join_simulation.wires import COUNT_SECONDS, Client, Node, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.property.join_simulation.clients import Plan

# The share of runs in which each trait is found.
TRAITS = {
    "shuffled lists": 0.5, "own certificates": 0.5, "ecdsa": 0.2, "resumed bootstrap": 0.3,
    "lags": 0.7, "torn pages": 0.7, "full buffers": 0.3, "slow peers": 0.2, "twins": 0.3,
    "several processes": 0.3, "unknown sender": 0.3, "hidden clients": 0.1, "foreign page": 0.03,
    "hostile sender": 0.05, "restarts": 0.2, "reconnects": 0.4, "idle closing": 0.3, "late agent": 0.4,
    "key updates": 0.05, "large metadata": 0.1, "no counts": 0.2, "counts lag": 0.3, "no ciphers": 0.4,
    "groups": 0.7, "groups read late": 0.2, "shared uid": 0.1, "load balancer": 0.1,
    "not polling": 0.1, "late statistics": 0.3, "librdkafka": 0.25, "busy": 0.15,
}  # fmt: skip

JAVA_VERSIONS = ("3.9.2", "3.9.2", "4.4.0", OLD_JAVA)

# No exchange begins so shortly before a connection closes: it would go unanswered.
QUIET_SECONDS = 0.7


@dataclass(frozen=True)
class Broker:
    broker_id: int
    address: str
    certificate: int

    def at(self, port: int) -> Endpoint:
        return Endpoint(self.address, port)


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


class Host:
    """All that is, at any moment up to `now`."""

    def __init__(self, profile: str, seed: int, traits: dict[str, bool] | None = None) -> None:
        if profile not in PROFILES:
            raise ValueError(f"profile: must be one of {', '.join(PROFILES)}, not {profile!r}")
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
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._groups = count(1)
        self.plans: dict[Client, tuple[Process, Plan]] = {}
        self.processes: list[Process] = []
        self._make_processes()
        self._plan_accidents()

    # ---- the beginning ---------------------------------------------------------------------------

    def _make_brokers(self) -> list[Broker]:
        chance = self.chance
        first = chance.choice((0, 1, 1, 101))
        some = [0]
        if self.traits["own certificates"]:
            # A name's length more or less, or another chain.
            some = [0, 5, 11, 40, chance.randint(1, 60), chance.randint(100, 2_000)]
        return [
            Broker(first + number, f"10.0.0.{number + 1}", chance.choice(some))
            for number in range(chance.choice((1, 2, 3, 3, 4)))
        ]

    def _make_processes(self) -> None:
        chance, traits = self.chance, self.traits
        several = chance.randint(2, 3) if traits["several processes"] else 1
        for number in range(several):
            self._make_process(number)
        if traits["foreign page"]:
            self._make_process(several, is_here=False)
        for process in self.processes:
            for number in range(chance.choice((1, 2, 2, 3, 4, 6))):
                self._make_client(process, number)
            if traits["twins"]:
                self._make_twins(process)

    def _make_process(self, number: int, *, is_here: bool = True) -> None:
        chance, traits = self.chance, self.traits
        pid = 1_000 + 17 * number
        is_java = not traits["librdkafka"] or (number > 0 and chance.random() < 0.5)
        library = Library.JAVA if is_java else Library.LIBRDKAFKA
        if traits["shared uid"]:
            owner = Owner(key="uid:1000", rung=OwnerRung.UID, name="1000", uid=1000)
        else:
            name = "java" if is_java else "python"
            owner = Owner(
                key=f"pid:{pid}@1", rung=OwnerRung.PROC_FD, name=name, pid=pid, started=1.0,
                library=library,
            )  # fmt: skip
        known = is_here and not traits["unknown sender"]
        order = list(range(len(self.brokers)))
        chance.shuffle(order)
        self.processes.append(
            Process(
                pid=pid, owner=owner, source=f"app-{number}" if is_java else "unix:statistics",
                library=library, version=chance.choice(JAVA_VERSIONS) if is_java else "2.16.0",
                sender_pid=pid if known else None, list_order=order, is_here=is_here,
            )
        )  # fmt: skip

    def _make_client(self, process: Process, number: int) -> None:
        chance = self.chance
        ids = list(range(len(self.brokers)))
        plan = doing.plan_of(
            chance, process.library, process.version, ids, large=self.traits["large metadata"]
        )
        client_id = chance.choice(
            (
                f"{plan.kind}-{number + 1}",
                f"{'abcdefgh'[number % 8] * chance.randint(1, 9)}-{number}",
            )
        )
        if plan.kind is ClientKind.ADMIN and chance.random() < 0.6:
            client_id = f"adminclient-{number + 1}"
        self._start(
            process, plan, client_id, self.now + chance.choice((0.0, 0.0, chance.uniform(0, 25)))
        )

    def _make_twins(self, process: Process) -> None:
        """Add clients that do the same as another, under names of equal length, or under its own."""
        chance = self.chance
        likes = [each for each in process.clients if each.client_id[-1].isdigit()]
        if not likes:
            return
        client = chance.choice(likes)
        _process, plan = self.plans[client]
        plan = doing.twin_of(plan, chance)
        for number in range(chance.choice((1, 1, 2, 4))):
            name = client.client_id[:-1] + "789abcd"[number]
            at = client.started_at + chance.choice((0.0, 1.0, chance.uniform(0, 10)))
            self._start(process, plan, name, at)

    def _start(self, process: Process, plan: Plan, client_id: str, at: float) -> Client:
        """Let a client begin at some moment from now on."""
        chance, traits = self.chance, self.traits
        is_second = self.profile == "mixed" and chance.random() < 0.5
        security = security_of(
            "plaintext" if is_second else self.profile, process.library, self._security_of(process)
        )
        port = 9092 if self.profile == "plaintext" or is_second else 9093
        client = Client(
            client_id=client_id, kind=plan.kind, library=process.library, version=plan.version,
            security=security, port=port, group=next(self._groups), started_at=at,
            hidden=traits["hidden clients"] and chance.random() < 0.3,
            full_buffer=traits["full buffers"], largest_answer=plan.metadata.size,
        )  # fmt: skip
        if process.library is not Library.JAVA:
            client.instance = f"rdkafka#{plan.kind}-{client.group}@{at:.6f}"
        self.plans[client] = process, plan
        process.clients.append(client)
        self._at(at, lambda moment: self._begin(client, process, plan, moment))
        return client

    def _security_of(self, process: Process) -> random.Random:
        """Return what decides on a process's TLS: the same for all its clients."""
        return random.Random(f"{self.profile} {self.seed} {process.pid}")

    # ---- what happens ----------------------------------------------------------------------------

    def _at(self, at: float, do: Callable[[float], None]) -> None:
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
        talk = node.talk
        while node.next_at < until:
            at = max(node.next_at, wire.ready_at)
            if at >= wire.login_at:
                at = self.sockets.log_in_again(wire, node, at)
            node.next_at = max(talk(at), at + 0.0005)

    # ---- a client's life -------------------------------------------------------------------------

    def _begin(self, client: Client, process: Process, plan: Plan, at: float) -> None:
        """Connect to bootstrap servers; what is learned from them is connected to afterwards."""
        chance, brokers = self.chance, self.brokers
        order = list(process.list_order)
        if self.traits["shuffled lists"]:
            chance.shuffle(order)
        listed = order[: max(1, chance.randint(1, len(order)))]
        chosen = chance.sample(range(len(listed)), min(plan.bootstraps, len(listed)))
        learned = at
        for number, index in enumerate(chosen):
            broker = brokers[listed[index]]
            node = self._bootstrap_node(client, broker, index)
            wire = self.sockets.connect(node, at, is_bootstrap=True)
            at += chance.uniform(0.001, 0.2)
            more: tuple[str, ...] = ()
            if number == 0:
                more = (
                    "metadata",
                    *chance.sample(("producer", "coordinator"), chance.randint(0, 1)),
                )
            done = doing.greet(node, plan, wire.ready_at, self._answer(client), more)
            learned = max(learned, done) if number == 0 else learned
            if process.library is not Library.JAVA:
                wire.closed_at = max(wire.opened_at + 2.0, done + 0.5)
                node.gone_at = wire.closed_at + chance.uniform(0.0, 3.0)
            elif self.traits["idle closing"] and chance.random() < 0.6:
                wire.closed_at = done + chance.uniform(8.0, 40.0)
        at = learned + chance.uniform(0.001, 0.05)
        for broker_id in plan.uses:
            later = max(plan.sends_from, chance.choice((0.0, 0.0, 0.0, chance.uniform(0, 20))))
            self._at(at + later, lambda moment, b=broker_id: self._use(client, plan, b, moment))
        for broker_id in plan.knows:
            later = chance.choice((0.1, chance.uniform(0, 30)))
            self._at(at + later, lambda moment, b=broker_id: self._know(client, plan, b, moment))
        if plan.coordinator is not None:
            self._at(at, lambda moment: self._coordinate(client, plan, moment))

    def _bootstrap_node(self, client: Client, broker: Broker, index: int) -> Node:
        remote, certificate = broker.at(client.port), broker.certificate
        if self.traits["load balancer"]:
            remote, certificate = Endpoint("10.1.1.1", client.port), 0
        name = f"broker-{broker.broker_id}:{client.port}"
        is_java = client.library is Library.JAVA
        node_id = f"-{index + 1}" if is_java else f"{name}/bootstrap"
        node = Node(client, node_id, Role.BOOTSTRAP, None, remote, certificate)
        node.remote_name = None if is_java else str(remote)
        client.nodes[node_id] = node
        return node

    def _answer(self, client: Client) -> int:
        return {OLD_JAVA: 468}.get(client.version, 866)

    def _learned(self, client: Client, node_id: str, role: Role, broker_index: int) -> Node:
        known = client.nodes.get(node_id)
        if known is not None:
            return known
        broker = self.brokers[broker_index]
        node = Node(
            client, node_id, role, broker.broker_id, broker.at(client.port), broker.certificate
        )
        if client.library is not Library.JAVA:
            node.remote_name = str(node.remote)
        client.nodes[node_id] = node
        return node

    def _open(self, node: Node, plan: Plan, at: float, more: tuple[str, ...] = ()) -> float:
        """Connect a node and greet; return when it can go on."""
        wire = self.sockets.connect(node, at, is_bootstrap=False)
        return doing.greet(node, plan, wire.ready_at, self._answer(node.client), more)

    def _use(self, client: Client, plan: Plan, broker_index: int, at: float) -> None:
        if at > client.ended_at - 1.0:
            return
        broker_id = self.brokers[broker_index].broker_id
        node = self._learned(client, str(broker_id), doing.learned_role(client.kind), broker_index)
        done = node.busy_until if node.wire is not None else self._open(node, plan, at)
        make = {
            ClientKind.PRODUCER: doing.produces, ClientKind.CONSUMER: doing.fetches,
            ClientKind.ADMIN: doing.asks,
        }[client.kind]  # fmt: skip
        node.talk, node.next_at = make(node, plan, self.chance), max(at, done) + 0.001
        if plan.sends_until < 1e9:
            self._at(at + plan.sends_until, lambda _moment: _fall_silent(node))

    def _know(self, client: Client, plan: Plan, broker_index: int, at: float) -> None:
        if at > client.ended_at - 1.0:
            return
        broker_id = self.brokers[broker_index].broker_id
        node = self._learned(client, str(broker_id), doing.learned_role(client.kind), broker_index)
        if node.wire is None:
            more = ("metadata",) if self.chance.random() < 0.7 else ()
            self._open(node, plan, at, more)

    def _coordinate(self, client: Client, plan: Plan, at: float) -> None:
        broker = self.brokers[plan.coordinator]
        is_java = client.library is Library.JAVA
        if client.kind is ClientKind.CONSUMER:
            name = (
                doing.coordinator_id(client.version, broker.broker_id)
                if is_java
                else "GroupCoordinator"
            )
            node = self._learned(client, name, Role.COORDINATOR, plan.coordinator)
            done = self._open(node, plan, at, ("join", "sync", "offsets"))
            node.talk = doing.heartbeats(node, plan, self.chance)
        elif is_java:
            # A transaction coordinator is a plain node, which may carry records as well.
            role = doing.learned_role(client.kind)
            node = self._learned(client, str(broker.broker_id), role, plan.coordinator)
            if node.wire is not None:
                return
            done = self._open(node, plan, at, ("producer",))
            node.talk = doing.transactions(node, plan, self.chance)
        else:
            node = self._learned(client, "TxnCoordinator", Role.TRANSACTION, plan.coordinator)
            done = self._open(node, plan, at, ("producer",))
            node.talk = doing.transactions(node, plan, self.chance)
        node.next_at = done + 0.5

    # ---- what the observer plans -----------------------------------------------------------------

    def tear(self, client: Client, begin: float, end: float) -> None:
        """Interrupt a client's thread just after a write or a read that it then has not counted.

        Its busy nodes are brought up to that moment first.
        """
        self.advance(begin - 0.05)
        busy = [
            node for node in client.nodes.values()
            if node.next_at < end + 2.0 and node.wire is not None and node.busy_until < begin - 0.01
            and node.wire.closed_at > end + QUIET_SECONDS and node.wire.ready_at < begin - 0.05
            and node.wire.login_at > begin
        ]  # fmt: skip
        client.stalls = [stall for stall in client.stalls if stall[1] > begin - 5.0]
        client.stalls.append((begin, end))
        for node in self.chance.sample(busy, min(len(busy), self.chance.choice((1, 1, 2)))):
            if self.chance.random() < 0.3:
                # It has taken an answer that it has not counted.
                node.talk(begin - 0.04)
                if node.busy_until < end:
                    node.incoming.times[-1] = node.responses.times[-1] = node.busy_until = end
                node.next_at = max(node.next_at, node.busy_until)
                continue
            # Nothing is counted yet, or its bytes are.
            cut = self.chance.choice((0.4, 0.4, 1.4)) * COUNT_SECONDS
            node.next_at = max(node.talk(begin - cut), end)

    def _plan_accidents(self) -> None:
        chance, traits = self.chance, self.traits
        if traits["reconnects"]:
            for _ in range(chance.randint(1, 5)):
                self._at(self.now + chance.uniform(5, 80), self._lose_one)
        if traits["restarts"]:
            self._at(self.now + chance.uniform(10, 60), self._restart_one)
        if traits["key updates"]:
            self._at(self.now + chance.uniform(5, 70), self._renew_one)

    def _open_nodes(self, at: float) -> list[Node]:
        return [
            node
            for client in self.plans
            for node in client.nodes.values()
            if node.wire is not None and node.wire.closed_at > 1e9 and node.wire.ready_at < at
            and client.ended_at > 1e9
        ]  # fmt: skip

    def _lose_one(self, at: float) -> None:
        """Close a connection, or all to one broker; nodes that are in use connect again."""
        chance = self.chance
        nodes = self._open_nodes(at)
        if not nodes:
            return
        lost = [chance.choice(nodes)]
        if chance.random() < 0.2:
            lost = [node for node in nodes if node.remote == lost[0].remote]
        for node in lost:
            wire = node.wire
            wire.closed_at = at + 2.0
            if node.role is Role.BOOTSTRAP or (node.talk is None and chance.random() < 0.5):
                continue
            _process, plan = self.plans[node.client]
            self._at(
                at + 2.0 + chance.uniform(0.05, 3.0),
                lambda moment, n=node, p=plan: self._reopen(n, p, moment),
            )

    def _reopen(self, node: Node, plan: Plan, at: float) -> None:
        if at > node.client.ended_at - 1.0:
            return
        done = self._open(node, plan, at)
        if node.next_at < 1e9:
            node.next_at = max(node.next_at, done + 0.001)

    def _restart_one(self, at: float) -> None:
        """End a client and start it again under the same name."""
        chance = self.chance
        alive = [each for each in self.plans if each.started_at < at - 5 and each.ended_at > 1e9]
        if not alive:
            return
        client = chance.choice(alive)
        process, plan = self.plans[client]
        client.ended_at = at + 2.0
        for wire in client.wires:
            wire.closed_at = min(wire.closed_at, client.ended_at)
        for node in client.nodes.values():
            node.gone_at = min(node.gone_at, client.ended_at)
        again = self._start(process, plan, client.client_id, at + 2.0 + chance.uniform(0.05, 5.0))
        again.hidden = client.hidden

    def _renew_one(self, at: float) -> None:
        nodes = [each for each in self._open_nodes(at) if each.client.security.tls and each.talk]
        if nodes:
            node = self.chance.choice(nodes)
            self.sockets.renew_key(node.wire, max(at, node.busy_until))


def _fall_silent(node: Node) -> None:
    node.next_at = float("inf")


def wires_of(host: Host) -> list[Wire]:
    return host.sockets.wires
