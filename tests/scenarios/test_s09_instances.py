"""S9: several producers in one process, one for every request, and one that leaks."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_five_producers_are_five_clients_and_no_excess(shared_cluster_3, stage):
    shared_cluster_3.create_topic("five-producers", 3)
    play = stage(shared_cluster_3)
    clients = {"java": play.java("3.9.2"), "rd": play.librdkafka()}
    watch = play.watch(excess_after=10.0)
    names = [(client, f"{label}-{n}") for label, client in clients.items() for n in range(5)]
    for client, name in names:
        client.producer(name)
        client.send(name, "five-producers", partitions=[0, 1, 2])
    watch.wait_right()
    for _client, name in names:
        watch.wait(
            lambda _: (
                watch.classes(name).get("data") == 3  # noqa: B023 - called at once
                and set(watch.classes(name)) <= {"data", "bootstrap"}  # noqa: B023
            ),
            f"three data connections of {name}",
        )
        assert watch.expected(name) == 3
    time_to_be_excess = 14.0
    watch.wait(
        lambda s: min(c.age_seconds for c in s.connections) > time_to_be_excess,
        "the connections to be old enough",
    )
    assert watch.findings("KafkaClientExcessConnections") == []
    assert not [c for c in watch.snapshot.connections if c.connection_class == "excess"]


def test_a_producer_for_every_request_is_named(shared_cluster_3, stage):
    shared_cluster_3.create_topic("requests", 3)
    play = stage(shared_cluster_3)
    java = play.java("4.4.0")
    native = play.librdkafka(metrics=False)
    watch = play.watch()
    java.producer_per_request("web", "requests", interval=0.5)
    watch.wait(
        lambda _: watch.findings("KafkaClientConnectionChurn", cause="client per request"),
        "the finding about the Java process",
    )
    [finding] = watch.findings("KafkaClientConnectionChurn")
    assert "share it" in finding.remedy
    java.close("web")
    watch.wait(lambda _: not watch.findings("KafkaClientConnectionChurn"), "the finding to end")
    native.producer_per_request("script", "requests", interval=0.5)
    watch.wait(
        lambda _: watch.findings("KafkaClientConnectionChurn", cause="client per request"),
        "the finding about the librdkafka process",
    )
    assert len(watch.findings("KafkaClientConnectionChurn")) == 1
    native.close("script")


def test_a_client_that_no_metrics_tell_of_is_excess(shared_cluster_3, stage):
    """Somebody made a second producer and forgot it; JMX shows the first one alone."""
    shared_cluster_3.create_topic("forgotten", 3)
    play = stage(shared_cluster_3)
    client = play.java("3.9.2")
    watch = play.watch(excess_after=8.0)
    client.producer("known")
    client.send("known", "forgotten", partitions=[0, 1, 2], rounds=-1, interval=0.7, wait=False)
    watch.wait_right()
    hidden = {"client.id": "known", "auto.include.jmx.reporter": False}
    client.producer("forgotten", properties=hidden)
    client.send("forgotten", "forgotten", partitions=[0, 1, 2])
    theirs = {(c.local, c.remote) for c in play.truth() if c.name == "forgotten"}
    # Three data connections and some of bootstrap: every one is too many, and nothing else is.
    assert len(theirs) > 3
    watch.wait(
        lambda s: (
            {(str(c.local), str(c.remote)) for c in s.connections if c.connection_class == "excess"}
            == theirs
        ),
        "the forgotten producer's connections to be excess",
        seconds=60,
    )
    for connection in watch.snapshot.connections:
        if connection.connection_class == "excess":
            assert "second client with the same client.id" in " ".join(connection.evidence)
            assert not connection.useful
    watch.wait(lambda _: watch.findings("KafkaClientExcessConnections"), "the finding")
    assert watch.classes("known")["data"] == 3


def test_a_leaked_twin_is_excess(shared_cluster_3, stage):
    """Twins share a client.id: the metrics of one of them alone are to be seen."""
    shared_cluster_3.create_topic("leaks", 3)
    play = stage(shared_cluster_3)
    client = play.java("3.9.2")
    watch = play.watch(excess_after=8.0)
    # An idempotent twin asks any broker for its id, as a bootstrap node or under its real one: by
    # luck it would then take the metrics of a data connection over.
    client.producer("twin", properties={"enable.idempotence": False})
    client.send("twin", "leaks", partitions=[0, 1, 2], rounds=-1, interval=0.7, wait=False)
    watch.wait_right()
    client.leak("twin", 1)
    watch.wait(
        lambda s: (
            watch.findings("KafkaClientExcessConnections")
            and [c for c in s.connections if c.connection_class == "excess"]
            and watch.classes("twin").get("data") == 3
        ),
        "the leaked connections and the finding, beside the data connections",
        seconds=75,
    )
    # Twins share one name for their metrics, so that one connection of each pair is claimed: the
    # other one is too many, and where both counted the same nobody can tell which. The leaked twin sends nothing: it holds bootstrap connections only.
    told = {(c.local, c.remote): c for c in play.truth()}
    assert {c.instance for c in told.values()} == {0, 1}
    for connection in watch.snapshot.connections:
        if connection.connection_class == "excess":
            assert told[str(connection.local), str(connection.remote)].role == "bootstrap"
            assert "second client with the same client.id" in " ".join(connection.evidence)
            assert not connection.useful
