"""The brokers: librdkafka's mock cluster, in a process of its own.

Its sockets would else belong to the process of a client and be counted as that client's.
It also sweeps up: it is told to end when the parent does, and removes the parent's folder.
"""

from __future__ import annotations

__all__ = ["mock_cluster"]

import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any

from exporter.demo.child import die_with_parent
from exporter.errors import BrokerwireError

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from exporter.demo.child import Prepared

BROKERS = 3
READY_SECONDS = 10.0
# The mock cluster draws the leaders by lot: half of all topics leave a broker out.
MOST_TOPICS = 64


def _leave(*_: object) -> None:
    # The kernel reports a parent of several threads more than once; sweeping goes on.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def mock_cluster() -> Prepared:
    """Start the brokers, on ports that the kernel chooses; return their addresses and a topic."""
    from confluent_kafka import Producer

    # The cluster lives as long as this client, whose own connections are no part of the show.
    host = Producer({"test.mock.num.brokers": BROKERS, "client.id": "mock-cluster", "log_level": 0})
    found = host.list_topics(timeout=READY_SECONDS).brokers
    addresses = [f"{found[broker].host}:{found[broker].port}" for broker in sorted(found)]

    topic = _topic_of_all(host)

    def work(options: dict[str, Any]) -> None:
        signal.signal(signal.SIGTERM, _leave)
        die_with_parent(signal.SIGTERM)
        try:
            while host is not None:
                signal.pause()
        finally:
            shutil.rmtree(options["sweep"], ignore_errors=True)

    return {"brokers": addresses, "topic": topic}, work


def _topic_of_all(host: Producer) -> str:
    """Return a topic of which each broker leads a part, so that each demo shows the same."""
    for number in range(MOST_TOPICS):
        name = f"orders-{number}"
        partitions = host.list_topics(name, timeout=READY_SECONDS).topics[name].partitions
        if len({partition.leader for partition in partitions.values()} - {-1}) == BROKERS:
            return name
    raise BrokerwireError("the mock cluster made no topic of which each broker leads a part")
