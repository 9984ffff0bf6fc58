"""The objects of the walk that no chart makes: a broker, a client to inject into, a closed pod.

Their programs are the Kafka lab's, from the node's disk: there is no registry to have images from.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.kubernetes.cluster import REPOSITORY
from tests.lab.artifacts import cache_folder

if TYPE_CHECKING:
    from tests.lab.artifacts import Artifacts

BASE = "localhost/brokerwire-base:bookworm"
PROCESS_ACCESS = "brokerwire/process-access"
RULES = REPOSITORY / "examples" / "jmx_exporter" / "brokerwire.yaml"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://$POD_IP:9092
log.dirs=/tmp/data
offsets.topic.replication.factor=1
auto.create.topics.enable=true
"""


def _java() -> Path:
    return Path(shutil.which("java") or "java").resolve()


def _mounts() -> list[str]:
    java = _java()
    folders = [java.parents[1], *Path("/etc").glob("java-*-openjdk"), cache_folder(), RULES.parent]
    return [str(folder.resolve()) for folder in folders]


# Two clients in one process. Commands of tests/lab/control.py; the open pipe keeps the process alive.
# It works on commands side by side, so each but the first waits for the answer before it.
CLIENT_IDS = ("shop", "audit")
CLIENT = r"""
touch /tmp/said
{
  for each in $CLIENT_IDS; do
    printf '%s\tcreate\tkind=producer\tname=%s\tp.client.id=%s\tp.bootstrap.servers=%s\tp.connections.max.idle.ms=-1\n' $each $each $each "$SERVERS"
    until grep -q "\"id\":\"$each\"" /tmp/said; do sleep 0.5; done
  done
  sleep 3
  for each in $CLIENT_IDS; do
    printf '%s-sends\tsend\tname=%s\ttopic=orders\tpartitions=0\trounds=-1\tinterval_ms=500\tsize=10\twait=false\n' $each $each
    until grep -q "\"id\":\"$each-sends\"" /tmp/said; do sleep 0.5; done
  done
  sleep 1000000
} | $JAVA | tee /tmp/said
"""


def client_script(artifacts: Artifacts, servers: str) -> str:
    """What starts a Java process of the lab with jmx_exporter: its producers, then their messages."""
    classes = (artifacts.client_classes["4.4.0"], artifacts.client_jars["4.4.0"] / "*")
    path = ":".join(map(str, classes))
    java = (
        f"{_java()} -Xmx256m -XX:+UseSerialGC"
        f" -javaagent:{artifacts.jmx_exporter}=127.0.0.1:9404:{RULES} -cp '{path}' LabClient"
    )
    return (
        CLIENT.replace("$JAVA", java)
        .replace('"$SERVERS"', servers)
        .replace("$CLIENT_IDS", " ".join(CLIENT_IDS))
    )


def agent_config() -> dict[str, Any]:
    """What the agent cannot know by itself: that idle closing is off, and where the metrics are."""
    return {
        "clients": {
            "rules": [{"client_id": each, "connections_max_idle": "off"} for each in CLIENT_IDS]
        },
        "sources": {
            "java": [{"name": "orders", "url": "http://127.0.0.1:9404/metrics", "interval": "1s"}]
        },
    }


def client_values(artifacts: Artifacts, servers: str) -> dict[str, Any]:
    """The values of an application whose sidecar may look into its processes."""
    return {
        "script": client_script(artifacts, servers),
        "mounts": _mounts(),
        "brokerwire": {
            "image": {"repository": "localhost/brokerwire", "tag": "e2e", "pullPolicy": "Never"},
            "dashboards": {"enabled": False},
            "sidecar": {"processAccess": True},
            "config": agent_config(),
        },
    }


def _container(name: str, script: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": BASE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "volumeMounts": [
            {"name": f"node-{index}", "mountPath": path, "readOnly": True}
            for index, path in enumerate(_mounts())
        ],
    }


def _volumes() -> list[dict[str, Any]]:
    return [
        {"name": f"node-{index}", "hostPath": {"path": path}}
        for index, path in enumerate(_mounts())
    ]


def broker(artifacts: Artifacts) -> str:
    """A pod with one broker that is its own controller."""
    path = f"{artifacts.broker_classes}:{artifacts.server_jars}/*"
    script = (
        f"cat >/tmp/p <<E\n{PROPERTIES}E\n"
        f"sleep 1000000 | {_java()} -Xmx384m -XX:+UseSerialGC -cp '{path}' LabBroker /tmp/p"
        " format --config /tmp/p --cluster-id brokerwireTestCluster0 --ignore-formatted"
    )
    container = _container("kafka", script)
    container["env"] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    ]
    container["readinessProbe"] = {"tcpSocket": {"port": 9092}, "periodSeconds": 2}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kafka", "namespace": "shop", "labels": {"app": "kafka"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "volumes": _volumes(),
            },
        }
    )


def application(
    artifacts: Artifacts, servers: str, *, name: str, user: int, pod: dict[str, Any]
) -> str:
    """A Deployment of a Java client; `pod` has what its pods say of the sidecar, if anything."""
    labels = {"app.kubernetes.io/name": name}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "shop", "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {**pod, "labels": {**labels, **pod.get("labels", {})}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "securityContext": {"runAsUser": user, "runAsGroup": user},
                        "containers": [_container(name, client_script(artifacts, servers))],
                        "volumes": _volumes(),
                    },
                },
            },
        }
    )


def asks_for_the_sidecar() -> dict[str, Any]:
    """All that a pod says to be injected."""
    return {
        "labels": {"brokerwire/inject": "true"},
        "annotations": {"brokerwire/config": yaml.safe_dump(agent_config())},
    }


def with_host_processes() -> str:
    """A pod that has the host's processes, asks for the sidecar, and for access to processes."""
    labels = {"brokerwire/inject": "true", PROCESS_ACCESS: "true"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "host", "namespace": "shop", "labels": labels},
            "spec": {"hostPID": True, "containers": [{"name": "app", "image": BASE}]},
        }
    )


def restricted() -> str:
    """A pod that Pod Security's strictest level takes, and that asks for all that the sidecar can."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "closed",
                "namespace": "closed",
                "labels": {"brokerwire/inject": "true", PROCESS_ACCESS: "true"},
            },
            "spec": {
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 1000,
                    "runAsGroup": 0,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "app",
                        "image": BASE,
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        }
    )
