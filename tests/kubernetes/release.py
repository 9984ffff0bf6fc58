"""Our own release: installed with the policy, the monitor and the rules, and taken away again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.kubernetes.cluster import run, wait_for
from tests.kubernetes.walk import CHART, OURS, SHOP

if TYPE_CHECKING:
    from tests.kubernetes.walk import Walk

ALERT = "KafkaClientZombieConnections"
# Ten seconds in place of minutes: the walk is no test of patience.
QUICK = {"alerts": [{"name": ALERT, "fire_after": "10s"}]}
KINDS = "all,configmap,secret,podmonitor,servicemonitor,prometheusrule,networkpolicy"
KINDS += ",mutatingadmissionpolicy,mutatingadmissionpolicybinding"
LABELS = ("app.kubernetes.io/instance=brokerwire", "app.kubernetes.io/name=orders")


def install(walk: Walk) -> None:
    """Install the chart, its rules rendered with settings of the operator's."""
    rules = walk.folder / "rules"
    settings = walk.folder / "settings.yaml"
    settings.write_text(yaml.safe_dump(QUICK))
    program = Path(sys.executable).with_name("brokerwire")
    run(program, "rules", "render", "--settings", settings, "--output", rules)
    walk.helm(
        "install", "brokerwire", CHART, "--namespace", OURS,
        "--create-namespace", "--set", "image.repository=localhost/brokerwire,image.tag=e2e",
        "--set", "image.pullPolicy=Never,inject.enabled=true,podMonitor.enabled=true",
        "--set", "prometheusRule.enabled=true,imagePullSecrets[0].name=registry",
        "--set-file", f"prometheusRule.alertsFile={rules / 'alerts.yaml'}",
    )  # fmt: skip
    monitor = walk.cluster.get("podmonitor", "brokerwire", OURS)
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "brokerwire"
    alerts = walk.cluster.get("prometheusrule", "brokerwire-alerts", OURS)
    count = sum(len(group["rules"]) for group in alerts["spec"]["groups"])
    walk.say(f"helm install: PodMonitor and PrometheusRule accepted, {count} alert rules")


def uninstall(walk: Walk) -> None:
    """Take the application's release and ours away; nothing of either may be left."""
    walk.helm("uninstall", "orders", "--namespace", SHOP, "--wait")
    walk.helm("uninstall", "brokerwire", "--namespace", OURS, "--wait")

    def gone() -> bool:
        return not any(
            walk.cluster.kubectl("get", KINDS, "-A", "-l", label, "-o", "name") for label in LABELS
        )

    wait_for("nothing to be left", gone)
    walk.say("helm uninstall: nothing is left")
