"""Without the clients' metrics a role may be unknown. It is never wrong."""

from __future__ import annotations

import time

import pytest

from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.scoring import score, table
from tools.confusion_matrix import populate

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_roles_from_the_kernel_alone_are_never_wrong(shared_cluster_3, stage):
    play = stage(shared_cluster_3)
    for generation in CLIENT_GENERATIONS:
        play.java(generation, metrics=False)
    play.librdkafka(metrics=False)
    watch = play.watch(metrics=False)
    populate(play.processes)
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        result = score(watch.snapshot, play.truth(), roles_only=True)
        assert result.wrong == [], table(watch.snapshot)
        time.sleep(2)
    answered = {truth for (truth, answer), count in result.confusion.items() if truth == answer}
    # What can be told is told: heartbeats, and fetches of every library.
    assert answered >= {"coordinator", "data"}
    assert result.confusion["coordinator", "coordinator"] >= 3
    assert {c.client_id for c in watch.snapshot.connections} == {None}
    assert not [c for c in watch.snapshot.connections if c.connection_class == "probe"]
    assert watch.findings("KafkaClientExcessConnections") == []
