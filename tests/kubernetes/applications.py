"""The broker, and two applications with the sidecar: by include and by inject."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from tests.kubernetes.cluster import REPOSITORY, run, wait_for
from tests.kubernetes.objects import broker, client_values, injected, restricted
from tests.kubernetes.walk import SHOP, ask, metrics_of, resident_mib

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.walk import Walk

ORDERS = "app.kubernetes.io/name=orders"
SETTLED = ["data", "zombie"]


def start_broker(walk: Walk) -> str:
    """Start a broker and return where it is."""
    walk.cluster.kubectl("create", "namespace", SHOP)
    walk.cluster.kubectl("apply", "-f", "-", text=broker(walk.artifacts))
    pod = walk.cluster.ready_pod("app=kafka", SHOP)
    walk.say("a Kafka broker runs")
    return f"{pod['status']['podIP']}:9092"


def include(walk: Walk, servers: str) -> dict[str, Any]:
    """Install an application whose chart takes the sidecar with one line."""
    values = walk.folder / "orders.yaml"
    values.write_text(yaml.safe_dump(client_values(walk.artifacts, servers)))
    walk.helm("install", "orders", _chart(walk), "--namespace", SHOP, "--values", values)
    pod = walk.cluster.ready_pod(ORDERS, SHOP)
    (status,) = pod["status"]["initContainerStatuses"]
    assert status["name"] == "brokerwire"
    assert "running" in status["state"]
    assert pod["spec"]["initContainers"][0]["restartPolicy"] == "Always"
    walk.say("include: a native sidecar runs beside a Java client, of its uid")
    _say_classes(walk, pod, "proc_fd")
    return pod


def inject(walk: Walk, servers: str) -> dict[str, Any]:
    """Start an application that asks for the sidecar by a label, and one in a closed namespace."""
    walk.cluster.kubectl("apply", "-f", "-", text=injected(walk.artifacts, servers))
    pod = walk.cluster.ready_pod("app.kubernetes.io/name=billing", SHOP)
    (sidecar,) = pod["spec"]["initContainers"]
    assert sidecar["name"] == "brokerwire"
    assert sidecar["securityContext"]["runAsUser"] == 1000
    assert pod["metadata"]["labels"]["brokerwire/agent"] == "true"
    assert {"name": "registry"} in pod["spec"]["imagePullSecrets"]
    walk.say("inject: the policy put the native sidecar into a labelled pod, of its uid")
    # One PID namespace each: the process is out of sight, on cgroup v1 the uid is what is left.
    _say_classes(walk, pod, "uid", "cgroup")
    walk.cluster.kubectl("create", "namespace", "closed")
    walk.cluster.kubectl(
        "label", "namespace", "closed", "pod-security.kubernetes.io/enforce=restricted"
    )
    made = walk.cluster.kubectl(
        "apply", "--dry-run=server", "-o", "json", "-f", "-", text=restricted()
    )
    assert json.loads(made)["spec"]["initContainers"][0]["name"] == "brokerwire"
    walk.say("inject: a namespace that enforces `restricted` takes the pod")
    return pod


def upgrade(walk: Walk, before: dict[str, Any]) -> dict[str, Any]:
    """Give the first application's sidecar another configuration, which replaces its pod."""
    pod = upgrade_orders(walk, before, "--set", "brokerwire.config.poll.interval=2s")
    settled = wait_for("an answer", lambda: ask(pod, "/api/v1/connections")["interval_seconds"])
    assert settled == 2.0
    walk.say("helm upgrade with another configuration: the pod was replaced and has it")
    # Whoever looks at this pod from outside shall find its client where it stays.
    _say_classes(walk, pod, "proc_fd")
    return pod


def upgrade_orders(walk: Walk, before: dict[str, Any], *arguments: str | Path) -> dict[str, Any]:
    """Upgrade the first application's release and return its new pod."""
    walk.helm("upgrade", "orders", _chart_folder(walk), "--namespace", SHOP, "--reuse-values",
              *arguments)  # fmt: skip

    def replaced() -> dict[str, Any] | None:
        pod = walk.cluster.ready_pod(ORDERS, SHOP)
        is_new = pod["metadata"]["name"] != before["metadata"]["name"]
        return pod if is_new else None

    pod: dict[str, Any] = wait_for("a new pod", replaced)
    return pod


def _say_classes(walk: Walk, pod: dict[str, Any], *rungs: str) -> None:
    def told() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask(pod, "/api/v1/connections")["connections"]
        assert sorted(each["class"] for each in found) == SETTLED, found
        return found

    found = wait_for("a data connection and a zombie", told, 120)
    reached = {each["owner_rung"] for each in found}
    assert reached <= set(rungs), reached
    assert {each["confidence"] for each in found} == {"exact"}
    walk.say(
        "  its agent says: 1 data, 1 zombie, both exact;"
        f" owner by {', '.join(sorted(reached))}; {resident_mib(metrics_of(pod)):.0f} MiB resident"
    )


def _chart_folder(walk: Walk) -> Path:
    return walk.folder / "charts" / "tests" / "kubernetes" / "client"


def _chart(walk: Walk) -> Path:
    """Copy the application's chart, since helm writes the dependency into its folder."""
    chart = _chart_folder(walk)
    ours = walk.folder / "charts" / "helm"
    for folder in (chart.parent, ours):
        folder.mkdir(parents=True)
    run("cp", "-r", REPOSITORY / "helm" / "brokerwire", ours)
    run("cp", "-r", REPOSITORY / "tests" / "kubernetes" / "client", chart)
    walk.helm("dependency", "update", chart)
    return chart
