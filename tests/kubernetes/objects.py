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


# Commands of tests/lab/control.py; the open pipe keeps the client alive. It works on commands side by
# side, so each but the first waits for the answer before it.
CLIENT = r"""
touch /tmp/said
{
  printf '1\tcreate\tkind=producer\tname=shop\tp.client.id=shop\tp.bootstrap.servers=%s\tp.connections.max.idle.ms=-1\n' "$SERVERS"
  until grep -q '"id":"1"' /tmp/said; do sleep 0.5; done
  sleep 3
  printf '2\tsend\tname=shop\ttopic=orders\tpartitions=0\trounds=-1\tinterval_ms=500\tsize=10\twait=false\n'
  sleep 1000000
} | $JAVA | tee /tmp/said
"""


def client_script(artifacts: Artifacts, servers: str) -> str:
    """What starts a Java client of the lab with jmx_exporter: one producer, then its messages."""
    classes = (artifacts.client_classes["4.4.0"], artifacts.client_jars["4.4.0"] / "*")
    path = ":".join(map(str, classes))
    java = (
        f"{_java()} -Xmx256m -XX:+UseSerialGC"
        f" -javaagent:{artifacts.jmx_exporter}=127.0.0.1:9404:{RULES} -cp '{path}' LabClient"
    )
    return CLIENT.replace("$JAVA", java).replace('"$SERVERS"', servers)


def agent_config() -> dict[str, Any]:
    """What the agent cannot know by itself: that idle closing is off, and where the metrics are."""
    return {
        "clients": {"rules": [{"client_id": "shop", "connections_max_idle": "off"}]},
        "sources": {
            "java": [{"name": "orders", "url": "http://127.0.0.1:9404/metrics", "interval": "1s"}]
        },
    }


def client_values(artifacts: Artifacts, servers: str) -> dict[str, Any]:
    """The values of an application with the sidecar under its own uid, in one PID namespace."""
    return {
        "script": client_script(artifacts, servers),
        "mounts": _mounts(),
        "brokerwire": {
            "image": {"repository": "localhost/brokerwire", "tag": "e2e", "pullPolicy": "Never"},
            "dashboards": {"enabled": False},
            "sidecar": {"runAsUser": 1000, "runAsGroup": 1000, "shareProcessNamespace": True},
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


def injected(artifacts: Artifacts, servers: str) -> str:
    """A Deployment that knows nothing of the sidecar but the label that asks for it."""
    labels = {"app.kubernetes.io/name": "billing"}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "billing", "namespace": "shop", "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {
                        "labels": {**labels, "brokerwire/inject": "true"},
                        "annotations": {"brokerwire/config": yaml.safe_dump(agent_config())},
                    },
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
                        "containers": [_container("billing", client_script(artifacts, servers))],
                        "volumes": _volumes(),
                    },
                },
            },
        }
    )


def restricted() -> str:
    """A pod that Pod Security's strictest level takes, and that asks for the sidecar."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "closed",
                "namespace": "closed",
                "labels": {"brokerwire/inject": "true"},
            },
            "spec": {
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 1000,
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
