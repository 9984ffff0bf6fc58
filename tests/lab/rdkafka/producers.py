"""Producers that send what they are told, and the mistake of making one for every request."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka

from tests.lab.rdkafka.hosted import POLL_SECONDS, Hosted

if TYPE_CHECKING:
    from tests.lab.rdkafka.delivery import Delivery

__all__ = ["HostedProducer", "HostedRequests"]


class HostedProducer(Hosted):
    """A producer, plain, idempotent or transactional."""

    kind = "producer"

    def __init__(self, name: str, properties: dict[str, str], deliver: Delivery) -> None:
        self.acknowledged = 0
        self.failed = 0
        super().__init__(name, properties, deliver)

    def make(self) -> Any:
        return confluent_kafka.Producer(self.configuration())

    def leak(self, count: int) -> None:
        for _ in range(count):
            self.open()

    def poll_once(self) -> None:
        for producer in self.instances:
            producer.poll(0)
        time.sleep(POLL_SECONDS / 10)

    def shut(self) -> None:
        self.instances[0].flush(5)

    def init_transactions(self) -> None:
        self.instances[0].init_transactions(60)

    def send(self, arguments: dict[str, str]) -> None:
        producer = self.instances[0]
        topic, value = arguments["topic"], bytes(int(arguments["size"]))
        partitions = [int(text) for text in arguments["partitions"].split(",")]
        rounds, pause = int(arguments["rounds"]), int(arguments["interval_ms"]) / 1000
        transactional = "transactional.id" in self.properties
        for done in itertools.count():
            if done == rounds or self.stopping:
                break
            try:
                if transactional:
                    producer.begin_transaction()
                for partition in partitions:
                    producer.produce(topic, value, partition=partition, on_delivery=self._count)
                if transactional:
                    producer.commit_transaction(60)
            except (confluent_kafka.KafkaException, BufferError) as error:
                self.failed += 1
                self.last_error = str(error)
            self._serve(producer, pause)
        producer.flush(60)

    def status(self) -> dict[str, Any]:
        return {**super().status(), "acknowledged": self.acknowledged, "failed": self.failed}

    def _serve(self, producer: Any, seconds: float) -> None:
        """Let callbacks run for this long; the poll itself returns with the first of them."""
        until = time.monotonic() + seconds
        producer.poll(0)
        while (left := until - time.monotonic()) > 0 and not self.stopping:
            producer.poll(left)

    def _count(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.last_error = str(error)


class HostedRequests(Hosted):
    """The mistake of making a producer for every request, closing it afterwards or not."""

    kind = "producer"

    def __init__(
        self, name: str, properties: dict[str, str], deliver: Delivery, arguments: dict[str, str]
    ) -> None:
        self._arguments = arguments
        self.requests = 0
        super().__init__(name, properties, deliver)

    def open(self) -> None:
        self.ask(self._loop, wait=False)

    def make(self) -> Any:
        return confluent_kafka.Producer(self.configuration())

    def poll_once(self) -> None:
        time.sleep(POLL_SECONDS)

    def _close(self) -> None:
        self.instances.clear()
        super()._close()

    def status(self) -> dict[str, Any]:
        return {**super().status(), "requests": self.requests}

    def _loop(self) -> None:
        given = self._arguments
        while self.requests != int(given["requests"]) and not self.stopping:
            producer = self.tagged(self.make)
            for partition in given["partitions"].split(","):
                producer.produce(given["topic"], b"request", partition=int(partition))
            producer.flush(30)
            if given["leak"] == "true":
                self.instances.append(producer)
            del producer  # librdkafka closes with its last reference
            self.requests += 1
            time.sleep(int(given["interval_ms"]) / 1000)
