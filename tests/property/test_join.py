"""A process simulated from the measured laws: the join is right, names equals, or knows nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.core.attribution import Attributor
from exporter.core.tracker import TrackedConnection
from exporter.model import (
    ClientKind,
    ClientReading,
    Endpoint,
    JoinSample,
    KernelReading,
    Library,
    NodeReading,
    Owner,
    OwnerRung,
    ReadMethod,
    Role,
    SocketReading,
    SourceReading,
    TcpInfo,
    TcpState,
)

OWNER = Owner(key="pid:1", rung=OwnerRung.PROC_FD, name="java", pid=1)
STRANGER = Owner(key="pid:2", rung=OwnerRung.PROC_FD, name="java", pid=2)


@dataclass(frozen=True)
class Profile:
    """What a security setting costs: per record, per request, per connection."""

    name: str
    cost: int = 0
    records: int = 1
    full: tuple[int, int] = (0, 0)
    resumed: tuple[int, int] = (0, 0)
    login: tuple[int, int] = (0, 0)
    repeats: int = 0
    jitter: int = 0


PROFILES = [
    Profile("plaintext"),
    Profile("sasl-plain", login=(71, 522), repeats=3),
    Profile("sasl-scram", login=(222, 689), repeats=4, jitter=1),
    Profile("tls13", cost=38, full=(536, 4212), resumed=(2540, 2248)),
    Profile("tls12-java-2.1", cost=29, records=2, full=(376, 4106), resumed=(2317, 2106)),
    Profile("mtls", cost=38, full=(2496, 6026), resumed=(4226, 3934)),
    Profile(
        "sasl-tls", cost=38, full=(721, 4848), resumed=(2725, 2884), login=(0, 0), repeats=3
    ),
    Profile(
        "scram-tls", cost=38, full=(872, 5053), resumed=(2875, 3089), repeats=4, jitter=1
    ),
]  # fmt: skip


@dataclass
class Node:
    """A client's totals for one node, and the connection it has now."""

    client_id: str
    kind: ClientKind
    node_id: str
    role: Role
    broker: int
    outgoing: int = 0
    incoming: int = 0
    requests: int = 0
    cookie: int | None = None
    pace: int = 0
    last: tuple[int, int] = (0, 0)
    """What its last exchange sent and received."""


@dataclass
class Wire:
    """One connection's kernel counts."""

    cookie: int
    remote: Endpoint
    opened_at: float
    out: int
    incoming: int


