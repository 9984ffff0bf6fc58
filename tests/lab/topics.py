"""Create topics through a client that is gone before the call returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.lab.errors import LabError
from tests.lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["create"]


def create(servers: str, name: str, leaders: Sequence[int]) -> None:
    """Create a topic with one replica a partition and wait until every leader is known."""
    admin = AdminClient({"bootstrap.servers": servers})
    topic = NewTopic(
        name, num_partitions=len(leaders), replica_assignment=[[leader] for leader in leaders]
    )
    try:
        admin.create_topics([topic])[name].result(60)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise LabError(f"cannot create topic {name}: {error}") from error

    def settled() -> bool:
        partitions = admin.list_topics(name, timeout=30).topics[name].partitions
        actual = [partitions[index].leader for index in sorted(partitions)]
        if len(actual) > len(leaders):
            raise LabError(f"topic {name} exists with {len(actual)} partitions")
        return actual == list(leaders)

    wait_until(f"leaders {list(leaders)} of {name}", settled)
