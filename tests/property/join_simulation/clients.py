"""What clients do: whom they connect to, when, and what they send."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor
from typing import TYPE_CHECKING

from exporter.model import ClientKind, Library, Role
from tests.property.join_simulation.connecting import OLD_JAVA
from tests.property.join_simulation.host import NEVER
from tests.property.join_simulation.wires import NO_ANSWER, Message

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from tests.property.join_simulation.host import Process
    from tests.property.join_simulation.wires import Client, Node

INTEGER_MAX = 2**31 - 1
FETCH_WAIT = 0.5
HEARTBEAT_SECONDS = 3.0


@dataclass(frozen=True)
class Plan:
    """What a client is to do; twins have the same. Sizes are those of one client's requests."""

    kind: ClientKind
    version: str
    uses: tuple[int, ...]
    """Brokers to which it sends records, or admin requests."""
    knows: tuple[int, ...]
    """Brokers that it asked for metadata once."""
    coordinator: int | None
    bootstraps: int
    rate: float
    partitions: int
    heartbeat: int
    metadata: Message
    steady: bool = False
    """Whether all its requests are of one size, at times that its nodes and its twins share."""
    sends_from: float = 0.0
    sends_until: float = float("inf")
    acks: bool = True
    greets: bool = True
    """Whether it says anything at all on its connections."""
    large: float = 0.0
    refresh_seconds: float | None = None

    def beat(self, at: float) -> float:
        """Return when the next of its requests is due that are sent in step."""
        return (floor(at * self.rate + 1e-6) + 1) / self.rate


def plan_of(
    chance: random.Random, process: Process, brokers: Sequence[int], traits: Mapping[str, bool]
) -> Plan:
    """Think of a client."""
    is_java = process.library is Library.JAVA
    producer, consumer = ClientKind.PRODUCER, ClientKind.CONSUMER
    kind = chance.choice((producer, producer, consumer, consumer, ClientKind.ADMIN))
    # Clients whose partitions live on one broker are common, and some send nothing at all.
    count = chance.choice((0, 1, 1, 2, len(brokers), len(brokers)))
    uses = chance.sample(brokers, min(count, len(brokers)))
    knows = [each for each in brokers if each not in uses and chance.random() < 0.4]
    metadata = chance.randint(100, 380)
    if traits["large metadata"] and chance.random() < 0.4:
        metadata = chance.randint(16_000, 70_000)
    transactional = kind is producer and chance.random() < 0.25
    grouped = kind is consumer and chance.random() < 0.85
    most = (3 if process.version == OLD_JAVA else 2) if is_java else 1
    rate = chance.choice((0.1, 0.5, 1.0, 1.0, 3.0))
    refreshes = traits["metadata refreshes"] and chance.random() < 0.5
    return Plan(
        kind=kind, version=process.version, uses=tuple(uses), knows=tuple(knows),
        coordinator=chance.choice(brokers) if grouped or transactional else None,
        bootstraps=chance.randint(1, most),
        rate=20.0 if traits["busy"] and chance.random() < 0.3 else rate,
        partitions=chance.randint(1, 3), heartbeat=chance.randint(80, 150),
        metadata=Message(metadata), steady=chance.random() < (0.8 if traits["in step"] else 0.1),
        sends_from=chance.choice((0.0, 0.0, 0.0, chance.uniform(0, 40))),
        sends_until=chance.choice((NEVER, NEVER, NEVER, chance.uniform(10, 60))),
        acks=chance.random() > 0.04, large=chance.choice((0.0, 0.0, 0.05)),
        refresh_seconds=chance.uniform(5, 30) if refreshes else None,
    )  # fmt: skip


def coordinator_id(version: str, broker_id: int) -> str:
    return f"+{broker_id}" if version >= "4.4" else str(INTEGER_MAX - broker_id)


def learned_role(kind: ClientKind) -> Role:
    return Role.ADMIN if kind is ClientKind.ADMIN else Role.DATA


# ---- greetings -----------------------------------------------------------------------------------


def greet(node: Node, plan: Plan, at: float, answer: int, more: tuple[str, ...] = ()) -> float:
    """Send what every connection begins with, and what it was opened for besides."""
    client = node.client
    name = len(client.client_id)
    if client.library is not Library.JAVA:
        messages = [(58 + name, 724)]
    elif client.version == OLD_JAVA:
        messages = [(14 + name, answer)]
    elif client.version >= "4.4":
        messages = [(40 + name, answer), (44 + name, 20)]
    else:
        messages = [(40 + name, answer)]
    messages += [
        {
            "metadata": (18 + name, plan.metadata.size),
            "producer": (22 + name, 24),
            "coordinator": (30 + name, 41),
            "join": (2 * plan.heartbeat, 180),
            "sync": (plan.heartbeat + 20, 60),
            "offsets": (plan.heartbeat, 90),
        }[each]
        for each in more
    ]
    for out, incoming in messages:
        at = ask(node, at + 0.0004, out, incoming, 0.002)
    return at