@dataclass
class Process:
    """Clients that talk, and an agent that looks."""

    profile: Profile
    chance: random.Random
    nodes: list[Node] = field(default_factory=list)
    wires: dict[int, Wire] = field(default_factory=dict)
    truth: dict[int, Node] = field(default_factory=dict)
    strangers: set[int] = field(default_factory=set)
    at: float = 100.0
    next_cookie: int = 1
    lagging: float = 0.0
    """How often a busy node is read in the middle of an exchange."""

    def add_client(self, number: int, brokers: int) -> None:
        kind = self.chance.choice([ClientKind.PRODUCER, ClientKind.CONSUMER, ClientKind.ADMIN])
        name = f"{'abcdefgh'[number] * self.chance.randint(1, 6)}-{number}"
        for index in range(1, self.chance.randint(1, brokers) + 1):
            self.nodes.append(Node(name, kind, str(-index), Role.BOOTSTRAP, index))
        role = Role.ADMIN if kind is ClientKind.ADMIN else Role.DATA
        pace = self.chance.choice([0, 0, 1, 3])
        for broker in range(1, brokers + 1):
            if self.chance.random() < 0.8:
                self.nodes.append(Node(name, kind, str(broker), role, broker, pace=pace))
        if kind is ClientKind.CONSUMER:
            broker = self.chance.randint(1, brokers)
            node_id = str(2147483647 - broker)
            self.nodes.append(Node(name, kind, node_id, Role.COORDINATOR, broker, pace=1))

    def open(self, node: Node, *, resumed: bool) -> None:
        profile, chance = self.profile, self.chance
        out, incoming = profile.resumed if resumed and profile.cost else profile.full
        out += profile.login[0] + profile.repeats * len(node.client_id)
        incoming += profile.login[1]
        out += chance.randint(-profile.jitter, profile.jitter)
        incoming += chance.randint(-profile.jitter, profile.jitter)
        cookie, self.next_cookie = self.next_cookie, self.next_cookie + 1
        remote = Endpoint(f"10.0.0.{node.broker}", 9093)
        self.wires[cookie] = Wire(cookie, remote, self.at, out, incoming)
        self.truth[cookie] = node
        node.cookie = cookie
        self.exchange(node, 26 + len(node.client_id), 468)
        for _ in range(chance.randint(0, 2)):
            self.exchange(node, chance.randint(30, 60), chance.choice([102, 134, 337]))

    def close(self, node: Node) -> int | None:
        cookie, node.cookie = node.cookie, None
        if cookie is not None:
            del self.wires[cookie], self.truth[cookie]
        return cookie

    def exchange(
        self, node: Node, out: int, incoming: int, *, more_out: int = 0, more_in: int = 0
    ) -> None:
        wire = self.wires[node.cookie]
        cost, records = self.profile.cost, self.profile.records
        node.outgoing += out
        node.incoming += incoming
        node.requests += 1
        node.last = out, incoming
        wire.out += out + cost * (records + more_out)
        wire.incoming += incoming + cost * (1 + more_in)

    def talk(self, share: float) -> None:
        """Let the busy nodes do a part of what they do in two seconds."""
        for node in self.nodes:
            if node.cookie is None or not node.pace:
                continue
            for _ in range(node.pace):
                if self.chance.random() > share:
                    continue
                if node.role is Role.COORDINATOR:
                    self.exchange(node, 109, 14)
                elif node.kind is ClientKind.PRODUCER:
                    partitions = self.chance.randint(1, 3)
                    more = 2 * partitions if self.profile.records == 1 else 0
                    size = 70 + 40 * partitions + self.chance.randint(0, 20)
                    self.exchange(node, size, 40 + 22 * partitions, more_out=more)
                elif node.kind is ClientKind.CONSUMER:
                    data = self.chance.random() < 0.3
                    self.exchange(
                        node, 59, 21 + 90 * data, more_in=2 * data if self.profile.cost else 0
                    )
                else:
                    self.exchange(node, 40, self.chance.choice([60, 90]))

    def look(self) -> KernelReading:
        return KernelReading(
            at=self.at, method=ReadMethod.SOCK_DIAG,
            sockets=tuple(
                SocketReading(
                    at=self.at, cookie=wire.cookie, local=Endpoint("10.9.9.9", wire.cookie),
                    remote=wire.remote, tcp_state=TcpState.ESTABLISHED, inode=wire.cookie, uid=0,
                    cgroup_id=None, receive_queue=0, send_queue=0, retransmits=0,
                    info=TcpInfo(bytes_acked=1 + wire.out, bytes_received=wire.incoming),
                )
                for wire in self.shuffled(self.wires.values())
            ),
        )  # fmt: skip

    def shuffled(self, values):
        values = list(values)
        self.chance.shuffle(values)
        return values

    def page(self) -> SourceReading:
        clients: dict[tuple[str, ClientKind], list[NodeReading]] = {}
        for node in self.shuffled(self.nodes):
            lag = self.lag(node)
            clients.setdefault((node.client_id, node.kind), []).append(
                NodeReading(
                    node_id=node.node_id, role=node.role,
                    broker_id=None if node.role is Role.BOOTSTRAP else node.broker,
                    outgoing_bytes=node.outgoing - lag[0], incoming_bytes=node.incoming - lag[1],
                    requests=node.requests - lag[2], responses=node.requests - lag[3],
                )
            )  # fmt: skip
        return SourceReading(
            source="app", begun_at=self.at, ended_at=self.at,
            clients=tuple(
                ClientReading(client_id=name, kind=kind, library=Library.JAVA, nodes=tuple(nodes))
                for (name, kind), nodes in clients.items()
            ),
        )  # fmt: skip

    def lag(self, node: Node) -> tuple[int, int, int, int]:
        """Return what a client's thread has done and not yet counted: it was interrupted.

        It counts bytes as it writes and reads, requests and responses when it has done with all.
        """
        if not node.pace or self.chance.random() >= self.lagging:
            return 0, 0, 0, 0
        out, incoming = node.last
        return self.chance.choice(
            [(0, 0, 1, 1), (0, 0, 0, 1), (0, incoming, 0, 1), (out, incoming, 1, 1)]
        )

    def sample(self, *, busy: bool) -> JoinSample:
        """Look, read and look again; `busy` lets bytes go in between."""
        before = self.look()
        if busy:
            self.talk(0.2)
        reading = self.page()
        if busy:
            self.talk(0.2)
        return JoinSample(before=before, reading=reading, after=self.look())

    def tracked(self) -> dict[int, TrackedConnection]:
        return {
            reading.cookie: TrackedConnection(
                reading=reading,
                owner=STRANGER if reading.cookie in self.strangers else OWNER,
                opened_at=self.wires[reading.cookie].opened_at,
                age_is_exact=True, first_for_owner=False, last_activity_at=self.at,
            )
            for reading in self.look().sockets
        }  # fmt: skip


