"""The walk through Kubernetes says what it lacks, and why a pod does not become ready."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.kubernetes.troubles import troubles

ROOT = Path(__file__).parents[2]
REFUSED = "failed to find plugin"


def pod(name: str, phase: str, *, ready: bool) -> dict:
    conditions = [{"type": "Ready", "status": str(ready)}]
    metadata = {"name": name, "namespace": "shop"}
    return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}


PODS = [
    pod("kafka", "Pending", ready=False),
    pod("orders", "Running", ready=True),
    pod("job", "Succeeded", ready=False),
]


class FakeKubectl:
    def __init__(self, *, refuses: str = "") -> None:
        self.refuses, self.asked = refuses, []

    def __call__(self, *arguments: str) -> str:
        self.asked.append(arguments)
        if arguments[0] == self.refuses:
            raise AssertionError(f"{self.refuses}: refused")
        if arguments[-1] == "json":
            return json.dumps({"items": PODS})
        return f"Events: {REFUSED}" if arguments[0] == "describe" else arguments[0]


def test_a_pod_that_is_not_ready_is_described_with_its_events():
    kubectl = FakeKubectl()
    assert f"Events: {REFUSED}" in list(troubles(kubectl))
    assert [each[2] for each in kubectl.asked if each[0] == "describe"] == ["kafka"]


def test_what_kubectl_refuses_hides_nothing_else():
    told = list(troubles(FakeKubectl(refuses="logs")))
    assert "logs: refused" in told
    assert told[-1] == "get"
    assert list(troubles(FakeKubectl(refuses="get"))) == ["get: refused", "get: refused"]


def refused(tmp_path: Path, **more: str) -> str:
    """What up.sh says where it does not begin."""
    folders = {"BIN": str(tmp_path / "bin"), "FOLDER": str(tmp_path / "cluster")}
    done = subprocess.run(
        [ROOT / "tools" / "kubernetes" / "up.sh"],
        env={**os.environ, **folders, **more},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "cluster").exists()
    return done.stderr


def test_a_node_without_network_plugins_is_not_started(tmp_path):
    """Its pods would wait for ever, and only their events say for what."""
    state = {"STATE": str(tmp_path / "none")}
    told = refused(tmp_path, **state)
    assert f"no CNI plugin {tmp_path}/cni/bridge: run tools/kubernetes/build.sh" in told


def test_a_second_cluster_does_not_take_the_first_ones_place(tmp_path):
    state = tmp_path / "containerd"
    state.mkdir()
    assert f"{state} is there, of a cluster that runs" in refused(tmp_path, STATE=str(state))
