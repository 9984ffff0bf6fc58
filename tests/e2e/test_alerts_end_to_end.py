"""From a cause to a webhook: healthy clients first, then their connections and their brokers.

The tests run in their order, each with a cause of its own, and each leaves healthy clients behind.
"""

from __future__ import annotations

import time

import pytest

from tests.e2e.causes import probing
from tests.e2e.clients import ALL, FIVE, fill_java
from tests.e2e.monitoring import eventually, tool
from tests.e2e.scene import PLACE, TOPIC, Recorder
from tools.replay_trace import TRACE, read_trace, replay

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

HEALTHY_SECONDS = 120.0

MANY = ("KafkaClientExcessConnections", "KafkaClientManyInstances")


def too_many(scene) -> list:
    return [
        (each.labels, each.alert["annotations"]["description"])
        for each in scene.told("short")
        if each.name in MANY
    ]


def test_healthy_clients_a_rolling_deployment_and_a_restart_raise_no_alert(scene):
    begun = time.time()
    with Recorder(scene.agent_address):
        time.sleep(15)
        scene.cluster.restart(3)
        # Excess would be told after classes.excess_after (30 s) and six seconds more.
        time.sleep(max(10.0, begun + 45 - time.time()))
        assert set(scene.connections("worker-1")) <= {"data", "bootstrap"}
        assert too_many(scene) == []
        # A rolling deployment: the process is replaced, the clients come back under their names.
        scene.java.end()
        scene.java = scene.start_java()
        fill_java(scene.java)
        scene.wait_data("orders", *FIVE)
        time.sleep(max(0.0, begun + HEALTHY_SECONDS - time.time()))
    told = scene.told("calm")
    scene.notes["healthy_seconds"] = round(time.time() - begun)
    scene.notes["healthy_alerts"] = len(told)
    assert [(each.labels, each.alert["annotations"]) for each in told] == []
    eventually(
        "what the restart and the deployment set off to be over",
        lambda: (
            not [
                alert["labels"]
                for alert in scene.prometheus.alerts()
                if alert["labels"]["run"] == "short"
                and scene.is_ours(alert["labels"])
                and alert["labels"]["alertname"] not in MANY
            ]
        ),
        seconds=120,
    )


def test_half_an_hour_of_that_raises_no_alert_at_the_default_durations(scene):
    """What the agent served, played second for second to the rules as they are shipped."""
    trace = read_trace(TRACE, {**PLACE, "job": "brokerwire", "instance": scene.agent_address})
    assert len([frame for frame in trace.frames if frame]) >= HEALTHY_SECONDS / trace.step / 2
    assert replay(tool("promtool"), trace, 1800) == ""
    scene.notes["replayed_minutes"] = 30


def test_the_clients_of_a_replaced_process_are_known_again(scene):
    assert too_many(scene) == []


def test_idle_closing_off_makes_zombies_and_a_probe_is_named(scene):
    address = scene.cluster.addresses()[1]
    zombie = scene.begins(
        "KafkaClientZombieConnections",
        "a producer with connections.max.idle.ms=-1",
        client_id="z-old",
        client_kind="producer",
        process="java",
    )
    off = scene.begins(
        "KafkaClientIdleClosingOff",
        "a producer with connections.max.idle.ms=-1",
        client_id="z-old",
        client_kind="producer",
        process="java",
    )
    probe = scene.begins(
        "KafkaClientConnectionChurn",
        "a TCP health check each second",
        broker=address,
        cause="probe",
    )
    scene.java.producer("z-old", properties={"connections.max.idle.ms": -1})
    scene.java.send("z-old", TOPIC, partitions=ALL, rounds=-1, interval=1, size=400, wait=False)
    with probing(address):
        scene.wait_firing(zombie, off, probe)
    probe.ended = time.time()
    scene.java.stop("z-old")
    scene.java.close("z-old")
    zombie.ended = off.ended = time.time()
    scene.wait_resolved(zombie, off, probe)


def test_a_killed_broker_is_unreachable_and_leaves_half_closed_connections(scene):
    scene.java.consumer("stuck", assign=[f"{TOPIC}:1"])
    scene.wait_data("stuck", count=1)
    scene.java.poll("stuck", on=False)
    time.sleep(2)
    address = scene.cluster.addresses()[2]
    half = scene.begins(
        "KafkaClientHalfClosedConnections",
        "kill -9 of a broker under a consumer that does not poll",
        client_id="stuck",
        client_kind="consumer",
        process="java",
        broker=address,
        broker_id="2",
    )
    away = scene.begins("KafkaClientBrokerUnreachable", "kill -9 of a broker", broker=address)
    scene.cluster.kill(2)
    try:
        scene.wait_firing(half, away)
    finally:
        scene.cluster.restart(2)
    scene.java.poll("stuck", on=True)
    half.ended = away.ended = time.time()
    scene.wait_resolved(half, away)
    scene.java.close("stuck")


def test_a_broker_that_moved_leaves_stale_connections(scene):
    slow = {"request.timeout.ms": 90000, "delivery.timeout.ms": 120000, "metadata.max.age.ms": 3000}
    scene.java.producer("mover", properties=slow)
    scene.java.send("mover", TOPIC, partitions=ALL, rounds=-1, interval=1, size=500, wait=False)
    scene.wait_data("mover")
    old = scene.cluster.addresses()[1]
    stale = scene.begins(
        "KafkaClientStaleEndpoint",
        "a broker moves to another address while its old process hangs",
        client_id="mover",
        client_kind="producer",
        process="java",
        broker=old,
        broker_id="1",
    )
    scene.cluster.move(1)
    # Somebody else reaches the broker at its new place: now the old one is known to be stale.
    scene.java.producer("newcomer")
    scene.java.send("newcomer", TOPIC, partitions=ALL, rounds=-1, interval=1, size=600, wait=False)
    scene.wait_firing(stale)
    scene.cluster.kill_retired()
    stale.ended = time.time()
    scene.wait_resolved(stale)
