"""Without the clients' metrics a role may be unknown. It is never wrong."""

from __future__ import annotations

import time

import pytest

from tests.lab.versions import CLIENT_GENERATIONS
from tests.scenarios.scoring import score, table
from tools.confusion_matrix import populate

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LOOK_SECONDS = 30
MOST_SECONDS = 90


def tells_enough(result):
    """Heartbeats are told, and fetches of every library."""
    told = result.confusion
    return told["data", "data"] > 0 and told["coordinator", "coordinator"] >= 3


def test_roles_from_the_kernel_alone_are_never_wrong(shared_cluster_3, stage):
    play = stage(shared_cluster_3)
    for generation in CLIENT_GENERATIONS:
        play.java(generation, metrics=False)
    play.librdkafka(metrics=False)
    watch = play.watch(metrics=False)
    populate(play.processes)
    begun = time.monotonic()
    # Not for a moment: half a minute at least, and until what can be told is told.
    while True:
        result = score(watch.snapshot, play.truth(), roles_only=True)
        assert result.wrong == [], table(watch.snapshot)
        since = time.monotonic() - begun
        if since >= LOOK_SECONDS and tells_enough(result):
            break
        assert since < MOST_SECONDS, f"{result}\n{table(watch.snapshot)}"
        time.sleep(2)
    assert {c.client_id for c in watch.snapshot.connections} == {None}
    assert not [c for c in watch.snapshot.connections if c.connection_class == "probe"]
    assert watch.findings("KafkaClientExcessConnections") == []
