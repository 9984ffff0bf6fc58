"""One agent in a DaemonSet, and what it says of pods from outside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.kubernetes.cluster import wait_for
from tests.kubernetes.objects import agent_config
from tests.kubernetes.walk import OURS, SHOP, ask, metrics_of, resident_mib

if TYPE_CHECKING:
    from tests.kubernetes.walk import Walk

AGENT = "brokerwire/node-agent=true"
SETTLED = [("data", "exact"), ("zombie", "exact")]


def watch_from_the_node(walk: Walk) -> None:
    """One agent for the node sees both clients, whose own sidecars have said the same before."""
    values = walk.folder / "node.yaml"
    config = {"networks": {"interval": "2s"}, **agent_config()}
    values.write_text(yaml.safe_dump({"daemonset": {"enabled": True}, "config": config}))
    walk.upgrade_ours("--values", values)
    agent = walk.cluster.ready_pod(AGENT, OURS)
    monitor = walk.cluster.get("podmonitor", "brokerwire-node", OURS)
    assert monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"] is True
    walk.say("daemonset: an agent with three capabilities runs on the node")
    names = [
        walk.cluster.pod(f"app.kubernetes.io/name={name}", SHOP)["metadata"]["name"]
        for name in ("orders", "billing")
    ]
    wait_for("both clients to be seen from the node", lambda: _tells_of(agent, names))
    lines = metrics_of(agent)
    for name in names:
        assert any(
            line.startswith("kafka_client_connections{")
            and f'namespace="{SHOP}"' in line
            and f'pod="{name}"' in line
            for line in lines
        )
    walk.say(
        "  it says of both pods, by namespace and name: 1 data, 1 zombie, both exact;"
        f" {resident_mib(lines):.0f} MiB resident"
    )


def _tells_of(agent: dict[str, Any], names: list[str]) -> bool:
    listed = ask(agent, "/api/v1/networks")["networks"]
    paths = {(each["namespace"], each["pod"]): each["path"] for each in listed}
    assert paths.keys() >= {(SHOP, name) for name in names}, listed
    seen = {
        name: ask(agent, f"{paths[SHOP, name]}api/v1/connections")["connections"] for name in names
    }
    for found in seen.values():
        assert sorted((each["class"], each["confidence"]) for each in found) == SETTLED, seen
        assert {each["owner_rung"] for each in found} == {"proc_fd"}, seen
    return True
