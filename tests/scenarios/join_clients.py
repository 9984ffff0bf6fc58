"""Client processes for the join to tell apart: the ordinary ones, and the hard ones by seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tests.lab.clients import ClientProcess
    from tests.lab.cluster import KafkaCluster

# Lengths differ: under SASL the client.id's length is part of what a login weighs.
_NAMES = (
    "orders", "invoice-writer", "p", "shipping-events", "stock", "web", "fraud-check-7", "mail",
)  # fmt: skip


# Metadata about so many partitions takes two TLS records (16 KiB each) and more.
WIDE_PARTITIONS = 600


def near(broker: int) -> str:
    """Return the name of the topic whose partitions all live on one broker."""
    return f"near-{broker}"


def create_topics(cluster: KafkaCluster, *, wide: bool = False) -> None:
    """Create what the clients of this module use."""
    cluster.create_topic("play", 6)
    if wide:
        cluster.create_topic("wide", WIDE_PARTITIONS)
    for broker in cluster.broker_ids:
        cluster.create_topic(near(broker), 3, leaders=[broker] * 3)


def populate_process(
    process: ClientProcess,
    name: str,
    *,
    more: Mapping[str, object],
    producers: int = 0,
    **common: Any,
) -> None:
    """Give a process one of everything: the ordinary connections of an application."""
    process.producer(f"orders-{name}", **common, properties=more)
    process.send(f"orders-{name}", "play", partitions=range(6), rounds=-1, interval=1, wait=False)
    transactional = {**more, "transactional.id": f"pay-{name}"}
    process.producer(f"payments-{name}", **common, properties=transactional)
    process.send(f"payments-{name}", "play", partitions=range(6))
    process.consumer(
        f"billing-{name}", topics=["play"], group=f"g-{name}", **common, properties=more
    )
    process.admin(f"operator-{name}", **common, properties=more)
    process.ask(f"operator-{name}")
    for number in range(producers):
        process.producer(f"equal-{number}-{name}", **common, properties=more)
        process.send(f"equal-{number}-{name}", "play", partitions=range(6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a process has that makes its connections hard to tell apart."""

    shuffled: bool
    """Each client has its bootstrap servers in an order of its own."""
    one_broker: bool
    """Each client's partitions live on one broker: most of its connections are idle."""
    busy: int
    idle: int
    """Producers that send for ever, and once."""
    equal: int
    """Producers more, of names of one length, that do the same."""
    transactional: bool
    consumers: int
    admins: int

    @classmethod
    def drawn(cls, random: Random) -> Traits:
        """Draw the traits of one process."""
        return cls(
            shuffled=random.random() < 0.7,
            one_broker=random.random() < 0.6,
            busy=random.randint(0, 2),
            idle=random.randint(0, 2),
            equal=random.choice((0, 0, 2, 3)),
            transactional=random.random() < 0.3,
            consumers=random.randint(1, 2),
            admins=random.randint(0, 2),
        )

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in self.__slots__}
        counts = [f"{name} {value}" for name, value in given.items() if value and value is not True]
        return ", ".join([*(name for name, value in given.items() if value is True), *counts])


def populate_hard(
    process: ClientProcess,
    name: str,
    traits: Traits,
    random: Random,
    *,
    listener: str,
    mechanism: Any,
    properties: Mapping[str, object],
) -> None:
    """Give a process the clients that the traits describe; `name` makes their ids unique."""
    cluster = process.cluster
    names = random.sample(_NAMES, len(_NAMES))

    def client_id(kind: str) -> str:
        return f"{kind}-{names.pop()}-{name}"

    def options(**more: object) -> dict[str, Any]:
        order = list(cluster.broker_ids)
        if traits.shuffled:
            random.shuffle(order)
        servers = cluster.bootstrap(listener, brokers=order)
        return {
            "listener": listener,
            "mechanism": mechanism,
            "properties": {**properties, "bootstrap.servers": servers, **more},
        }

    def target() -> dict[str, Any]:
        if traits.one_broker:
            return {"topic": near(random.choice(cluster.broker_ids)), "partitions": range(3)}
        return {"topic": "play", "partitions": range(6)}

    def busy() -> dict[str, Any]:
        size = random.choice((10, 200, 20_000))
        return {"rounds": -1, "interval": random.choice((0.5, 1, 3)), "size": size, "wait": False}

    for _ in range(traits.consumers):
        chosen = client_id("c")
        latest = options(**{"auto.offset.reset": "latest"})
        process.consumer(chosen, topics=[target()["topic"]], group=chosen, **latest)
    for _ in range(traits.admins):
        chosen = client_id("a")
        process.admin(chosen, **options())
        process.ask(chosen)
    for number in range(traits.busy + traits.idle):
        chosen = client_id("p")
        process.producer(chosen, **options())
        process.send(chosen, **target(), **(busy() if number < traits.busy else {}))
    if traits.transactional:
        chosen = f"t-{name}"
        process.producer(chosen, **options(**{"transactional.id": chosen}))
        process.send(chosen, **target())
    same, how = target(), random.choice(({}, busy()))
    for number in range(traits.equal):
        process.producer(f"equal-{number}-{name}", **options())
    for number in range(traits.equal):
        process.send(f"equal-{number}-{name}", **same, **how)


def populate_wide(
    process: ClientProcess, name: str, *, properties: Mapping[str, object], **common: Any
) -> None:
    """Give a process a producer whose metadata answers take several TLS records."""
    process.producer(f"wide-{name}", **common, properties=properties)
    process.send(f"wide-{name}", "wide", partitions=range(3), rounds=-1, interval=1, wait=False)
