"""Causes that do not disturb one another, all at once: their alerts take as long as the slowest.

A second JVM is crowded (broker 1) and ends, a forgotten client wastes (broker 2), and broker 3
crashes again and again and then freezes, under healthy clients, one that sleeps and one that leaks.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest

from tests.e2e.causes import LeakyClient, limit_open_files
from tests.e2e.monitoring import eventually, get
from tests.e2e.scene import CROWD, MOST_CONNECTIONS, TOPIC, WAYS
from tests.lab.errors import LabError

pytestmark = [pytest.mark.lab, pytest.mark.ondemand, pytest.mark.timeout(600)]

# More than are many, and twice as many connections: bootstrap ones stay.
PRODUCERS = 28
OPEN_FILES_SHARE = 0.9
# The first crash is a restart, the second one a storm, unless it comes too late after it.
MOST_CRASHES = 6
SOME_CONNECTIONS = 9
# What a client says first is no habit of being answered yet.
SETTLED_SECONDS = 6.0

WASTERS = ("forgotten", "sleeper")


@pytest.fixture
def quiet_afterwards(scene):
    """Leave no client of this module behind: a second try begins as the first one did."""
    yield
    for name in WASTERS:
        with suppress(LabError):
            scene.java.close(name)
    if not scene.crowd.process.running or scene.crowd.truth():
        scene.crowd.end()
        scene.crowd = scene.start_java(CROWD)


@pytest.mark.usefixtures("quiet_afterwards")
def test_a_crowd_some_waste_and_a_failing_broker(scene):
    address = scene.cluster.addresses()[3]
    sleeping(scene)
    crowd, forgotten = crowding(scene), forgetting(scene)
    storm, ghost, idle = crashing(scene, address)
    scene.wait_firing(*crowd)
    down = scene.begins(
        "BrokerwireSourceDown", "kill -9 of the JVM that serves the metrics", source=CROWD
    )
    scene.crowd.end()
    for cause in crowd:
        cause.ended = time.time()
    scene.wait_firing(idle)
    scene.java.close("sleeper")
    idle.ended = time.time()
    frozen = freezing(scene, address)
    scene.wait_firing(down, forgotten)
    scene.java.stop("forgotten")
    scene.java.close("forgotten")
    forgotten.ended = time.time()
    scene.crowd = scene.start_java(CROWD)
    down.ended = time.time()
    scene.wait_resolved(*crowd, storm, ghost, frozen, down, forgotten, idle)
    wait_connected(scene, address)


def crowding(scene) -> list:
    """Make producers in one process, all of them to one broker, until every limit is near."""
    address = scene.cluster.addresses()[1]
    many = f"{PRODUCERS} producers in one process, all to one broker"
    limit = f"{many}; the agent is told of a limit of {MOST_CONNECTIONS}"
    causes = [
        scene.begins("KafkaClientManyInstances", many, client_kind="producer", process="java"),
        scene.begins("KafkaClientUnusedConnections", many, process="java"),
        scene.begins("KafkaClientBrokerNearMaxConnections", limit, broker=address),
        scene.begins("KafkaClientNearMaxConnectionsPerIp", limit, broker=address),
        scene.begins(
            "KafkaClientConnectionChurn",
            "a producer for each request",
            cause="client per request",
        ),
    ]
    # One that wants no id of its own asks nobody but this broker.
    plain = {
        "bootstrap.servers": scene.cluster.bootstrap(brokers=(1,)),
        "enable.idempotence": False,
    }
    for number in range(PRODUCERS):
        name = f"shop-{number:02}"
        scene.crowd.producer(name, properties=plain)
        scene.crowd.send(
            name, TOPIC, partitions=[0], rounds=-1, interval=1, size=20 + 11 * number, wait=False
        )
    scene.crowd.producer_per_request("web", TOPIC, partitions=[0], interval=0.5, properties=plain)
    eventually(
        "every producer to be connected",
        lambda: (
            len({told.name for told in scene.crowd.truth() if told.role == "data"}) >= PRODUCERS
        ),
        seconds=90,
    )
    limit_open_files(scene.crowd.pid, OPEN_FILES_SHARE)
    near = scene.begins(
        "KafkaClientNearDescriptorLimit",
        f"{PRODUCERS} producers in one process, which may open a tenth more files (`ulimit -n`)",
        process="java",
    )
    return [*causes, near]


def sleeping(scene) -> None:
    """Make a consumer of broker 3 that does not poll any more."""
    scene.java.consumer(
        "sleeper",
        assign=[f"{TOPIC}:2"],
        properties={"bootstrap.servers": scene.cluster.bootstrap(brokers=(3,))},
    )
    scene.wait_data("sleeper", count=1)
    scene.java.poll("sleeper", on=False)


def forgetting(scene):
    """Make a producer that nobody's metrics tell of."""
    excess = scene.begins(
        "KafkaClientExcessConnections",
        "a second producer with the same client.id, which shows no metrics",
        process="java",
    )
    hidden = {
        "client.id": "worker-0",
        "metric.reporters": "",
        "bootstrap.servers": scene.cluster.bootstrap(brokers=(2,)),
        "enable.idempotence": False,
    }
    scene.java.producer("forgotten", properties=hidden)
    scene.java.send("forgotten", TOPIC, partitions=[1], rounds=-1, interval=1, size=700, wait=False)
    return excess


