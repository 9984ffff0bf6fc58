"""Consumers, whose polling can be switched off, and admin clients."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.lab.rdkafka.hosted import POLL_SECONDS, Hosted

if TYPE_CHECKING:
    from tests.lab.rdkafka.delivery import Delivery

__all__ = ["HostedAdmin", "HostedConsumer"]


class HostedConsumer(Hosted):
    """A consumer whose polling can be switched off without closing it."""

    kind = "consumer"

    def __init__(
        self, name: str, properties: dict[str, str], deliver: Delivery, arguments: dict[str, str]
    ) -> None:
        self._arguments = arguments
        self.records = 0
        self.assignment: list[str] = []
        self.polling = arguments["poll"] == "true"
        super().__init__(name, properties, deliver)

    def make(self) -> Any:
        # librdkafka wants a group even from a consumer that is assigned its partitions.
        given = {"group.id": f"{self.name}-assigned", **self.configuration()}
        consumer = confluent_kafka.Consumer(given)
        topics = [topic for topic in self._arguments["topics"].split(",") if topic]
        pairs = [item.rpartition(":") for item in self._arguments["assign"].split(",") if item]
        if topics:
            consumer.subscribe(topics)
        elif pairs:
            parts = [confluent_kafka.TopicPartition(t, int(p), 0) for t, _, p in pairs]
            consumer.assign(parts)
        return consumer

    def poll_once(self) -> None:
        if not self.polling:
            time.sleep(POLL_SECONDS)
            return
        message = self.instances[0].poll(POLL_SECONDS)
        if message is not None and message.error() is None:
            self.records += 1
        elif message is not None:
            self.last_error = str(message.error())
        self.assignment = sorted(
            f"{part.topic}-{part.partition}" for part in self.instances[0].assignment()
        )

    def shut(self) -> None:
        self.instances[0].close()

    def status(self) -> dict[str, Any]:
        own = {"polling": self.polling, "records": self.records, "assignment": self.assignment}
        return {**super().status(), **own}


class HostedAdmin(Hosted):
    """An admin client that asks the cluster what it is told to ask."""

    kind = "admin"

    def make(self) -> Any:
        return AdminClient(self.configuration())

    def poll_once(self) -> None:
        self.instances[0].poll(POLL_SECONDS)

    def query(self, arguments: dict[str, str]) -> list[str]:
        admin = self.instances[0]
        if arguments["what"] == "topics":
            return sorted(admin.list_topics(timeout=30).topics)
        if arguments["what"] == "configs":
            # One call a broker: librdkafka asks each broker for its own settings.
            for broker in arguments["brokers"].split(","):
                resource = ConfigResource(ConfigResource.Type.BROKER, broker)
                admin.describe_configs([resource])[resource].result(30)
            return sorted(arguments["brokers"].split(","))
        return sorted(str(node.id) for node in admin.describe_cluster().result(30).nodes)
