"""Nobody prepared the clients, and the agent comes late: what is waste is seen all the same."""

from __future__ import annotations

import time

import pytest

from exporter.config.settings import ClientRule
from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.scoring import table

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

TOPIC = "unused"
# Longer than an opening takes.
SETTLED_SECONDS = 10.0


@pytest.mark.parametrize("generation", CLIENT_GENERATIONS)
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_superseded_bootstrap_connections_are_unused_and_data_connections_are_not(
    shared_cluster_3, stage, generation, late
):
    shared_cluster_3.create_topic(TOPIC, 3)
    play = stage(shared_cluster_3)
    java = play.java(generation, metrics=False)
    watch = None if late else play.watch(metrics=False)
    java.producer("plain")
    java.send("plain", TOPIC, partitions=range(3), rounds=-1, interval=0.5, wait=False)
    time.sleep(SETTLED_SECONDS)
    watch = watch or play.watch(metrics=False)
    truths = play.truth()
    unused = {t.local for t in truths if t.role == "bootstrap"}
    assert unused
    watch.wait(
        lambda s: {str(c.local) for c in s.connections if c.unused_seconds is not None} == unused,
        f"these to be unused: {unused}",
    )
    snapshot = watch.snapshot
    assert all(c.age_is_exact for c in snapshot.connections), table(snapshot)
    assert sum(timing.unused for timing in snapshot.timings.values()) == len(unused)
    # One connection to each broker is in use, and so many are needed.
    watch.wait(
        lambda s: sum(each.count for each in s.expected.values()) == 3, "three to be expected"
    )
    found = watch.findings("KafkaClientUnusedConnections", process="java")
    assert [finding.value for finding in found] == [3.0] * (len(unused) == 3)


def wait_connected(play, name):
    """Wait until a producer has its data connections: the next one opens all of its own later."""
    deadline = time.monotonic() + 60.0
    while sum(t.name == name and t.role == "data" for t in play.truth()) < 3:
        assert time.monotonic() < deadline, f"{name} has not connected"
        time.sleep(0.2)


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_producers_that_a_process_does_not_need_are_excess_without_metrics(
    shared_cluster_3, stage, late
):
    shared_cluster_3.create_topic(TOPIC, 3)
    play = stage(shared_cluster_3)
    java = play.java("3.9.2", metrics=False)
    rules = (ClientRule(process="java", instances=1),)
    watch = None if late else play.watch(metrics=False, rules=rules, excess_after=3.0)
    names = ["first", "second", "third"]
    for name in names:
        java.producer(name)
        java.send(name, TOPIC, partitions=range(3), rounds=-1, interval=0.5, wait=False)
        wait_connected(play, name)
    watch = watch or play.watch(metrics=False, rules=rules, excess_after=3.0)
    of = {t.local: t.name for t in play.truth()}

    def surplus():
        return {str(c.local) for c in watch.snapshot.connections if c.connection_class == "excess"}

    whole = {local for local, name in of.items() if name != "first"}
    watch.wait(lambda _: surplus() == whole, "all of the later two to be excess")
    for _ in range(10):
        time.sleep(1.0)
        assert surplus() == whole
    [finding] = watch.findings("KafkaClientExcessConnections")
    assert finding.labels == {"process": "java"}
    assert finding.value == len(whole)
    assert f"3 producers hold {len(of)} connections to 3 brokers" in finding.description
