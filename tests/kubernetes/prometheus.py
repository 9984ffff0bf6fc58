"""A Prometheus that does what the chart's PodMonitor and PrometheusRule say."""

from __future__ import annotations

import json
import subprocess
import urllib.error
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml

from tests.e2e.monitoring import get, tool
from tests.kubernetes.cluster import wait_for
from tests.kubernetes.release import ALERT
from tests.kubernetes.scrape_settings import by_file, scrape_settings
from tests.kubernetes.walk import OURS

if TYPE_CHECKING:
    from contextlib import ExitStack

    from tests.kubernetes.walk import Walk

ADDRESS = "127.7.7.7:19090"
# The node's own address, which pods have a way to (tools/kubernetes/up.sh).
PUSHGATEWAY = "10.244.255.1:19091"
_PUSHED = "pushgateway"


def scrape(walk: Walk, stack: ExitStack, pods: list[dict[str, Any]]) -> None:
    """Find the pods, scrape them, and let the alert fire."""
    way = _start(walk, stack)
    names = {each["metadata"]["name"] for each in pods}

    def targets() -> bool:
        active = _asked("targets?state=active")["activeTargets"]
        up = [each["labels"] for each in active if each["health"] == "up"]
        return {labels["pod"] for labels in up if labels["job"] != _PUSHED} == names

    wait_for("both pods to be scraped", targets)
    walk.say(f"Prometheus finds both sidecars {way} and scrapes them")

    def firing() -> bool:
        found = asked_for(f'ALERTS{{alertname="{ALERT}",alertstate="firing"}}')
        return {each["metric"]["job"] for each in found} == {"orders", "billing"}

    wait_for("the alert", firing)
    walk.say(f"{ALERT} fires for job orders and job billing")


def _start(walk: Walk, stack: ExitStack) -> str:
    """Start it until the stack ends; return how it finds pods."""
    rules = []
    for kind in ("alerts", "recording"):
        found = walk.cluster.get("prometheusrule", f"brokerwire-{kind}", OURS)
        rules.append(walk.folder / f"{kind}.yaml")
        rules[-1].write_text(yaml.safe_dump(found["spec"]))
    monitor = walk.cluster.get("podmonitor", "brokerwire", OURS)
    settings = scrape_settings(monitor, walk.cluster.kubeconfig, rules)
    program, way = walk.cluster.bin / "prometheus", "by kubernetes_sd"
    if not program.exists():
        program = Path(tool("prometheus"))
        way = "by a list from the API server (this Prometheus has no kubernetes_sd)"
        settings = by_file(settings, monitor, _selected(walk, monitor))
    settings["scrape_configs"].append(
        {
            "job_name": _PUSHED,
            "honor_labels": True,
            "static_configs": [{"targets": [PUSHGATEWAY]}],
        }
    )
    config = walk.folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(settings))
    log = stack.enter_context((walk.folder / "prometheus.log").open("w"))
    process = stack.enter_context(
        subprocess.Popen(
            [program, f"--config.file={config}", f"--web.listen-address={ADDRESS}",
             f"--storage.tsdb.path={walk.folder / 'data'}"],
            stdout=log, stderr=log,
        )
    )  # fmt: skip
    stack.callback(process.kill)
    wait_for("Prometheus", lambda: _asked("status/buildinfo"))
    return way


def start_pushgateway(walk: Walk, stack: ExitStack) -> None:
    """Start one until the stack ends, where that Prometheus looks for it."""
    log = stack.enter_context((walk.folder / "pushgateway.log").open("w"))
    command = [tool("pushgateway"), f"--web.listen-address={PUSHGATEWAY}", "--persistence.file="]
    process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
    stack.callback(process.kill)
    wait_for("the Pushgateway", lambda: get(f"http://{PUSHGATEWAY}/-/ready"))


def asked_for(query: str) -> list[dict[str, Any]]:
    """Return what that Prometheus answers to a query."""
    found: list[dict[str, Any]] = _asked(f"query?query={quote(query)}")["result"]
    return found


def _asked(path: str) -> Any:
    try:
        return json.loads(get(f"http://{ADDRESS}/api/v1/{path}"))["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read()) from error


def _selected(walk: Walk, monitor: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pods that the PodMonitor selects."""
    ((label, value),) = monitor["spec"]["selector"]["matchLabels"].items()
    text = walk.cluster.kubectl("get", "pods", "-A", "-l", f"{label}={value}", "-o", "json")
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found