def crashing(scene, address: str) -> tuple:
    """Kill the broker again and again; of two clients the connections are left after the first."""
    left = ()
    with LeakyClient(scene.folder, address, TOPIC) as leaky:
        eventually(
            "the leaky client to be seen",
            lambda: scene.prometheus.query(
                f'kafka_client_connections{{process="{LeakyClient.NAME}"}} > 0'
            ),
        )
        storm = scene.begins(
            "KafkaClientReconnectStorm",
            "kill -9 of a broker, again when it is back",
            broker=address,
        )
        for _ in range(MOST_CRASHES):
            scene.cluster.kill(3)
            left = left or leaving(scene, address, leaky)
            scene.cluster.restart(3)
            storm.ended = time.time()
            if all(is_told(scene, way, storm) for way in WAYS):
                break
            wait_connected(scene, address)
        idle, ghost = left
        scene.wait_firing(storm, ghost)
    ghost.ended = time.time()
    return storm, ghost, idle


def is_told(scene, way: str, cause) -> bool:
    """Whether an alert of this cause came this way, and not of one before it."""
    told = scene.hooks[way].of(cause.alert, run="short", **cause.labels)
    return any(each.at >= cause.began for each in told)


def leaving(scene, address: str, leaky) -> tuple:
    """Note what a dead broker leaves behind at those who do not look."""
    idle = scene.begins(
        "KafkaClientLowEfficiency",
        "kill -9 of the one broker of a consumer that does not poll",
        client_id="sleeper",
        client_kind="consumer",
        process="java",
    )
    leaky.meet_the_reset()
    ghost = scene.begins(
        "KafkaClientGhostDescriptors",
        "a client writes to a connection whose broker was killed, and does not close it",
        process=LeakyClient.NAME,
        broker=address,
    )
    return idle, ghost


def wait_connected(scene, address: str) -> None:
    """Wait until healthy clients are back: all but the admin client."""
    held = f'kafka_client_connections{{broker="{address}",class!~"connecting|half_closed|ghost"}}'
    eventually(
        "the clients to be back",
        lambda: scene.prometheus.query(f"sum({held}) >= {SOME_CONNECTIONS}"),
        seconds=90,
    )


def connected_for(scene, address: str, seconds: float) -> list:
    """Return the connections to a broker that have been there for so long."""
    document = json.loads(get(f"http://{scene.agent_address}/api/v1/connections"))
    return [
        each
        for each in document["connections"]
        if each["remote"] == address and each["age_seconds"] >= seconds
    ]


def freezing(scene, address: str):
    """Freeze the broker until it is told."""
    eventually(
        "its connections to be used to answers",
        lambda: len(connected_for(scene, address, SETTLED_SECONDS)) >= SOME_CONNECTIONS,
        seconds=90,
    )
    frozen = scene.begins("KafkaClientFrozenPeer", "SIGSTOP of a broker", broker=address)
    scene.cluster.freeze(3)
    try:
        scene.wait_firing(frozen)
    finally:
        scene.cluster.thaw(3)
    frozen.ended = time.time()
    return frozen
