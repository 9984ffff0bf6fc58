"""The healthy clients of the scene: of all kinds, five producers in one process among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.scene import TOPIC

if TYPE_CHECKING:
    from tests.e2e.scene import Scene
    from tests.lab.java_client import JavaClient

__all__ = ["ALL", "FIVE", "fill_java", "populate"]

FIVE = [f"worker-{n}" for n in range(5)]
# The partitions of the topic; the leader of each is the broker of the next number.
ALL = [0, 1, 2]


def populate(scene: Scene) -> None:
    """Start them all and wait until they are known."""
    fill_java(scene.java)
    scene.native.producer("native-p")
    scene.native.send("native-p", TOPIC, partitions=ALL, rounds=-1, interval=0.5, wait=False)
    scene.native.consumer("native-c", topics=[TOPIC], group="g-native")
    scene.wait_data("orders", *FIVE)


def fill_java(java: JavaClient) -> None:
    """Start those of a JVM."""
    for number, name in enumerate(["orders", *FIVE]):
        java.producer(name)
        # Clients that do the same cannot be told apart: each has records of a size of its own.
        java.send(
            name, TOPIC, partitions=ALL, rounds=-1, interval=0.7, size=10 + 17 * number, wait=False
        )
    java.producer("payments", properties={"transactional.id": "payments"})
    java.send("payments", TOPIC, partitions=ALL, rounds=-1, interval=1, size=300, wait=False)
    java.consumer("billing", topics=[TOPIC], group="g-java")
    java.admin("operator")
    java.ask("operator")
