"""S8, S11, S12: brokers that restart, die, freeze and move, under clients that are at work."""

from __future__ import annotations

import time

import pytest

from exporter.findings.findings import UNANSWERED_SECONDS
from tests.lab.cluster import KafkaCluster

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

MANY = 20


@pytest.fixture(scope="module")
def cluster(lab_artifacts):
    """Three brokers; every test leaves them running."""
    with KafkaCluster(lab_artifacts, brokers=3) as cluster:
        cluster.create_topic("faults", 3)
        yield cluster


def test_a_restart_under_many_producers_is_a_surge_and_everybody_comes_back(cluster, stage):
    """S12."""
    play = stage(cluster)
    client = play.java("3.9.2")
    watch = play.watch()
    names = [f"p{'x' * number}" for number in range(MANY)]
    for name in names:
        client.producer(name)
        # Clients that do the same cannot be told apart: each sends records of a size of its own.
        client.send(
            name,
            "faults",
            partitions=[0, 1, 2],
            rounds=-1,
            interval=0.5,
            size=10 * len(name),
            wait=False,
        )
    watch.wait_data(names, 3, seconds=90)
    before = {name: watch.expected(name) for name in names}
    assert set(before.values()) == {3}
    opened = sum(watch.snapshot.totals.opened.values())

    cluster.restart(1)
    watch.wait_data(names, 3, seconds=90)
    # What a broker ended stays expected for a minute, or until the join knows the new connection.
    watch.wait(
        lambda _: {name: watch.expected(name) for name in names} == before,
        "as many to be expected as before",
        seconds=90,
    )
    ended = watch.snapshot.totals.closed
    assert sum(count for (_key, by), count in ended.items() if by == "broker") >= MANY
    assert not any(count for (_key, by), count in ended.items() if by == "unknown")
    watch.wait(lambda s: sum(s.totals.opened.values()) >= opened + MANY, "the surge to be counted")
    assert watch.findings("KafkaClientConnectionChurn") == []
    assert watch.findings("KafkaClientExcessConnections") == []


def test_a_killed_broker_leaves_half_closed_sockets_and_refusals(cluster, stage):
    """S8, kill -9: who polls sees the end at once and is refused; who does not keeps CLOSE_WAIT."""
    play = stage(cluster)
    client = play.java("4.4.0")
    native = play.librdkafka()
    watch = play.watch()
    for each, name in ((client, "java-p"), (native, "rd-p")):
        each.producer(name)
        each.send(name, "faults", partitions=[0, 1, 2], rounds=-1, interval=0.5, wait=False)
    client.consumer("stuck", assign=["faults:1"])
    watch.wait_data(("java-p", "rd-p"), 3)
    watch.wait_right()
    watch.wait(
        lambda _: [c for c in watch.of("stuck") if c.role == "data" and c.broker_id == 2],
        "the consumer to fetch",
    )
    client.poll("stuck", on=False)
    time.sleep(1.5)
    address = cluster.addresses()[2]
    before = {name: watch.expected(name) for name in ("java-p", "rd-p")}
    assert set(before.values()) == {3}
    cluster.kill(2)
    try:
        watch.wait(
            lambda _: [
                c
                for c in watch.of("stuck")
                if c.connection_class == "half_closed" and str(c.remote) == address
            ],
            "the stuck consumer's half closed connection",
        )
        [half] = [
            c for c in watch.of("stuck") if c.connection_class == "half_closed" and c.role == "data"
        ]
        assert half.broker_id == 2
        for name in ("java-p", "rd-p"):
            # A poll may fall between the broker's end and the client's answer to it.
            watch.wait(
                lambda _: not [c for c in watch.of(name) if str(c.remote) == address],  # noqa: B023
                f"{name} to leave the dead broker",
            )
            closed = watch.closed(name)
            # A killed process that had not read everything ends its connections by a reset.
            assert closed.get("broker", 0) + closed.get("abort", 0) >= 1, closed
        # It is missed: what is expected does not go with it.
        assert {name: watch.expected(name) for name in before} == before
        watch.wait(
            lambda s: (
                sum(
                    count
                    for key, count in s.totals.connect_failures.items()
                    if key.broker == address
                )
                >= 5
            ),
            "refused attempts to be counted",
        )
        watch.wait(
            lambda _: watch.findings("KafkaClientBrokerUnreachable", broker=address),
            "the finding that the broker is not to be reached",
        )
        assert watch.findings("KafkaClientConnectionChurn") == []
        assert sum(watch.snapshot.totals.probes.values()) == 0
    finally:
        cluster.restart(2)
    client.poll("stuck", on=True)
    watch.wait(
        lambda _: all(
            [c for c in watch.of(name) if c.role == "data" and c.broker_id == 2]
            for name in ("java-p", "rd-p", "stuck")
        ),
        "everybody to come back",
    )
    watch.wait(
        lambda _: (
            not watch.findings("KafkaClientBrokerUnreachable")
            and not watch.findings("KafkaClientHalfClosedConnections")
        ),
        "the findings to end",
        seconds=60,
    )


