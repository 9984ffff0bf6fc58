"""S14: idempotent producers need no coordinator; transactional ones share (Java) or open one more."""

# ruff: noqa: B023 - a lambda is called before the loop goes on

from __future__ import annotations

import pytest

from tests.lab.versions import CLIENT_GENERATIONS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_transactions(shared_cluster_3, stage):
    shared_cluster_3.create_topic("paid", 3)
    play = stage(shared_cluster_3)
    clients = {g: play.java(g) for g in CLIENT_GENERATIONS}
    clients["librdkafka"] = play.librdkafka()
    watch = play.watch()
    for label, client in clients.items():
        client.producer(f"once-{label}", properties={"enable.idempotence": True})
        client.send(f"once-{label}", "paid", partitions=[0, 1, 2])
        transactional = {"transactional.id": f"pay-{label}-{client.pid}"}
        client.producer(f"pay-{label}", properties=transactional)
        client.send(f"pay-{label}", "paid", partitions=[0, 1, 2], rounds=3)
    watch.wait_right()
    for label in clients:
        for name in (f"once-{label}", f"pay-{label}"):
            watch.wait(
                lambda _: watch.classes(name).get("data") == 3, f"data connections of {name}"
            )
        assert "transaction" not in watch.classes(f"once-{label}")
        assert watch.expected(f"once-{label}") == 3
        own = label == "librdkafka"
        assert watch.classes(f"pay-{label}").get("transaction", 0) == int(own)
        assert watch.expected(f"pay-{label}") == 3 + own
    [transaction] = [c for c in watch.of("pay-librdkafka") if c.connection_class == "transaction"]
    assert transaction.useful
    assert transaction.expected_rule == "librdkafka.transaction"
    # Java's coordinator is a data connection of the same client.
    for truth in play.truth():
        if truth.is_transaction_coordinator:
            [shared] = [
                c
                for c in watch.of(truth.client_id)
                if (str(c.local), str(c.remote)) == (truth.local, truth.remote)
            ]
            assert shared.role == "data"
    assert watch.findings("KafkaClientExcessConnections") == []
