"""S7: a consumer of two brokers and five partitions opens five connections and needs three."""

# ruff: noqa: B023 - a lambda is called before the loop goes on

from __future__ import annotations

import pytest

from tests.lab.versions import CLIENT_GENERATIONS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_a_consumer_keeps_three_of_five(shared_cluster_2, stage):
    shared_cluster_2.create_topic("five", 5)
    play = stage(shared_cluster_2)
    clients = {g: play.java(g) for g in CLIENT_GENERATIONS}
    clients["librdkafka"] = play.librdkafka()
    watch = play.watch()
    names = []
    for label, client in clients.items():
        names.append(f"c-{label}")
        client.consumer(f"c-{label}", topics=["five"], group=f"five-{client.pid}")
    new = {"group.protocol": "consumer"}
    clients["4.4.0"].consumer(
        "c-848", topics=["five"], group=f"new-{clients['4.4.0'].pid}", properties=new
    )
    names.append("c-848")
    for label, client in clients.items():
        client.wait_assignment(f"c-{label}", partitions=5)
    watch.wait_right()
    for name in names:
        watch.wait(
            lambda _: watch.classes(name).get("data") == 2,
            f"two data connections of {name}",
        )
        counted = watch.classes(name)
        assert counted["coordinator"] == 1
        assert set(counted) <= {"data", "coordinator", "bootstrap"}
        assert counted.get("bootstrap", 0) <= (0 if name == "c-librdkafka" else 3)
        assert watch.expected(name) == 3
        coordinator = next(c for c in watch.of(name) if c.role == "coordinator")
        library = "librdkafka" if name == "c-librdkafka" else "java"
        assert coordinator.expected_rule == f"{library}.coordinator"
    assert watch.findings("KafkaClientExcessConnections") == []
    assert watch.findings("KafkaClientHalfClosedConnections") == []
