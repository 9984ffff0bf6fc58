"""Everything at once: brokers, clients, the agent as a process, Prometheus, Alertmanagers, webhooks.

There are two ways from a cause to somebody's pager, and the scene has both: Prometheus with rendered
rules, and the agent's own alerts. Each has an Alertmanager and a webhook of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from exporter.alerts.catalogue import ALERTS
from tests.e2e.monitoring import (
    HOST,
    REPOSITORY,
    Alertmanager,
    Prometheus,
    Told,
    Webhook,
    answers,
    child,
    get,
)
from tests.lab.addresses import free_port
from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JavaClient, JavaMetrics
from tests.lab.processes import wait_until
from tests.lab.rdkafka_client import RdkafkaClient, Statistics
from tools.replay_trace import TRACE

if TYPE_CHECKING:
    from tests.lab.artifacts import Artifacts

TOPIC = "e2e"
# The two JVMs, as the agent calls their metrics: the second one stays empty until it is crowded.
ORDERS, CROWD = "orders", "crowd"
BROKERWIRE = Path(sys.executable).with_name("brokerwire")
PLACE = {"cluster": "lab", "namespace": "shop", "pod": "orders-0"}
WAYS = ("prometheus", "agent")

# What the agents are told of the brokers: none of the healthy clients comes near it.
MOST_CONNECTIONS = 60

# What takes minutes in production takes seconds here: one scrape a second, and each `for` is six.
SHORT = {
    "thresholds": {
        "gap": "5s",
        "poll_age": "8s",
        # One restart costs the dozen clients here one connection each, two restarts two.
        "storm_rounds": 1,
        "storm_connections": 15,
        "storm_window": "40s",
        # In less than the first nine minutes bootstrap connections weigh much: a third is healthy.
        "efficiency_percent": 20,
        "efficiency_window": "20s",
        # More than the healthy clients have, whose bootstrap connections are a third of all.
        "unused_connections": 25,
        "unused_percent": 40,
    },
    "labels": {"run": "short"},
    "alerts": [
        {"name": alert.name, "fire_after": "6s", "keep_firing_for": "5s"} for alert in ALERTS
    ],
}
# For the healthy run: a tenth of the defaults, which a broker's restart must not outlast.
CALM = {
    "thresholds": {"gap": "18s", "poll_age": "30s"},
    "labels": {"run": "calm"},
    "alerts": [
        {
            "name": alert.name,
            "fire_after": f"{alert.fire_after.seconds / 10:g}s",
            "keep_firing_for": f"{alert.keep_firing_for.seconds / 10:g}s",
        }
        for alert in ALERTS
    ],
}


@dataclass
class Cause:
    """One cause: when it began and ended, and when each way told of the alert."""

    alert: str
    cause: str
    labels: dict[str, str]
    began: float
    ways: tuple[str, ...] = WAYS
    ended: float = 0.0
    firing: dict[str, float] = field(default_factory=dict)
    resolved: dict[str, float] = field(default_factory=dict)


class Scene:
    """Set up by `with`; whatever was started ends with it."""

    def __init__(self, artifacts: Artifacts, folder: Path) -> None:
        self.folder = folder
        self.causes: list[Cause] = []
        self.notes: dict[str, object] = {}
        self._agent_file = folder / "brokerwire.yaml"
        self._artifacts = artifacts
        self._stack = ExitStack()
        self._ports = {name: free_port() for name in (ORDERS, CROWD)}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._write_times()

    def _start(self) -> None:
        enter = self._stack.enter_context
        self.cluster = enter(KafkaCluster(self._artifacts, brokers=3))
        self.cluster.create_topic(TOPIC, 3)
        self.java = self.start_java()
        self.crowd = self.start_java(CROWD)
        self.native = enter(
            RdkafkaClient(
                self._artifacts,
                self.cluster,
                statistics=Statistics(socket=self.folder / "statistics"),
            )
        )
        self.hooks = {way: enter(Webhook()) for way in WAYS}
        managers = {way: enter(Alertmanager(self.folder / way, self.hooks[way])) for way in WAYS}
        short, calm = self._rendered("short", SHORT), self._rendered("calm", CALM)
        self.agent_address = f"{HOST}:{free_port(HOST)}"
        self._configure_agent(managers["agent"].url, short / "settings.yaml")
        self.start_agent()
        self.prometheus = enter(
            Prometheus(
                self.folder / "server",
                agent=self.agent_address,
                rules=[short / "alerts.yaml", calm / "alerts.yaml", short / "recording.yaml"],
                alertmanager=managers["prometheus"],
            )
        )

    def start_java(self, name: str = ORDERS) -> JavaClient:
        """Start a JVM whose metrics are where the agent looks for them."""
        return self._stack.enter_context(
            JavaClient(
                self._artifacts,
                self.cluster,
                "4.4.0",
                metrics=JavaMetrics(jmx_exporter="plain", jmx_port=self._ports[name]),
                jvm_options=(f"-Dlab.scene={self.folder}",),
            )
        )

    def _rendered(self, name: str, settings: dict) -> Path:
        folder = self.folder / f"rules-{name}"
        folder.mkdir()
        written = folder / "settings.yaml"
        written.write_text(yaml.safe_dump(settings))
        render = [BROKERWIRE, "rules", "render", "--settings", written, "--output", folder]
        subprocess.run(render, check=True, timeout=60)
        return folder

    def _configure_agent(self, alertmanager: str, rules: Path) -> None:
        config = {
            "brokers": {
                "ports": [self.cluster.port()],
                "max_connections": MOST_CONNECTIONS,
                "max_connections_per_ip": MOST_CONNECTIONS,
            },
            "clients": {
                "processes": [{"command": re.escape(str(self.folder))}],
                "rules": [{"client_id": "z-*", "connections_max_idle": "off"}],
            },
            "sources": {
                "java": [
                    {"name": name, "url": jvm.jmx_url, "interval": "2s", "timeout": "5s"}
                    for name, jvm in ((ORDERS, self.java), (CROWD, self.crowd))
                ],
                "librdkafka": {"unix_socket": str(self.folder / "statistics")},
            },
            "classes": {"settle_after": "4s"},
            "web": {"listen_addresses": [self.agent_address]},
            "alertmanager": {
                "targets": [{"url": alertmanager}],
                "interval": "5s",
                "labels": PLACE,
                "external_url": f"http://{self.agent_address}/",
                "rules_file": str(rules),
            },
        }
        text = yaml.safe_dump(config)
        self._agent_file.write_text(
            text.replace("connections_max_idle: 'off'", "connections_max_idle: off")
        )

    def start_agent(self) -> None:
        """Start the agent, for the first time or anew, and wait until it serves."""
        command = [str(BROKERWIRE), "run", "--config", str(self._agent_file)]
        self.agent = child("agent", command, self.folder / "agent.log")
        self._stack.callback(self.agent.kill)
        wait_until(
            "the agent to serve",
            lambda: answers(f"http://{self.agent_address}/metrics"),
            timeout=60,
        )

    # ---- what the tests do with it --------------------------------------------------------

    def connections(self, client_id: str) -> dict[str, float]:
        """How many connections of each class a client holds, by Prometheus; no zeros."""
        found = self.prometheus.query(
            f'sum by (class) (kafka_client_connections{{client_id="{client_id}"}}) > 0'
        )
        return {each["metric"]["class"]: float(each["value"][1]) for each in found}

    def wait_data(self, *names: str, count: int = 3, seconds: float = 90.0) -> None:
        """Wait until each of these clients holds so many data connections."""
        for name in names:
            wait_until(
                f"{count} data connections of {name}",
                lambda: self.connections(name).get("data") == count,  # noqa: B023
                timeout=seconds,
                interval=0.5,
            )

    def begins(self, alert: str, because: str, /, **labels: str) -> Cause:
        """Note that a cause begins now; a second try takes the place of the first."""
        noted = Cause(alert, because, labels, time.time())
        tried = [each for each in self.causes if (each.alert, each.cause) == (alert, because)]
        self.causes = [each for each in self.causes if each not in tried] + [noted]
        return noted

    def wait_firing(self, *causes: Cause, seconds: float = 90.0) -> None:
        """Wait until each way has told of each cause."""
        for cause in causes:
            for way in cause.ways:
                cause.firing[way] = self._told(way, cause, "firing", cause.began, seconds).at

    def wait_resolved(self, *causes: Cause, seconds: float = 120.0) -> None:
        """Wait until each way has told that each is over."""
        for cause in causes:
            for way in cause.ways:
                cause.resolved[way] = self._told(way, cause, "resolved", cause.ended, seconds).at

    def _told(self, way: str, cause: Cause, status: str, since: float, seconds: float) -> Told:
        hook = self.hooks[way]

        def those() -> list[Told]:
            told = hook.of(cause.alert, status, run="short", **cause.labels)
            return [each for each in told if each.at >= since]

        try:
            wait_until(f"{cause.alert} to be {status}", those, timeout=seconds, interval=0.2)
        except Exception as error:
            raise AssertionError(
                f"{cause.alert} {cause.labels} is not {status} by way of {way}; it told"
                f" {[(t.name, t.status, t.labels) for t in hook.told if t.at >= since]};"
                f" Prometheus has {self.prometheus.alerts()}"
            ) from error
        return those()[0]

    def told(self, run: str, status: str = "firing", *, since: float = 0.0) -> list[Told]:
        """What was told of a rule set, about this scene's brokers or about none in particular."""
        return [
            told
            for hook in self.hooks.values()
            for told in tuple(hook.told)
            if told.labels.get("run") == run
            and told.status == status
            and told.at >= since
            and self.is_ours(told.labels)
        ]

    def is_ours(self, labels: dict[str, str]) -> bool:
        """Whether an alert can be about this scene.

        Other clusters of the machine have the same ports: their clients have no owner here.
        """
        ours = self.cluster.host(3).rpartition(".")[0]
        if labels["alertname"] == "KafkaClientConnectionChurn" and not {"broker", "process"} & {
            *labels
        }:
            return False
        return labels.get("broker", ours).startswith(ours)

    def _write_times(self) -> None:
        cache = Path(os.environ.get("BROKERWIRE_CACHE") or REPOSITORY / ".cache")
        cache.mkdir(exist_ok=True)
        path = cache / "alert-times.json"
        before = json.loads(path.read_text()) if path.exists() else {"notes": {}, "causes": []}
        record = {
            "notes": {**before["notes"], **self.notes, "thresholds": SHORT["thresholds"]},
            "causes": [*self._others(before["causes"]), *map(asdict, self.causes)],
        }
        path.write_text(json.dumps(record, indent=1) + "\n")

    def _others(self, causes: list[dict]) -> list[dict]:
        """Return those of earlier runs that this one did not have: not each run has all tests."""
        mine = {(cause.alert, cause.cause) for cause in self.causes}
        return [cause for cause in causes if (cause["alert"], cause["cause"]) not in mine]


class Recorder:
    """Writes down what the agent serves, for `tools/replay_trace.py`."""

    STEP_SECONDS = 5.0

    def __init__(self, address: str) -> None:
        self._address = address
        self._scrapes: list[str | None] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._begun = time.time()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        record = {"step": self.STEP_SECONDS, "begun": self._begun, "scrapes": self._scrapes}
        TRACE.parent.mkdir(exist_ok=True)
        TRACE.write_text(json.dumps(record))

    def _run(self) -> None:
        while not self._stop.is_set():
            text = None
            with suppress(OSError):
                text = get(f"http://{self._address}/metrics", timeout=2.0).decode()
            # A scrape that a busy machine could not make in its time is one that was missed.
            late = time.time() - self._begun - len(self._scrapes) * self.STEP_SECONDS
            self._scrapes += [None] * int(late // self.STEP_SECONDS)
            self._scrapes.append(text)
            due = self._begun + len(self._scrapes) * self.STEP_SECONDS
            self._stop.wait(max(0.0, due - time.time()))
