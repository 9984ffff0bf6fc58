"""Without the clients' metrics: what is told, what is not, and nothing wrong and confident."""

from __future__ import annotations

import time

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.scoring import score, table
from tools.confusion_matrix import populate

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LOOK_SECONDS = 30
MOST_SECONDS = 120

# What is told of each role in the end, at the least; of data connections many are idle.
LEAST_TOLD = {"bootstrap": 0.9, "coordinator": 0.9, "data": 0.5}


@pytest.fixture(scope="module", params=["PLAINTEXT", "SSL"])
def cluster(lab_artifacts, request):
    with KafkaCluster(lab_artifacts, brokers=3, listeners=(request.param,)) as cluster:
        yield cluster


def told(result):
    """The share of the connections of each role that are told."""
    held = {}
    for (truth, answer), count in result.confusion.items():
        right, all_ = held.get(truth, (0, 0))
        held[truth] = (right + count * (truth == answer), all_ + count)
    return {role: right / all_ for role, (right, all_) in held.items()}


def test_what_java_clients_hold_is_told_from_the_kernel_alone(cluster, stage):
    play = stage(cluster)
    for generation in CLIENT_GENERATIONS:
        play.java(generation, metrics=False)
    watch = play.watch(metrics=False)
    populate(play.processes)
    begun = time.monotonic()
    # Not for a moment: half a minute at least, and until what can be told is told.
    while True:
        result = score(watch.snapshot, play.truth(), roles_only=True)
        assert result.wrong_and_confident == [], table(watch.snapshot)
        shares = told(result)
        since = time.monotonic() - begun
        is_enough = all(shares.get(role, 0.0) >= least for role, least in LEAST_TOLD.items())
        if since >= LOOK_SECONDS and is_enough:
            break
        assert since < MOST_SECONDS, f"{shares}\n{result}\n{table(watch.snapshot)}"
        time.sleep(2)
    clients = {(c.owner.key, c.client_id) for c in watch.snapshot.connections}
    assert all(client_id.startswith("#") for _, client_id in clients)
    truths = {(truth.pid, truth.name) for truth in play.truth()}
    assert len(clients) == len(truths)
    assert not [c for c in watch.snapshot.connections if c.connection_class == "probe"]
    assert watch.findings("KafkaClientExcessConnections") == []


def test_roles_of_librdkafka_from_the_kernel_alone_are_never_wrong_and_confident(cluster, stage):
    play = stage(cluster)
    play.librdkafka(metrics=False)
    watch = play.watch(metrics=False)
    populate(play.processes)
    deadline = time.monotonic() + LOOK_SECONDS
    while time.monotonic() < deadline:
        result = score(watch.snapshot, play.truth(), roles_only=True)
        assert result.wrong_and_confident == [], table(watch.snapshot)
        time.sleep(2)
    assert sum(result.confusion.values()) <= 2 * result.confusion["data", "data"]
    assert {c.client_id for c in watch.snapshot.connections} == {None}
