"""S1, S2, S3, S15: a producer is made, sends for the first time, to all, and refreshes metadata."""

# ruff: noqa: B023 - a lambda is called before the loop goes on

from __future__ import annotations

import time

import pytest

from tests.lab.versions import CLIENT_GENERATIONS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

OFTEN = {"metadata.max.age.ms": 1000}


def test_from_the_constructor_to_the_last_broker(shared_cluster_3, stage):
    shared_cluster_3.create_topic("first", 3)
    play = stage(shared_cluster_3)
    clients = {g: play.java(g) for g in CLIENT_GENERATIONS}
    watch = play.watch()
    for generation, client in clients.items():
        client.producer(f"p-{generation}")
        client.producer(f"refreshing-{generation}", properties=OFTEN)
        client.send(f"refreshing-{generation}", "first", partitions=[0, 1, 2])

    # S1: nothing sent yet.
    watch.wait_right()
    assert watch.of("p-2.1.0") == []
    for generation in ("3.9.2", "4.4.0"):
        watch.wait(
            lambda _: (
                {"bootstrap"} <= set(watch.classes(f"p-{generation}")) <= {"bootstrap", "data"}
            ),
            "a bootstrap connection",
        )

    # S3: the first send goes to one broker, under its real id, at that moment.
    for generation, client in clients.items():
        before = time.monotonic()
        client.send(f"p-{generation}", "first", partitions=[0])
        watch.wait(
            lambda _: [
                c for c in watch.of(f"p-{generation}") if c.node_id == "1" and c.role == "data"
            ],
            "the data connection",
        )
        [data] = [c for c in watch.of(f"p-{generation}") if c.node_id == "1" and c.role == "data"]
        assert data.broker_id == 1
        assert data.age_seconds <= time.monotonic() - before + 1.5 or generation != "2.1.0"

    # S2: all brokers listed, all sent to.
    for generation, client in clients.items():
        client.send(f"p-{generation}", "first", partitions=[0, 1, 2])
    watch.wait_right()
    for generation in clients:
        name = f"p-{generation}"
        watch.wait(
            lambda _: (
                set(watch.classes(name)) == {"data", "bootstrap"}
                and watch.classes(name)["data"] == 3
            ),
            f"three data connections of {name}",
        )
        assert 1 <= watch.classes(name)["bootstrap"] <= 3
        assert watch.expected(name) == 3
        for connection in watch.of(name):
            assert connection.useful is (connection.role == "data")
    assert watch.findings("KafkaClientExcessConnections") == []

    # S15: metadata goes to the learned nodes, each second; the bootstrap connections stay silent.
    time.sleep(4)
    for generation in clients:
        name = f"refreshing-{generation}"
        # A refresh each second, and a poll each second that sees it.
        watch.wait(
            lambda _: (
                set(watch.classes(name)) == {"data", "bootstrap"}
                and watch.classes(name)["data"] == 3
                and min(c.idle_seconds for c in watch.of(name) if c.role == "data") < 2.5
            ),
            f"{name} to refresh over its data connections",
        )
        for connection in watch.of(name):
            if connection.role == "bootstrap":
                assert connection.idle_seconds > 3
                assert "does not use this connection any more" in " ".join(connection.evidence)
    assert watch.findings("KafkaClientConnectionChurn") == []