def ask(node: Node, at: float, out: int, incoming: int, after: float) -> float:
    """Send a request that is a record of its own and take the answer, however large it is."""
    records = node.client.security.records(incoming)
    answer = Message(incoming, records, pieces=min(records, 3))
    return node.exchange(at, Message(out, records_of_request(node.client)), answer, after)


def records_of_request(client: Client) -> int:
    """Return how many records a small request takes: old clients write its length apart."""
    return 2 if client.library is Library.JAVA and client.version == OLD_JAVA else 1


# ---- what goes on --------------------------------------------------------------------------------
# Each returns a function that does one exchange and says when the next is due.


def heartbeats(node: Node, plan: Plan, chance: random.Random) -> Callable[[float], float]:
    commits_at = 0.0
    rtt = chance.uniform(0.0003, 0.004)

    def talk(at: float) -> float:
        nonlocal commits_at
        if at >= commits_at and plan.rate > 0.4:
            commits_at = at + 5.0
            at = ask(node, at, plan.heartbeat + 41, 37, rtt)
        ask(node, at, plan.heartbeat, 16, rtt)
        return at + HEARTBEAT_SECONDS

    return talk


def transactions(node: Node, plan: Plan, chance: random.Random) -> Callable[[float], float]:
    def talk(at: float) -> float:
        done = ask(node, at, plan.heartbeat + 12, 40, 0.002)
        ask(node, done + 0.05, plan.heartbeat, 16, 0.003)
        return at + chance.uniform(1.0, 3.0)

    return talk


def asks(node: Node, _plan: Plan, chance: random.Random) -> Callable[[float], float]:
    def talk(at: float) -> float:
        ask(node, at, chance.randint(30, 120), chance.choice((60, 90, 400, 1_200)), 0.004)
        return at + chance.uniform(1.5, 10.0)

    return talk


def produces(node: Node, plan: Plan, chance: random.Random) -> Callable[[float], float]:
    client = node.client
    head = 70 + len(client.client_id)

    def talk(at: float) -> float:
        late = 0.0
        if plan.steady:
            batches = [120]
        else:
            batches = [chance.randint(20, 200) for _ in range(chance.randint(1, plan.partitions))]
            if plan.large and chance.random() < plan.large:
                batches[0] = chance.randint(3_000, 70_000)
                late = client.full_buffer and chance.random() < 0.5 and chance.uniform(0.002, 0.5)
        size = head + sum(batches) + 40 * len(batches)
        sent = Message(size, _records_of_produce(client, chance, size, batches))
        answer = Message(40 + 22 * len(batches)) if plan.acks else NO_ANSWER
        done = node.exchange(at, sent, answer, chance.uniform(0.001, 0.006), late or 0.0)
        if late:
            return done
        return plan.beat(at) if plan.steady else at + chance.expovariate(plan.rate)

    return talk


def _records_of_produce(
    client: Client, chance: random.Random, size: int, batches: list[int]
) -> int:
    security = client.security
    if security.tls is None:
        return 1
    if client.library is not Library.JAVA:
        large = security.records(size)
        return large if large == 1 else large + chance.randint(0, 2)
    if client.version == OLD_JAVA:
        return 1 + security.records(size)
    return 1 + sum(1 + security.records(batch) for batch in batches)


def fetches(node: Node, plan: Plan, chance: random.Random) -> Callable[[float], float]:
    client = node.client
    out, likely = 59 + len(client.client_id), min(0.9, plan.rate / 2)
    records_out = records_of_request(client)
    is_first = True

    def talk(at: float) -> float:
        nonlocal is_first
        if is_first:
            is_first = False
            answer = Message(21 + 40 * plan.partitions, 2)
            return node.exchange(at, Message(out + 22, records_out), answer, 0.003) + 0.0005
        if plan.steady or chance.random() < likely:
            batches = [chance.randint(60, 600) for _ in range(chance.randint(1, plan.partitions))]
            if plan.steady:
                batches = [120]
            elif plan.large and chance.random() < plan.large:
                batches[0] = chance.randint(5_000, 200_000)
            size = 21 + sum(batches) + 60 * len(batches)
            records = 1 + sum(1 + _chunks(client, batch) for batch in batches)
            pieces = 1 if size < 3_000 else chance.randint(1, 4)
            answer = Message(size, records, pieces=pieces)
            most = min(FETCH_WAIT, 1.0 / plan.rate)
            after = most / 2 if plan.steady else chance.uniform(0.001, most)
        else:
            answer, after = Message(21), FETCH_WAIT
        done = node.exchange(at, Message(out, records_out), answer, after) + 0.0005
        return plan.beat(done) if plan.steady else done

    return talk


def _chunks(client: Client, size: int) -> int:
    """Return how many records a batch takes: the broker writes 32 KiB at a time."""
    whole, left = divmod(size, 32_768)
    records = client.security.records
    return whole * records(32_768) + (records(left) if left else 0)


def twin_of(plan: Plan, chance: random.Random) -> Plan:
    """Return the plan of a client with equal traffic, in step with it or not."""
    return replace(plan, steady=plan.steady or chance.random() < 0.4)
