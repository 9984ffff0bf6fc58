"""A look into a running pod without installing anything: `kubectl debug`, as docs/install.md has it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.kubernetes.cluster import wait_for
from tests.kubernetes.images import AGENT
from tests.kubernetes.objects import CLIENT_IDS
from tests.kubernetes.walk import SHOP

if TYPE_CHECKING:
    from tests.kubernetes.walk import Walk

NAME = "look"


def look_once(walk: Walk, pod: dict[str, Any]) -> None:
    """One command reads the connections and the client groups of a pod that knows nothing of us."""
    name = pod["metadata"]["name"]
    (container,) = pod["spec"]["containers"]

    def look() -> list[dict[str, Any]]:
        found = _inspect(walk, name, container["name"])
        assert Counter(each["client_number"] for each in found) == _TWO_OF_EACH, found
        return found

    wait_for("the groups of both clients", look)
    after = walk.cluster.get("pod", name, SHOP)
    assert [each["restartCount"] for each in after["status"]["containerStatuses"]] == [0]
    walk.say(f"kubectl debug: {len(CLIENT_IDS)} clients of 2 connections each, by their groups")


# Of each client the connection that it began with, and the one that it uses.
_TWO_OF_EACH = dict.fromkeys(range(1, len(CLIENT_IDS) + 1), 2)


def _inspect(walk: Walk, pod: str, container: str) -> list[dict[str, Any]]:
    """Run it to its end; an ephemeral container stays in the pod, so each has another name."""
    there = walk.cluster.get("pod", pod, SHOP)["spec"].get("ephemeralContainers", ())
    name = f"{NAME}-{len(there)}"
    walk.cluster.kubectl(
        "debug", pod, "--namespace", SHOP, f"--image={AGENT}", "--image-pull-policy=Never",
        f"--target={container}", "--profile=restricted", f"--container={name}",
        "--", "brokerwire", "inspect", "--json",
    )  # fmt: skip

    def ended() -> dict[str, Any] | None:
        status = walk.cluster.get("pod", pod, SHOP)["status"]
        states = {
            each["name"]: each["state"] for each in status.get("ephemeralContainerStatuses", ())
        }
        found: dict[str, Any] | None = states[name].get("terminated")
        return found

    end = wait_for(f"{name} to end", ended)
    said = walk.cluster.kubectl("logs", pod, "--namespace", SHOP, "--container", name)
    assert end["exitCode"] == 0, said
    found: list[dict[str, Any]] = json.loads(said)["connections"]
    return found
