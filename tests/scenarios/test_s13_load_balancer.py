"""S13: bootstrap through a load balancer, data direct: its address is no broker's, nor stale."""

from __future__ import annotations

import pytest

from tests.lab.versions import CLIENT_GENERATIONS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_bootstrap_through_a_load_balancer(shared_cluster_3, stage, bootstrap_relay):
    shared_cluster_3.create_topic("balanced", 3)
    relay = bootstrap_relay(shared_cluster_3)
    play = stage(shared_cluster_3)
    clients = {g: play.java(g) for g in CLIENT_GENERATIONS}
    clients["librdkafka"] = play.librdkafka()
    watch = play.watch()
    through = {"bootstrap.servers": relay.address}
    for label, client in clients.items():
        client.producer(f"p-{label}", properties=through)
        client.send(f"p-{label}", "balanced", partitions=[0, 1, 2])
        client.consumer(
            f"c-{label}", topics=["balanced"], group=f"b-{client.pid}", properties=through
        )
        client.wait_assignment(f"c-{label}", partitions=3)
    watch.wait_right()
    # librdkafka leaves bootstrap connections within seconds; one may just have come.
    snapshot = watch.wait(
        lambda s: (
            s.connections
            and not [c for c in s.connections if c.connection_class in {"stale", "unknown"}]
        ),
        "every connection to be known",
    )
    balanced = [c for c in snapshot.connections if str(c.remote) == relay.address]
    assert len(balanced) >= 6
    for connection in balanced:
        assert (connection.connection_class, connection.broker_id) == ("bootstrap", None)
    for label in clients:
        assert watch.classes(f"p-{label}")["data"] == 3
        assert watch.classes(f"c-{label}")["coordinator"] == 1
    assert watch.findings("KafkaClientStaleEndpoint") == []
