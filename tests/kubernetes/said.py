"""What an agent says of a Java process of the walk: the classes of its connections, and its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kubernetes.cluster import wait_for
from tests.kubernetes.objects import CLIENT_IDS, PROCESS_ACCESS
from tests.kubernetes.walk import ask, metrics_of, resident_mib

if TYPE_CHECKING:
    from tests.kubernetes.walk import Walk

# Idle closing is off: each client keeps the connection that it began with.
CLASSES = sorted(["data", "zombie"] * len(CLIENT_IDS))
# Two clients that send all the time are rarely quiet at once, which `exact` takes.
SURE = {"exact", "strong"}
_GROUPS = "client groups: "


def say_classes(walk: Walk, pod: dict[str, Any], *rungs: str) -> None:
    """Wait until all connections are told, and say so."""

    def told() -> list[dict[str, Any]]:
        found = connections(pod)
        assert_settled(found)
        return found

    found = wait_for("a data connection and a zombie of each client", told, 120)
    reached = {each["owner_rung"] for each in found}
    assert reached <= set(rungs), reached
    count = len(CLIENT_IDS)
    walk.say(
        f"  its agent says: {count} data, {count} zombies, none weaker than strong;"
        f" owner by {', '.join(sorted(reached))}; {resident_mib(metrics_of(pod)):.0f} MiB resident"
    )


def assert_settled(found: list[dict[str, Any]]) -> None:
    """Each connection has its class and its client, and neither is a guess."""
    assert sorted(each["class"] for each in found) == CLASSES, found
    assert {each["client_id"] for each in found} == set(CLIENT_IDS), found
    assert {each["confidence"] for each in found} <= SURE, found


def say_groups_are_read(walk: Walk, pod: dict[str, Any]) -> None:
    """The kernel's groups and the client's own metrics have to agree on which sockets are one client."""
    words = wait_for("client groups", lambda: groups(pod))
    walk.say(f"  {words}: {len(CLIENT_IDS)} clients, each with its connections")


def say_groups_are_closed(walk: Walk, pod: dict[str, Any]) -> None:
    """Where they cannot be read, nothing is made up, and the agent says what would open them."""
    assert {each["client_number"] for each in connections(pod)} == {None}
    words = groups_text(pod)
    assert "no JVM's descriptors can be read" in words, words
    assert PROCESS_ACCESS in words, words
    walk.say("  client groups: none, and its agent names the label that opens them")


def groups(pod: dict[str, Any], base: str = "/") -> str | None:
    """Return what the agent says of groups once each client has one of its own, else None."""
    found = connections(pod, base)
    numbers = {(each["client_id"], each["client_number"]) for each in found}
    assert {number for _, number in numbers} == set(range(1, len(CLIENT_IDS) + 1)), found
    assert {client for client, _ in numbers} == set(CLIENT_IDS), found
    assert len(numbers) == len(CLIENT_IDS), found
    (process,) = ask(pod, f"{base}api/v1/connections")["process_clients"]
    assert process["producers"] == len(CLIENT_IDS), process
    assert process["told_apart"], process
    words = groups_text(pod, base)
    assert words.startswith(f"{_GROUPS}yes"), words
    return words


def connections(pod: dict[str, Any], base: str = "/") -> list[dict[str, Any]]:
    """Return what the agent in a pod says of connections; `base` is the page of one network."""
    found: list[dict[str, Any]] = ask(pod, f"{base}api/v1/connections")["connections"]
    return found


def groups_text(pod: dict[str, Any], base: str = "/") -> str:
    """Return what the agent says of its access to groups."""
    said: list[str] = ask(pod, f"{base}api/v1/sources")["agent"]["capabilities"]
    (words,) = [each for each in said if each.startswith(_GROUPS)]
    return words
