"""The sidecar in a pod: whose a connection is and what it is come out as docs/install.md says."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.container.pods import (
    CLOSED,
    IMAGE,
    MEMORY,
    REPOSITORY,
    agent_image,
    in_container,
    in_network,
    java_by,
    need_podman,
    pod,
)
from tests.e2e.monitoring import Prometheus
from tests.lab.artifacts import cache_folder
from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JavaClient, JavaMetrics
from tests.lab.processes import wait_until

if TYPE_CHECKING:
    from tests.container.pods import Pod

pytestmark = [pytest.mark.container, pytest.mark.lab, pytest.mark.timeout(900)]

ALERT = "KafkaClientZombieConnections"
BROKERWIRE = Path(sys.executable).with_name("brokerwire")
OURS = 65532
APPLICATION = 1000
RULES = REPOSITORY / "examples" / "jmx_exporter" / "brokerwire.yaml"


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    need_podman()
    agent_image()


@pytest.fixture(params=["apart", "shared"])
def namespaces(request) -> str:
    return {"apart": "net,ipc,uts", "shared": "net,ipc,uts,pid"}[request.param]


@pytest.mark.parametrize("uid", [OURS, APPLICATION], ids=["other-uid", "same-uid"])
def test_connections_are_told_apart(uid, namespaces, lab_artifacts, tmp_path, monkeypatch):
    """One client with idle closing off: its data connection, and a zombie that will stay."""
    path = os.environ["PATH"]
    is_shared = namespaces.endswith("pid")
    with ExitStack() as stack:
        here = stack.enter_context(pod(shared=namespaces))
        java_by(tmp_path / "broker", in_network(here))
        monkeypatch.setenv("PATH", f"{tmp_path / 'broker'}:{path}")
        # From here nothing reaches that broker: the client's first record makes the topic.
        made = {"auto.create.topics.enable": "true", "num.partitions": "1"}
        cluster = stack.enter_context(KafkaCluster(lab_artifacts, brokers=1, broker_config=made))
        folders = (cache_folder().resolve(), RULES.parent)
        java_by(tmp_path / "client", in_container(here, APPLICATION, *folders))
        monkeypatch.setenv("PATH", f"{tmp_path / 'client'}:{path}")
        client = stack.enter_context(
            JavaClient(lab_artifacts, cluster, "4.4.0", metrics=JavaMetrics(jmx_exporter=RULES))
        )
        monkeypatch.setenv("PATH", path)
        config = tmp_path / "config"
        config.mkdir()
        source = {"name": "orders", "url": client.jmx_url, "interval": "1s"}
        (config / "brokerwire.yaml").write_text(
            yaml.safe_dump(
                {
                    "brokers": {"ports": [cluster.port()]},
                    "clients": {"rules": [{"client_id": "shop", "connections_max_idle": "off"}]},
                    "sources": {"java": [source]},
                }
            )
        )
        config.chmod(0o755)
        here.run(
            IMAGE, "run", "--config", "/etc/brokerwire/brokerwire.yaml",
            options=(
                *CLOSED, *MEMORY, "--user", f"{uid}:{uid}",
                "--volume", f"{config}:/etc/brokerwire:ro",
            ),
        )  # fmt: skip
        client.producer("shop", properties={"connections.max.idle.ms": -1})
        client.send("shop", "orders", rounds=-1, interval=0.5, wait=False)

        def connections() -> list[dict]:
            try:
                return here.ask("/api/v1/connections")["connections"]
            except OSError:
                return []

        def are_told() -> bool:
            # The kernel's signs tell classes, weakly, before the client's own metrics do.
            found = connections()
            is_sure = {each["confidence"] for each in found} <= {"exact", "strong"}
            return is_sure and sorted(each["class"] for each in found) == ["data", "zombie"]

        wait_until("a data connection and a zombie", are_told, timeout=60, interval=1.0)
        found = connections()
        assert {each["client_id"] for each in found} == {"shop"}
        assert {each["uid"] for each in found} == {APPLICATION}
        is_same = uid == APPLICATION
        # Where the machine's sockets are all in one cgroup, as on cgroup v1, the uid is what is left.
        words = here.ask("/api/v1/sources")["agent"]["capabilities"]
        has_cgroups = any(each.startswith("owner by cgroup: yes") for each in words)
        below = "cgroup" if has_cgroups else "uid"
        rung = "proc_fd" if is_same and is_shared else below
        assert {each["owner_rung"] for each in found} == {rung}
        assert ({each["process"] for each in found} == {"java"}) is (rung == "proc_fd")
        # Which sockets are one client is known with the process, and nothing is made up without.
        client = 1 if rung == "proc_fd" else None
        assert {each["client_number"] for each in found} == {client}
        findings = here.ask("/api/v1/findings")["findings"]
        assert ALERT in {each["name"] for each in findings}
        if not is_shared and not is_same:
            # What the rules say does not depend on who owns a socket: once is enough.
            alert_fires(here, tmp_path)


def alert_fires(here: Pod, folder: Path) -> None:
    """Scrape the pod with a real Prometheus and our rules, `for` shortened, until it fires."""
    settings = folder / "rules.yaml"
    settings.write_text(yaml.safe_dump({"alerts": [{"name": ALERT, "fire_after": "3s"}]}))
    render = ["rules", "render", "--settings", settings, "--output", folder / "rules"]
    subprocess.run([BROKERWIRE, *render], check=True, timeout=60)
    files = [folder / "rules" / f"{name}.yaml" for name in ("alerts", "recording")]
    with Prometheus(folder / "prometheus", agent=f"{here.address}:10920", rules=files) as server:

        def firing() -> list[dict]:
            return [
                each["labels"]
                for each in server.alerts()
                if each["state"] == "firing" and each["labels"]["alertname"] == ALERT
            ]

        wait_until(f"{ALERT} to fire", firing, timeout=60, interval=0.5)
        (labels,) = firing()
        assert (labels["client_id"], labels["pod"]) == ("shop", "orders-0")
