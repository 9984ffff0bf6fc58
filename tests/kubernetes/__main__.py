"""`make e2e-kubernetes`: the chart on a real Kubernetes, step by step.

Every step is a claim with an assertion; the first that does not hold ends the walk. With `--write`
the output goes into docs/kubernetes.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tests.e2e.monitoring import get, tool
from tests.helm.tools import tool as helm_tool
from tests.kubernetes import node
from tests.kubernetes.cluster import CACHE, REPOSITORY, Cluster, run, wait_for
from tests.kubernetes.objects import broker, client_values, injected, restricted
from tests.kubernetes.scraping import by_file, scrape_settings
from tests.lab.artifacts import Artifacts, fetch_artifacts

PAGE = REPOSITORY / "docs" / "kubernetes.md"
START, END = "<!-- e2e -->", "<!-- /e2e -->"
PROMETHEUS = "127.7.7.7:19090"
ALERT = "KafkaClientZombieConnections"
# Ten seconds in place of minutes: the walk is no test of patience.
QUICK = {"alerts": [{"name": ALERT, "fire_after": "10s"}]}


class Walk:
    """The steps, and what they say."""

    def __init__(self, cluster: Cluster, folder: Path, artifacts: Artifacts) -> None:
        self.cluster = cluster
        self.folder = folder
        self.artifacts = artifacts
        self.lines: list[str] = []
        self._since = time.monotonic()

    def say(self, text: str) -> None:
        now = time.monotonic()
        line = f"{now - self._since:6.1f} s  {text}"
        self._since = now
        self.lines.append(line)
        print(line, flush=True)

    def helm(self, *arguments: str | Path) -> str:
        return run(helm_tool("helm"), *arguments)

    def agent(self, pod: dict[str, Any], path: str) -> Any:
        return json.loads(get(f"http://{pod['status']['podIP']}:10920{path}", timeout=5))

    def prometheus(self, path: str) -> Any:
        try:
            return json.loads(get(f"http://{PROMETHEUS}/api/v1/{path}"))["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error

    # Steps, in order

    def prepare(self) -> None:
        version = json.loads(self.cluster.kubectl("version", "--output", "json"))
        self.say(f"Kubernetes {version['serverVersion']['gitVersion']}, one node")
        run(REPOSITORY / "tools" / "build_image.sh", "--tag", "localhost/brokerwire:e2e",
            "--tool", "podman", timeout=900)  # fmt: skip
        self.cluster.load("localhost/brokerwire:e2e")
        self.cluster.load("localhost/brokerwire-base:bookworm")
        images = run("podman", "images", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
        pause = next((each for each in images if "podman-pause" in each), None)
        if pause is None:
            run("podman", "pod", "create", "--name", "brokerwire-pause")
            run("podman", "pod", "rm", "brokerwire-pause")
            images = run("podman", "images", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
            pause = next(each for each in images if "podman-pause" in each)
        self.cluster.load(pause, "localhost/pause:1")
        self.say("the images are on the node")
        for name in ("podmonitors", "servicemonitors", "prometheusrules"):
            path = CACHE / "kubernetes" / "crds" / f"monitoring.coreos.com_{name}.yaml"
            self.cluster.kubectl("apply", "--server-side", "-f", path)
        self.say("the Prometheus operator's definitions are there")

    def install(self) -> None:
        rules = self.folder / "rules"
        settings = self.folder / "settings.yaml"
        settings.write_text(yaml.safe_dump(QUICK))
        program = Path(sys.executable).with_name("brokerwire")
        run(program, "rules", "render", "--settings", settings, "--output", rules)
        self.helm(
            "install", "brokerwire", REPOSITORY / "helm" / "brokerwire", "--namespace", "monitoring",
            "--create-namespace", "--set", "image.repository=localhost/brokerwire,image.tag=e2e",
            "--set", "image.pullPolicy=Never,inject.enabled=true,podMonitor.enabled=true",
            "--set", "prometheusRule.enabled=true",
            "--set-file", f"prometheusRule.alertsFile={rules / 'alerts.yaml'}",
        )  # fmt: skip
        monitor = self.cluster.get("podmonitor", "brokerwire", "monitoring")
        assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "brokerwire"
        alerts = self.cluster.get("prometheusrule", "brokerwire-alerts", "monitoring")
        count = sum(len(group["rules"]) for group in alerts["spec"]["groups"])
        self.say(f"helm install: PodMonitor and PrometheusRule accepted, {count} alert rules")

    def start_broker(self) -> str:
        self.cluster.kubectl("create", "namespace", "shop")
        self.cluster.kubectl("apply", "-f", "-", text=broker(self.artifacts))
        pod = self.cluster.ready_pod("app=kafka", "shop")
        self.say("a Kafka broker runs")
        return f"{pod['status']['podIP']}:9092"

    def include(self, servers: str) -> dict[str, Any]:
        chart = self._chart_with_dependency()
        values = self.folder / "orders.yaml"
        values.write_text(yaml.safe_dump(client_values(self.artifacts, servers)))
        self.helm("install", "orders", chart, "--namespace", "shop", "--values", values)
        pod = self.cluster.ready_pod("app.kubernetes.io/name=orders", "shop")
        (status,) = pod["status"]["initContainerStatuses"]
        assert status["name"] == "brokerwire"
        assert "running" in status["state"]
        assert pod["spec"]["initContainers"][0]["restartPolicy"] == "Always"
        self.say("include: a native sidecar runs beside a Java client, of its uid")
        self._classes(pod, "proc_fd")
        return pod

    def inject(self, servers: str) -> dict[str, Any]:
        text = injected(self.artifacts, servers)
        self.cluster.kubectl("apply", "-f", "-", text=text)
        pod = self.cluster.ready_pod("app.kubernetes.io/name=billing", "shop")
        (sidecar,) = pod["spec"]["initContainers"]
        assert sidecar["name"] == "brokerwire"
        assert sidecar["securityContext"]["runAsUser"] == 1000
        assert pod["metadata"]["labels"]["brokerwire/agent"] == "true"
        self.say("inject: the policy put the native sidecar into a labelled pod, of its uid")
        # One PID namespace each: the process is out of sight, on cgroup v1 the uid is what is left.
        self._classes(pod, "uid", "cgroup")
        self.cluster.kubectl("create", "namespace", "closed")
        self.cluster.kubectl(
            "label", "namespace", "closed", "pod-security.kubernetes.io/enforce=restricted"
        )
        made = self.cluster.kubectl(
            "apply", "--dry-run=server", "-o", "json", "-f", "-", text=restricted()
        )
        assert json.loads(made)["spec"]["initContainers"][0]["name"] == "brokerwire"
        self.say("inject: a namespace that enforces `restricted` takes the pod")
        return pod

    def _classes(self, pod: dict[str, Any], *rungs: str) -> None:
        def told() -> list[dict[str, Any]] | None:
            found = self.agent(pod, "/api/v1/connections")["connections"]
            right = sorted(each["class"] for each in found) == ["data", "zombie"]
            return found if right else None

        found = wait_for("a data connection and a zombie", told, 120)
        reached = {each["owner_rung"] for each in found}
        assert reached <= set(rungs), reached
        assert {each["confidence"] for each in found} == {"exact"}
        ways = ", ".join(sorted(reached))
        memory = next(
            float(line.split()[1])
            for line in get(f"http://{pod['status']['podIP']}:10920/metrics").decode().splitlines()
            if line.startswith("process_resident_memory_bytes ")
        )
        self.say(
            f"  its agent says: 1 data, 1 zombie, both exact; owner by {ways};"
            f" {memory / 2**20:.0f} MiB resident"
        )

    def scrape(self, stack: ExitStack, pods: list[dict[str, Any]]) -> None:
        rules = []
        for kind in ("alerts", "recording"):
            found = self.cluster.get("prometheusrule", f"brokerwire-{kind}", "monitoring")
            rules.append(self.folder / f"{kind}.yaml")
            rules[-1].write_text(yaml.safe_dump(found["spec"]))
        config = self.folder / "prometheus.yml"
        monitor = self.cluster.get("podmonitor", "brokerwire", "monitoring")
        settings = scrape_settings(monitor, self.cluster.kubeconfig, rules)
        program, way = self.cluster.bin / "prometheus", "by kubernetes_sd"
        if not program.exists():
            program = Path(tool("prometheus"))
            way = "by a list from the API server (this Prometheus has no kubernetes_sd)"
            settings = by_file(settings, monitor, self._selected(monitor))
        config.write_text(yaml.safe_dump(settings))
        log = stack.enter_context((self.folder / "prometheus.log").open("w"))
        process = stack.enter_context(
            subprocess.Popen(
                [program, f"--config.file={config}", f"--web.listen-address={PROMETHEUS}",
                 f"--storage.tsdb.path={self.folder / 'data'}"],
                stdout=log, stderr=log,
            )
        )  # fmt: skip
        stack.callback(process.kill)
        wait_for("Prometheus", lambda: self.prometheus("status/buildinfo"))

        def targets() -> bool:
            active = self.prometheus("targets?state=active")["activeTargets"]
            return {each["labels"]["pod"] for each in active if each["health"] == "up"} == {
                each["metadata"]["name"] for each in pods
            }

        wait_for("both pods to be scraped", targets)
        self.say(f"Prometheus finds both sidecars {way} and scrapes them")

        def firing() -> bool:
            query = f'ALERTS{{alertname="{ALERT}",alertstate="firing"}}'
            found = self.prometheus(f"query?query={quote(query)}")["result"]
            return {each["metric"]["job"] for each in found} == {"orders", "billing"}

        wait_for("the alert", firing)
        self.say(f"{ALERT} fires for job orders and job billing")

    def _selected(self, monitor: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the pods that the PodMonitor selects."""
        ((label, value),) = monitor["spec"]["selector"]["matchLabels"].items()
        text = self.cluster.kubectl("get", "pods", "-A", "-l", f"{label}={value}", "-o", "json")
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found

    def upgrade(self, before: dict[str, Any]) -> None:
        self.helm("upgrade", "orders", self.folder / "charts" / "tests" / "kubernetes" / "client",
                  "--namespace", "shop", "--reuse-values",
                  "--set", "brokerwire.config.poll.interval=2s")  # fmt: skip
        pod = self._replaced(before)
        settled = wait_for(
            "an answer", lambda: self.agent(pod, "/api/v1/connections")["interval_seconds"]
        )
        assert settled == 2.0
        self.say("helm upgrade with another configuration: the pod was replaced and has it")

    def node(self) -> None:
        """One agent for the node sees both clients from outside of their pods."""
        values = self.folder / "node.yaml"
        values.write_text(node.values())
        self.helm("upgrade", "brokerwire", REPOSITORY / "helm" / "brokerwire", "--namespace",
                  "monitoring", "--reuse-values", "--values", values)  # fmt: skip
        pod = self.cluster.ready_pod("brokerwire/node-agent=true", "monitoring")
        monitor = self.cluster.get("podmonitor", "brokerwire-node", "monitoring")
        assert monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"] is True
        self.say("daemonset: an agent with three capabilities runs on the node")
        found = [
            self.cluster.pod(f"app.kubernetes.io/name={name}", "shop")
            for name in ("orders", "billing")
        ]
        wanted = [("shop", each["metadata"]["name"]) for each in found]
        memory = node.wait_for_pods(pod["status"]["podIP"], wanted)
        self.say(
            "  it says of both pods, by namespace and name: 1 data, 1 zombie, both exact;"
            f" {memory:.0f} MiB resident"
        )

    def _replaced(self, before: dict[str, Any]) -> dict[str, Any]:
        def replaced() -> dict[str, Any] | None:
            pod = self.cluster.ready_pod("app.kubernetes.io/name=orders", "shop")
            is_new = pod["metadata"]["name"] != before["metadata"]["name"]
            return pod if is_new else None

        pod: dict[str, Any] = wait_for("a new pod", replaced)
        return pod

    def uninstall(self) -> None:
        self.helm("uninstall", "orders", "--namespace", "shop", "--wait")
        self.helm("uninstall", "brokerwire", "--namespace", "monitoring", "--wait")
        kinds = "all,configmap,secret,podmonitor,servicemonitor,prometheusrule,networkpolicy"
        kinds += ",mutatingadmissionpolicy,mutatingadmissionpolicybinding"
        ours = ["app.kubernetes.io/instance=brokerwire", "app.kubernetes.io/name=orders"]

        def gone() -> bool:
            return not any(
                self.cluster.kubectl("get", kinds, "-A", "-l", label, "-o", "name")
                for label in ours
            )

        wait_for("nothing to be left", gone)
        self.say("helm uninstall: nothing is left")

    def _chart_with_dependency(self) -> Path:
        folder = self.folder / "charts"
        chart = folder / "tests" / "kubernetes" / "client"
        chart.parent.mkdir(parents=True)
        (folder / "helm").mkdir()
        run("cp", "-r", REPOSITORY / "helm" / "brokerwire", folder / "helm")
        run("cp", "-r", REPOSITORY / "tests" / "kubernetes" / "client", chart)
        self.helm("dependency", "update", chart)
        return chart


def main(arguments: list[str]) -> int:
    """Walk all steps."""
    artifacts = fetch_artifacts()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerwire-e2e-")))
        cluster = stack.enter_context(Cluster(folder / "cluster"))
        walk = Walk(cluster, folder, artifacts)
        walk.prepare()
        walk.install()
        servers = walk.start_broker()
        included = walk.include(servers)
        other = walk.inject(servers)
        walk.scrape(stack, [included, other])
        walk.upgrade(included)
        walk.node()
        walk.uninstall()
    if "--write" in arguments:
        before, _, rest = PAGE.read_text("utf-8").partition(START)
        after = rest.partition(END)[2]
        body = "\n".join(walk.lines)
        PAGE.write_text(f"{before}{START}\n```text\n{body}\n```\n{END}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