def test_a_frozen_broker_answers_nobody(cluster, stage):
    """S8, SIGSTOP: connections stay established and nothing comes back."""
    play = stage(cluster)
    client = play.java("3.9.2")
    watch = play.watch()
    client.producer("eager", properties={"request.timeout.ms": 60000, "delivery.timeout.ms": 90000})
    client.producer("careless", properties={"acks": 0, "enable.idempotence": False})
    client.consumer("reader", assign=["faults:0", "faults:1", "faults:2"])
    for name in ("eager", "careless"):
        client.send(name, "faults", partitions=[0, 1, 2], rounds=-1, interval=0.5, wait=False)
    watch.wait_data(("eager", "careless", "reader"), 3)
    time.sleep(5)
    # acks=0 gets no answers: that is no frozen peer.
    assert watch.findings("KafkaClientFrozenPeer") == []
    address = cluster.addresses()[3]
    cluster.freeze(3)
    try:
        watch.wait(
            lambda _: (
                {
                    finding.labels["client_id"]
                    for finding in watch.findings("KafkaClientFrozenPeer", broker=address)
                }
                >= {"eager", "reader"}
            ),
            "the finding of the frozen broker",
            seconds=UNANSWERED_SECONDS + 30,
        )
        frozen = watch.findings("KafkaClientFrozenPeer")
        assert {finding.labels["broker"] for finding in frozen} == {address}
    finally:
        cluster.thaw(3)
    watch.wait(
        lambda _: not watch.findings("KafkaClientFrozenPeer"), "the finding to end", seconds=60
    )


def test_a_broker_that_moved_leaves_stale_connections(cluster, stage):
    """S11: the old process hangs, its address is no longer the broker's."""
    play = stage(cluster)
    client = play.java("4.4.0")
    slow = {"request.timeout.ms": 60000, "metadata.max.age.ms": 3000}
    client.producer("mover", properties=slow)
    watch = play.watch()
    client.send("mover", "faults", partitions=[0, 1, 2], rounds=-1, interval=1, wait=False)
    watch.wait_data(("mover",), 3)
    watch.wait_right()
    old = cluster.addresses()[1]
    cluster.move(1)
    new = cluster.addresses()[1]
    assert watch.findings("KafkaClientStaleEndpoint") == []
    # Somebody else reaches the broker at its new place: now the old one is known to be stale.
    client.producer("newcomer")
    client.send("newcomer", "faults", partitions=[0, 1, 2], rounds=-1, interval=1, wait=False)
    watch.wait(
        lambda _: [c for c in watch.of("mover") if c.connection_class == "stale"],
        "the stale connection",
    )
    [stale] = [c for c in watch.of("mover") if c.connection_class == "stale"]
    assert (str(stale.remote), stale.role, stale.broker_id) == (old, "data", 1)
    assert new in stale.evidence[0]
    assert {c.connection_class for c in watch.of("newcomer")} <= {"data", "bootstrap"}
    watch.wait(lambda _: watch.findings("KafkaClientStaleEndpoint"), "the finding")
    cluster.kill_retired()
    watch.wait(
        lambda _: (
            not watch.findings("KafkaClientStaleEndpoint")
            and [c for c in watch.of("mover") if str(c.remote) == new]
        ),
        "the client to follow",
        seconds=60,
    )