def check(process: Process, attributor: Attributor) -> tuple[int, int]:
    """No attribution is wrong without naming the truth; return how many are right and unknown."""
    right = unknown = 0
    for cookie, node in process.truth.items():
        known = attributor.attributions.get(cookie)
        if known is None:
            unknown += 1
            continue
        named = f"{node.kind} {node.client_id!r} node {node.node_id}"
        if (known.client.client_id, known.node.node_id) == (node.client_id, node.node_id):
            right += 1
        else:
            assert named in known.equals, (process.profile.name, named, known)
    return right, unknown


def simulate(
    profile: Profile,
    seed: int,
    *,
    clients: int,
    brokers: int,
    reads: int,
    late: bool,
    churn: float,
    lagging: float = 0.0,
) -> tuple[int, int, int]:
    chance = random.Random(seed)
    process = Process(profile, chance, lagging=lagging)
    attributor = Attributor()
    for number in range(clients):
        process.add_client(number, brokers)
    for node in process.nodes:
        resumed = node.role is not Role.BOOTSTRAP and chance.random() < 0.6
        process.open(node, resumed=resumed)
        process.at += 0.01
    if late:
        process.talk(1.0)
    for _ in range(reads):
        process.at += 2.0
        process.talk(chance.choice([0.3, 1.0]))
        if chance.random() < churn:
            node = chance.choice(process.nodes)
            gone = process.close(node)
            if gone is not None:
                attributor.forget([gone])
                if node.role is not Role.BOOTSTRAP:
                    process.open(node, resumed=chance.random() < 0.7)
        attributor.update(process.sample(busy=chance.random() < 0.3), process.tracked())
        check(process, attributor)
    right, unknown = check(process, attributor)
    return right, unknown, len(process.truth)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    seed=st.integers(0, 2**32),
    clients=st.integers(1, 5),
    brokers=st.integers(1, 3),
    late=st.booleans(),
    churn=st.sampled_from([0.0, 0.0, 0.2]),
)
def test_the_join_is_never_wrong(profile, seed, clients, brokers, late, churn):
    simulate(profile, seed, clients=clients, brokers=brokers, reads=12, late=late, churn=churn)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(seed=st.integers(0, 2**32), clients=st.integers(1, 5), brokers=st.integers(1, 3))
def test_totals_that_lag_now_and_then(profile, seed, clients, brokers):
    simulate(
        profile, seed, clients=clients, brokers=brokers,
        reads=12, late=False, churn=0.0, lagging=0.02,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seed", "clients", "brokers", "late", "churn"),
    [(81, 5, 2, True, 0.2), (100036, 3, 3, True, 0.0)],
)
def test_scram_under_tls_is_never_wrong(seed, clients, brokers, late, churn):
    """Nonces vary the handshake, records hide what a producer sent: these were wrong once."""
    profile = next(each for each in PROFILES if each.name == "scram-tls")
    simulate(profile, seed, clients=clients, brokers=brokers, reads=12, late=late, churn=churn)
