"""Real clients: librdkafka producers and a consumer, each sending its statistics to the agent."""

from __future__ import annotations

__all__ = ["good_consumer", "good_producer", "many_producers", "producer_per_request"]

import functools
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from exporter.demo.child import Prepared

STATISTICS_MS = 1000
RECORD = b"x" * 200
SEND_SECONDS = 0.2
# What a request takes, and how long it is until the next.
WORK_SECONDS = 0.8
PAUSE_SECONDS = 0.4
FLUSH_SECONDS = 5.0


def good_producer() -> Prepared:
    """Be what every service should be: one producer, made once, shared by all of it."""
    import confluent_kafka  # noqa: F401 -- loaded before the parent says go

    def work(options: dict[str, Any]) -> None:
        producer = _producer(options, "orders")
        while True:
            _send(producer, options["topic"])
            time.sleep(SEND_SECONDS)

    return {}, work


def good_consumer() -> Prepared:
    """Be a group's consumer that polls."""
    from confluent_kafka import Consumer

    def work(options: dict[str, Any]) -> None:
        consumer = Consumer(
            {**_client(options, "billing"), "group.id": "billing", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([options["topic"]])
        while True:
            consumer.poll(0.5)

    return {}, work


def many_producers() -> Prepared:
    """Be a service with a producer in each of its workers."""

    def work(options: dict[str, Any]) -> None:
        producers = [
            _producer(options, f"worker-{number}") for number in range(1, options["count"] + 1)
        ]
        while True:
            for producer in producers:
                _send(producer, options["topic"])
            time.sleep(SEND_SECONDS)

    return {}, work


def producer_per_request() -> Prepared:
    """Be a service that makes a producer for each request that it serves."""

    def work(options: dict[str, Any]) -> None:
        number = 0
        while True:
            number += 1
            producer = _producer(options, f"request-{number}")
            _send(producer, options["topic"])
            producer.flush(FLUSH_SECONDS)
            time.sleep(WORK_SECONDS)
            del producer  # closes its connections: librdkafka has no other close
            time.sleep(PAUSE_SECONDS)

    return {}, work


def _client(options: dict[str, Any], client_id: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(options["bootstrap"]),
        "client.id": client_id,
        "log_level": 0,
        "statistics.interval.ms": STATISTICS_MS,
        "stats_cb": _statistics_sender(options["statistics_socket"]),
    }


@functools.cache
def _statistics_sender(path: str) -> Callable[[str], None]:
    """Return the one `stats_cb` of this process.

    It may block, because the agent runs beside it. An application takes `brokerwire_client`.
    """
    from confluent_kafka import libversion

    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    version = f'{{"librdkafka_version": "{libversion()[0]}", '

    def send(statistics: str) -> None:
        with suppress(OSError):  # the demo is ending
            sock.sendall(version.encode() + statistics[1:].encode() + b"\n")

    return send


def _producer(options: dict[str, Any], client_id: str) -> Producer:
    from confluent_kafka import Producer

    # Every record may go to another partition: each producer uses all brokers soon.
    return Producer({**_client(options, client_id), "sticky.partitioning.linger.ms": 0})


def _send(producer: Producer, topic: str) -> None:
    producer.produce(topic, RECORD)
    producer.poll(0)
