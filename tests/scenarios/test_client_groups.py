"""Which sockets are one client: what the kernel shows against what the clients themselves say."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from exporter.config.settings import BrokerSettings, PortRange
from tests.lab.cluster import KafkaCluster
from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.scoring import table

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

TOPIC = "groups"


@pytest.fixture(scope="module", params=["PLAINTEXT", "SASL_SSL"])
def cluster(lab_artifacts, request):
    with KafkaCluster(lab_artifacts, brokers=3, listeners=(request.param,)) as cluster:
        cluster.create_topic(TOPIC, 3)
        yield cluster


def _populate(java, label):
    for number in range(3):
        java.producer(f"producer-{number}-{label}")
        java.send(f"producer-{number}-{label}", TOPIC, partitions=range(3))
    java.consumer(f"consumer-{label}", topics=[TOPIC], group=f"g-{label}")
    java.admin(f"admin-{label}")
    java.ask(f"admin-{label}")


def _mistakes(snapshot, truths):
    """Sockets of one client in two groups, of two clients in one, and sockets in none."""
    found = {(str(c.local), str(c.remote)): c for c in snapshot.connections}
    groups = defaultdict(set)
    for truth in truths:
        connection = found.get((truth.local, truth.remote))
        if connection is None:
            yield f"missing {truth}"
        elif connection.group is None:
            yield f"no group {truth}"
        else:
            groups[connection.group.key].add((truth.pid, truth.name, truth.instance))
    clients = {(truth.pid, truth.name, truth.instance) for truth in truths}
    if len(groups) != len(clients):
        yield f"{len(groups)} groups of {len(clients)} clients"
    yield from (f"{key} holds {sorted(names)}" for key, names in groups.items() if len(names) > 1)


def test_every_socket_of_a_java_client_is_in_its_group_whatever_its_port(cluster, stage):
    """The agent knows the port of one broker; the others are found through the groups."""
    play = stage(cluster)
    for generation in CLIENT_GENERATIONS:
        play.java(generation, metrics=False)
    first = min(
        int(address.rpartition(":")[2])
        for address in cluster.addresses(cluster.listeners[0].name).values()
    )
    watch = play.watch(metrics=False, brokers=BrokerSettings(ports=(PortRange(first, first),)))
    for label, java in play.processes.items():
        _populate(java, label)
    deadline = time.monotonic() + 60
    while True:
        truths = play.truth()
        mistakes = list(_mistakes(watch.snapshot, truths))
        still = play.truth()
        if not mistakes and {t.local for t in truths} == {t.local for t in still}:
            break
        assert time.monotonic() < deadline, "\n".join([*mistakes, table(watch.snapshot)])
        time.sleep(1)
    assert len({c.group.key for c in watch.snapshot.connections}) == 5 * len(CLIENT_GENERATIONS)
