"""S5: with idle closing off, superseded bootstrap connections stay for ever: zombies."""

# ruff: noqa: B023 - a lambda is called before the loop goes on

from __future__ import annotations

import pytest

from exporter.config.settings import ClientRule
from tests.lab.versions import CLIENT_GENERATIONS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

OFF = {"connections.max.idle.ms": -1}


def test_zombies_are_named_at_once_where_it_is_known_and_in_time_where_not(shared_cluster_3, stage):
    shared_cluster_3.create_topic("undead", 3)
    play = stage(shared_cluster_3)
    clients = {g: play.java(g) for g in CLIENT_GENERATIONS}
    told = play.watch(
        rules=(ClientRule(client_id="z-*", connections_max_idle=0.0),), settle_after=4.0
    )
    waiting = play.watch(zombie_after=12.0, inlet=False)
    for generation, client in clients.items():
        name = f"z-{generation}"
        client.producer(name, properties=OFF)
        client.send(name, "undead", partitions=[0, 1, 2], rounds=-1, interval=1, wait=False)
        client.producer(f"usual-{generation}")
        client.send(f"usual-{generation}", "undead", partitions=[0, 1, 2])
    for watch, seconds in ((told, 45), (waiting, 75)):
        for generation in clients:
            name = f"z-{generation}"
            watch.wait(
                lambda _: set(watch.classes(name)) == {"data", "zombie"},
                f"the zombies of {name}",
                seconds=seconds,
            )
            assert watch.classes(name)["data"] == 3
            for zombie in (c for c in watch.of(name) if c.connection_class == "zombie"):
                assert zombie.role == "bootstrap"
                assert not zombie.useful
            watch.wait(
                lambda _: (
                    sum(
                        finding.value
                        for finding in watch.findings(
                            "KafkaClientZombieConnections",
                            client_id=name,
                        )
                    )
                    == watch.classes(name)["zombie"]
                ),
                f"the findings about {name}",
            )
    # The agent that knows says so without waiting, and of nobody else.
    for generation in clients:
        assert "zombie" not in told.classes(f"usual-{generation}")
        name = f"z-{generation}"
        [off] = told.findings("KafkaClientIdleClosingOff", client_id=name)
        assert "connections.max.idle.ms" in off.remedy
        zombie = next(c for c in told.of(name) if c.connection_class == "zombie")
        assert zombie.close_expected.startswith("nothing on the client's side")
