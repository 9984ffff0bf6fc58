"""S4 and S6: who closes idle connections, what stays half closed, and churn with its cause."""

# ruff: noqa: B023 - a lambda is called before the loop goes on

from __future__ import annotations

import re

import pytest

from tests.lab.versions import CLIENT_GENERATIONS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

BROKER_IDLE = 6


@pytest.fixture(scope="module")
def hasty_cluster(lab_artifacts):
    """Two brokers that close connections after a few idle seconds."""
    from tests.lab.cluster import KafkaCluster

    idle = {"connections.max.idle.ms": BROKER_IDLE * 1000}
    with KafkaCluster(lab_artifacts, brokers=2, broker_config=idle) as cluster:
        yield cluster


def test_the_client_closes_what_it_does_not_use(shared_cluster_2, stage):
    """A busy client closes its bootstrap connections when their idle limit has come."""
    shared_cluster_2.create_topic("closing", 2)
    play = stage(shared_cluster_2)
    clients = {g: play.java(g) for g in CLIENT_GENERATIONS}
    watch = play.watch()
    limit = {"connections.max.idle.ms": 4000}
    for generation, client in clients.items():
        name = f"busy-{generation}"
        client.producer(name, properties=limit)
        client.send(name, "closing", partitions=[0, 1], rounds=-1, interval=0.5, wait=False)
        client.producer(f"refreshing-{generation}", properties=REFRESH)
    for generation in clients:
        name = f"busy-{generation}"
        watch.wait(
            lambda _: (
                watch.classes(name) == {"data": 2}
                # A connection of a few seconds may end before the client's metrics name it: then
                # it is counted under the client's number.
                and sum(
                    count
                    for (_key, by), count in watch.snapshot.totals.closed.items()
                    if by == "client"
                )
                >= len(clients)
            ),
            f"the bootstrap connections of {name} to be closed",
        )
        # On a busy machine a slow broker's answer leaves it open; it is never called the broker's.
        assert set(watch.closed(name)) <= {"client", "unknown"}
    assert watch.findings("KafkaClientHalfClosedConnections") == []

    # S6: metadata is refreshed less often than idle connections are closed: churn, by its cause.
    # Their connections end before the join names them: the clients have numbers.
    watch.wait(
        lambda _: (
            len(watch.findings("KafkaClientConnectionChurn", cause="metadata refresh"))
            == len(clients)
        ),
        "a finding of churn for each refreshing client",
        seconds=90,
    )
    for finding in watch.findings("KafkaClientConnectionChurn"):
        assert "metadata.max.age.ms" in finding.remedy
        period = float(re.search(r"one every ([0-9.]+) s", finding.description)[1])
        assert 2.5 <= period <= 4.5
    assert watch.findings("KafkaClientConnectionChurn", cause="client per request") == []
    for client in clients.values():
        client.close(f"refreshing-{client.version}")
    watch.wait(
        lambda _: watch.findings("KafkaClientConnectionChurn") == [],
        "the finding to end with the churn",
    )


REFRESH = {"connections.max.idle.ms": 1000, "metadata.max.age.ms": 3000}


def test_the_broker_closes_and_some_clients_do_not_follow(hasty_cluster, stage):
    """An assigned consumer that does not poll holds what the broker has closed; the others don't."""
    hasty_cluster.create_topic("left", 2)
    play = stage(hasty_cluster)
    clients = {g: play.java(g) for g in CLIENT_GENERATIONS}
    clients["librdkafka"] = play.librdkafka()
    watch = play.watch()
    assigned = []
    for label, client in clients.items():
        client.producer(f"p-{label}")
        client.send(f"p-{label}", "left", partitions=[0, 1])
        if label != "librdkafka":
            client.consumer(f"a-{label}", assign=["left:0", "left:1"])
            assigned.append((client, f"a-{label}"))
    for client, name in assigned:
        watch.wait(lambda _: watch.classes(name).get("data") == 2, f"{name} to fetch")
        client.poll(name, on=False)

    for client, name in assigned:
        watch.wait(
            lambda _: (
                set(watch.classes(name)) == {"half_closed"}
                and {c.role for c in watch.of(name)} >= {"data"}
                and watch.findings("KafkaClientHalfClosedConnections", client_id=name)
            ),
            f"all of {name} to be half closed, and the finding",
        )
        finding = watch.findings("KafkaClientHalfClosedConnections", client_id=name)[0]
        assert "poll()" in finding.remedy
        client.poll(name, on=True)
    for _client, name in assigned:
        watch.wait(
            lambda _: "half_closed" not in watch.classes(name),
            f"{name} to clean up",
        )
        assert set(watch.closed(name)) == {"broker"}
    # The producers followed at once each time, and connected again: the broker's limit is named.
    watch.wait(
        lambda _: watch.findings("KafkaClientConnectionChurn", cause="broker idle limit"),
        "the finding of churn",
    )
    for label in clients:
        assert watch.closed(f"p-{label}").get("broker", 0) >= 1
        # A poll may fall between the broker's end and the producer's answer to it: half closed now
        # and then is no more than that, at two polls in a row it would be.
        watch.wait(
            lambda _: "half_closed" not in watch.classes(f"p-{label}"),
            f"p-{label} to follow",
            seconds=3,
        )
