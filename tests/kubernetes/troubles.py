"""What the cluster says of its pods when a step of the walk fails, before all of it is taken away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOG_LINES = 20


def troubles(kubectl: Callable[..., str]) -> Iterator[str]:
    """Yield a list of the pods, a description and the last log lines of each unready one, and all events.

    A description ends with the pod's events. What kubectl refuses is part of the answer: it is asked
    on a way out and must not hide why.
    """

    def ask(*arguments: str) -> str:
        try:
            return kubectl(*arguments)
        except (AssertionError, OSError) as error:
            return str(error)

    yield ask("get", "pods", "--all-namespaces", "--output", "wide")
    try:
        pods = json.loads(kubectl("get", "pods", "--all-namespaces", "--output", "json"))["items"]
    except (AssertionError, OSError, ValueError):
        pods = []
    for pod in pods:
        if _is_well(pod):
            continue
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        yield ask("describe", "pod", name, "--namespace", namespace)
        yield ask(
            "logs", name, "--namespace", namespace, "--all-containers", "--prefix",
            f"--tail={_LOG_LINES}",
        )  # fmt: skip
    yield ask("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")


def _is_well(pod: dict[str, Any]) -> bool:
    """Tell whether a pod is ready, or has ended as it should."""
    status = pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return status.get("phase") == "Succeeded" or conditions.get("Ready") == "True"
