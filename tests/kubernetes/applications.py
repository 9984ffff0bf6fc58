"""The broker, and applications with the sidecar, by include and by inject, and without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from tests.kubernetes.cluster import REPOSITORY, run, wait_for
from tests.kubernetes.objects import (
    PROCESS_ACCESS,
    application,
    asks_for_the_sidecar,
    broker,
    client_values,
    restricted,
    with_host_processes,
)
from tests.kubernetes.said import say_classes, say_groups_are_closed, say_groups_are_read
from tests.kubernetes.walk import SHOP, ask

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubernetes.walk import Walk

ORDERS = "app.kubernetes.io/name=orders"
BILLING = "app.kubernetes.io/name=billing"


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
    _assert_open(pod)
    walk.say(
        "include: a native sidecar runs beside a Java process; one value gave it access to that"
    )
    say_classes(walk, pod, "proc_fd")
    say_groups_are_read(walk, pod)
    return pod


def inject(walk: Walk, servers: str) -> dict[str, Any]:
    """Start an application that asks for the sidecar by a label, and for more by another."""
    text = application(
        walk.artifacts, servers, name="billing", user=1000, pod=asks_for_the_sidecar()
    )
    walk.cluster.kubectl("apply", "-f", "-", text=text)
    pod = walk.cluster.ready_pod(BILLING, SHOP)
    (sidecar,) = pod["spec"]["initContainers"]
    assert sidecar["name"] == "brokerwire"
    assert sidecar["securityContext"]["runAsUser"] == 1000
    assert pod["metadata"]["labels"]["brokerwire/agent"] == "true"
    assert {"name": "registry"} in pod["spec"]["imagePullSecrets"]
    assert "shareProcessNamespace" not in pod["spec"]
    walk.say("inject: the policy put the native sidecar into a labelled pod, of its uid")
    # One PID namespace each: the process is out of sight, on cgroup v1 the uid is what is left.
    say_classes(walk, pod, "uid", "cgroup")
    say_groups_are_closed(walk, pod)
    labels = {"metadata": {"labels": {PROCESS_ACCESS: "true"}}}
    patch = json.dumps({"spec": {"template": labels}})
    walk.cluster.kubectl("patch", "deployment", "billing", "--namespace", SHOP, "--patch", patch)
    pod = _replaced(walk, BILLING, pod)
    _assert_open(pod)
    listed = walk.cluster.kubectl("get", "pods", "-A", "-l", f"{PROCESS_ACCESS}=true", "-o", "name")
    assert listed == f"pod/{pod['metadata']['name']}"
    walk.say(f"inject: the label {PROCESS_ACCESS} gave it access to the processes")
    say_classes(walk, pod, "proc_fd")
    say_groups_are_read(walk, pod)
    _inject_into_other_pods(walk)
    return pod


def _inject_into_other_pods(walk: Walk) -> None:
    """What the API server makes of a closed pod, and of one that may not share processes."""
    walk.cluster.kubectl("create", "namespace", "closed")
    walk.cluster.kubectl(
        "label", "namespace", "closed", "pod-security.kubernetes.io/enforce=restricted"
    )
    spec = _dry_run(walk, restricted())
    assert spec["initContainers"][0]["name"] == "brokerwire"
    assert spec["initContainers"][0]["securityContext"]["runAsGroup"] == 0
    assert spec["shareProcessNamespace"] is True
    walk.say("inject: a namespace that enforces `restricted` takes the pod with both labels")
    spec = _dry_run(walk, with_host_processes())
    assert spec["initContainers"][0]["name"] == "brokerwire"
    assert "shareProcessNamespace" not in spec
    walk.say("inject: a pod with the host's processes gets the sidecar and shares none")


def _dry_run(walk: Walk, text: str) -> dict[str, Any]:
    """Return the spec of a pod as the API server would take it."""
    made = walk.cluster.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", text=text)
    spec: dict[str, Any] = json.loads(made)["spec"]
    return spec


def start_without_sidecar(walk: Walk, servers: str) -> dict[str, Any]:
    """Start an application that says nothing of us, of another uid."""
    text = application(walk.artifacts, servers, name="returns", user=2000, pod={})
    walk.cluster.kubectl("apply", "-f", "-", text=text)
    pod = walk.cluster.ready_pod("app.kubernetes.io/name=returns", SHOP)
    assert "initContainers" not in pod["spec"]
    assert "shareProcessNamespace" not in pod["spec"]
    walk.say("an application without sidecar runs, of uid 2000")
    return pod


def upgrade(walk: Walk, before: dict[str, Any]) -> dict[str, Any]:
    """Give the first application's sidecar another configuration, which replaces its pod."""
    pod = upgrade_orders(walk, before, "--set", "brokerwire.config.poll.interval=2s")
    settled = wait_for("an answer", lambda: ask(pod, "/api/v1/connections")["interval_seconds"])
    assert settled == 2.0
    walk.say("helm upgrade with another configuration: the pod was replaced and has it")
    # Whoever looks at this pod from outside shall find its clients where they stay.
    say_classes(walk, pod, "proc_fd")
    return pod


def upgrade_orders(walk: Walk, before: dict[str, Any], *arguments: str | Path) -> dict[str, Any]:
    """Upgrade the first application's release and return its new pod."""
    walk.helm("upgrade", "orders", _chart_folder(walk), "--namespace", SHOP, "--reuse-values",
              *arguments)  # fmt: skip
    return _replaced(walk, ORDERS, before)


def _replaced(walk: Walk, label: str, before: dict[str, Any]) -> dict[str, Any]:
    """Wait for the pod that takes another's place."""

    def new() -> dict[str, Any] | None:
        pod = walk.cluster.ready_pod(label, SHOP)
        is_new = pod["metadata"]["name"] != before["metadata"]["name"]
        return pod if is_new else None

    pod: dict[str, Any] = wait_for("a new pod", new)
    return pod


def _assert_open(pod: dict[str, Any]) -> None:
    """What the sidecar needs to look into the application's processes, and nothing more."""
    context = pod["spec"]["initContainers"][0]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (1000, 1000), context
    assert context["capabilities"] == {"drop": ["ALL"]}, context
    assert pod["spec"]["shareProcessNamespace"] is True


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
