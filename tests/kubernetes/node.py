"""The node's step of the walk: one agent in a DaemonSet, and what it says of pods from outside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from tests.e2e.monitoring import get
from tests.kubernetes.cluster import wait_for
from tests.kubernetes.objects import agent_config

if TYPE_CHECKING:
    from collections.abc import Collection

SETTLED = [("data", "exact"), ("zombie", "exact")]


def values() -> str:
    """What our release needs for an agent on each node."""
    config = {"networks": {"interval": "2s"}, **agent_config()}
    return yaml.safe_dump({"daemonset": {"enabled": True}, "config": config})


def wait_for_pods(address: str, wanted: Collection[tuple[str, str]]) -> float:
    """Wait until the agent tells of pods, by namespace and name; return its MiB."""

    def told() -> bool:
        listed = _asked(address, "/api/v1/networks")["networks"]
        paths = {(each["namespace"], each["pod"]): each["path"] for each in listed}
        seen = {name: _seen(address, paths[name]) for name in wanted}
        assert all(each == SETTLED for each in seen.values()), seen
        return True

    wait_for("both clients to be seen from the node", told)
    lines = get(f"http://{address}:10920/metrics").decode().splitlines()
    for namespace, name in wanted:
        assert any(
            line.startswith("kafka_client_connections{")
            and f'namespace="{namespace}"' in line
            and f'pod="{name}"' in line
            for line in lines
        )
    (resident,) = [line for line in lines if line.startswith("process_resident_memory_bytes ")]
    return float(resident.split()[1]) / 2**20


def _asked(address: str, path: str) -> Any:
    return json.loads(get(f"http://{address}:10920{path}", timeout=5))


def _seen(address: str, path: str) -> list[tuple[str, str]]:
    found = _asked(address, f"{path}api/v1/connections")["connections"]
    assert {each["owner_rung"] for each in found} <= {"proc_fd"}, found
    return sorted((each["class"], each["confidence"]) for each in found)
