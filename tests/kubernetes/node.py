"""One agent in a DaemonSet, and what it says of pods from outside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.kubernetes.cluster import wait_for
from tests.kubernetes.objects import CLIENT_IDS, agent_config
from tests.kubernetes.said import assert_settled, connections, groups
from tests.kubernetes.walk import OURS, SHOP, ask, metrics_of, resident_mib

if TYPE_CHECKING:
    from tests.kubernetes.walk import Walk

AGENT = "brokerwire/node-agent=true"
# The last of them has no sidecar.
UIDS = {"orders": 1000, "billing": 1000, "returns": 2000}


def watch_from_the_node(walk: Walk) -> None:
    """One agent for the node says of all pods what sidecars say of theirs."""
    values = walk.folder / "node.yaml"
    config = {"networks": {"interval": "2s"}, **agent_config()}
    values.write_text(yaml.safe_dump({"daemonset": {"enabled": True}, "config": config}))
    walk.upgrade_ours("--values", values)
    agent = walk.cluster.ready_pod(AGENT, OURS)
    monitor = walk.cluster.get("podmonitor", "brokerwire-node", OURS)
    assert monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"] is True
    walk.say("daemonset: an agent with three capabilities runs on the node")
    uids = {
        walk.cluster.pod(f"app.kubernetes.io/name={name}", SHOP)["metadata"]["name"]: uid
        for name, uid in UIDS.items()
    }
    wait_for("all clients to be seen from the node", lambda: _tells_of(agent, uids))
    lines = metrics_of(agent)
    for name in uids:
        assert any(
            line.startswith("kafka_client_connections{")
            and f'namespace="{SHOP}"' in line
            and f'pod="{name}"' in line
            for line in lines
        )
    count = len(CLIENT_IDS)
    walk.say(
        f"  it says of all {len(uids)} pods, by namespace and name: {count} data, {count} zombies,"
        f" none weaker than strong; {resident_mib(lines):.0f} MiB resident"
    )
    walk.say(f"  and the groups of the {count} clients in each, with and without a sidecar")


def _tells_of(agent: dict[str, Any], uids: dict[str, int]) -> bool:
    listed = ask(agent, "/api/v1/networks")["networks"]
    paths = {(each["namespace"], each["pod"]): each["path"] for each in listed}
    assert paths.keys() >= {(SHOP, name) for name in uids}, listed
    for name, uid in uids.items():
        found = connections(agent, paths[SHOP, name])
        assert_settled(found)
        assert {each["owner_rung"] for each in found} == {"proc_fd"}, found
        assert {each["uid"] for each in found} == {uid}, found
        assert groups(agent, paths[SHOP, name])
    return True
