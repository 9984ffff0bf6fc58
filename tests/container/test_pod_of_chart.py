"""What the chart renders, run as a kubelet would: a librdkafka client of another uid, TLS and users.

The client is the example that people copy, word for word.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

import bcrypt
import pytest
import yaml

from tests.container.pods import (
    BASE,
    CLOSED,
    IMAGE,
    JAVA,
    MEMORY,
    REPOSITORY,
    SETTINGS,
    agent_image,
    in_network,
    java_by,
    need_podman,
    pod,
    podman,
)
from tests.helm.tools import CHART, application_chart, objects_of, render
from tests.integration.web_support import issue, trusting
from tests.lab.cluster import KafkaCluster
from tests.lab.processes import ManagedProcess, wait_until

pytestmark = [
    pytest.mark.container,
    pytest.mark.helm,
    pytest.mark.lab,
    pytest.mark.timeout(600),
]

BRINGER = "localhost/brokerwire-jmx-exporter:test"
CONTAINERFILE = REPOSITORY / "examples" / "jmx_exporter" / "Containerfile"
EXAMPLE = REPOSITORY / "examples" / "statistics" / "python" / "producer.py"
CLIENT = REPOSITORY / "clients" / "python" / "brokerwire_client"
APPLICATION, SIDECAR = 1000, 65532
USER, PASSWORD = "prometheus", "opening"
INLET = "unix:/run/brokerwire/statistics.sock"


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    need_podman()
    agent_image()


@pytest.fixture
def authority():
    return issue("authority", sans=())


@pytest.fixture
def rendered(tmp_path):
    """Render the application's chart for a broker's port; return the pod and the Secret."""

    def for_port(port: int) -> tuple[dict, dict]:
        users = {USER: bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(5)).decode()}
        values = yaml.safe_load((CHART / "ci" / "librdkafka-values.yaml").read_text())
        values["sidecar"] |= {"runAsUser": SIDECAR, "runAsGroup": SIDECAR}
        values["config"] = {"brokers": {"ports": [port]}, "sources": {"java": []}}
        values["web"] = {
            "tls": {"secretName": "orders-tls", "clientAuth": True},
            "basicAuthUsers": users,
        }
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump({"uid": APPLICATION, "brokerwire": values}))
        objects = objects_of(render(application_chart(tmp_path / "charts"), "-f", file))
        (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
        (secret,) = [each for each in objects if each["kind"] == "Secret"]
        return deployment["spec"]["template"], secret

    return for_port


ANNOTATION = re.compile(r"metadata\.annotations\['([^']+)'\]")


def volumes_of(template: dict, secret: dict, authority, folder: Path) -> dict[str, Path]:
    """Make the folder of each volume, as a kubelet fills it."""
    server = folder / "orders-tls"
    server.mkdir()
    issue("orders", authority).write(server, "tls")
    (server / "ca.crt").write_text(authority.pem)
    (folder / "web").mkdir()
    for name, text in secret["stringData"].items():
        (folder / "web" / name).write_text(text)
    folders = {"orders-tls": server, secret["metadata"]["name"]: folder / "web"}
    made = {}
    for volume in template["spec"]["volumes"]:
        if "secret" in volume:
            made[volume["name"]] = folders[volume["secret"]["secretName"]]
            continue
        made[volume["name"]] = folder / volume["name"]
        made[volume["name"]].mkdir()
        # What an emptyDir is: anybody's.
        made[volume["name"]].chmod(0o777)
        for item in volume.get("downwardAPI", {}).get("items", ()):
            name = ANNOTATION.fullmatch(item["fieldRef"]["fieldPath"])[1]
            file = made[volume["name"]] / item["path"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(template["metadata"]["annotations"].get(name, ""))
    return made


def mounts_of(container: dict, volumes: dict[str, Path]) -> list[str]:
    return [
        word
        for each in container["volumeMounts"]
        for word in (
            "--volume",
            f"{volumes[each['name']]}:{each['mountPath']}:{'ro' if each.get('readOnly') else 'rw'}",
        )
    ]


class Scraper:
    """Asks the sidecar as its Prometheus does: by TLS, with a certificate and a password."""

    def __init__(self, address: str, authority, folder: Path) -> None:
        self._address = address
        folder.mkdir()
        own = issue("prometheus", authority).write(folder, "scraper")
        self.context, self.stranger = trusting(authority, own), trusting(authority)
        for context in (self.context, self.stranger):
            # Nobody knew the pod's address when its certificate was made.
            context.check_hostname = False

    def ask(self, path: str, context: ssl.SSLContext | None = None, password: str = PASSWORD):
        client = http.client.HTTPSConnection(
            self._address, 10920, timeout=5, context=context or self.context
        )
        try:
            words = base64.b64encode(f"{USER}:{password}".encode()).decode()
            client.request("GET", path, headers={"Authorization": f"Basic {words}"})
            answer = client.getresponse()
            return answer.status, answer.read()
        finally:
            client.close()

    def document(self, path: str) -> dict:
        status, body = self.ask(path)
        assert status == 200
        return json.loads(body)


def start_example(here, template: dict, volumes: dict[str, Path], bootstrap: str, log: Path):
    """Start the example in the application's container, as Kubernetes would, and feed it lines."""
    (container,) = [each for each in template["spec"]["containers"] if each["name"] == "orders"]
    uid = template["spec"]["securityContext"]["runAsUser"]
    assert uid == APPLICATION
    words = [
        "podman", "run", "--rm", "--interactive", "--pod", here.name, "--user", f"{uid}:{uid}",
        *CLOSED, *mounts_of(container, volumes), "--volume", f"{EXAMPLE}:/producer.py:ro",
        "--volume", f"{CLIENT}:/{CLIENT.name}:ro",
        "--entrypoint", "/usr/bin/python3.11", IMAGE, "/producer.py", bootstrap, "orders",
    ]  # fmt: skip
    return ManagedProcess(
        "example", words, log, environment={"CONTAINERS_CONF": str(SETTINGS)}, answers=True
    )


def test_example_is_heard_through_the_socket_and_told_by_tls(
    rendered, authority, lab_artifacts, tmp_path, monkeypatch
):
    path = os.environ["PATH"]
    with ExitStack() as stack:
        here = stack.enter_context(pod(shared="net,ipc,uts"))
        java_by(tmp_path / "broker", in_network(here))
        monkeypatch.setenv("PATH", f"{tmp_path / 'broker'}:{path}")
        made = {"auto.create.topics.enable": "true", "num.partitions": "1"}
        cluster = stack.enter_context(KafkaCluster(lab_artifacts, brokers=1, broker_config=made))
        monkeypatch.setenv("PATH", path)
        template, secret = rendered(cluster.port())
        volumes = volumes_of(template, secret, authority, tmp_path)
        (sidecar,) = [
            each for each in template["spec"]["containers"] if each["name"] == "brokerwire"
        ]
        user = sidecar["securityContext"]
        assert (user["runAsUser"], user["runAsGroup"]) == (SIDECAR, SIDECAR)
        here.run(
            IMAGE, *sidecar["args"],
            options=(
                *CLOSED, *MEMORY, "--user", f"{SIDECAR}:{SIDECAR}", *mounts_of(sidecar, volumes),
            ),
        )  # fmt: skip
        example = start_example(
            here, template, volumes, cluster.bootstrap(), tmp_path / "example.log"
        )
        stack.callback(example.kill)
        scraper = Scraper(here.address, authority, tmp_path / "scraper")

        def is_joined() -> bool:
            example.stdin.write(b"a record\n")
            example.stdin.flush()
            with suppress(OSError):
                found = scraper.document("/api/v1/connections")["connections"]
                return ("example", "data", "exact") in {
                    (each["client_id"], each["class"], each["confidence"]) for each in found
                }
            return False

        # A pause after each record: what the client counts and what the kernel counts is equal then.
        wait_until("the example's data connection", is_joined, timeout=60, interval=2.0)
        found = scraper.document("/api/v1/connections")["connections"]
        assert {each["uid"] for each in found} == {APPLICATION}
        inlets = {each["name"]: each for each in scraper.document("/api/v1/sources")["sources"]}
        assert (inlets[INLET]["up"], inlets[INLET]["clients"]) == (True, 1)
        assert b"kafka_client_connections{" in scraper.ask("/metrics")[1]
        # Whoever has no password or no certificate is told nothing.
        assert scraper.ask("/metrics", password="wrong")[0] == 401
        with pytest.raises((ssl.SSLError, ConnectionError)):
            scraper.ask("/metrics", context=scraper.stranger)


def test_java_agent_is_brought_into_the_jvm(lab_artifacts, tmp_path):
    """The example's init container and option, as they stand; `java -version` loads the agent."""
    objects = objects_of(render(application_chart(tmp_path / "charts")))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    (bringer,) = [each for each in spec["initContainers"] if each["name"] == "jmx-exporter"]
    (client,) = [each for each in spec["containers"] if each["name"] == "orders"]
    jars = tmp_path / "jars"
    jars.mkdir()
    shutil.copy(lab_artifacts.jmx_exporter, jars / "jmx_prometheus_javaagent.jar")
    podman(
        "build", "--quiet", "--tag", BRINGER, "--build-arg", f"BASE={BASE}",
        "--file", str(CONTAINERFILE), str(jars),
    )  # fmt: skip
    volumes = {each["name"]: tmp_path / each["name"] for each in spec["volumes"]}
    for folder in volumes.values():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    name = f"{deployment['metadata']['name']}-jmx-rules"
    (rules,) = [each for each in objects if each["metadata"]["name"] == name]
    for file, text in rules["data"].items():
        (volumes["jmx-rules"] / file).write_text(text)
    user = ("--user", f"{APPLICATION}:{APPLICATION}")
    podman(
        "run", "--rm", *CLOSED, *user, *mounts_of(bringer, volumes), BRINGER, *bringer["command"]
    )
    (option,) = [each for each in client["env"] if each["name"] == "JAVA_TOOL_OPTIONS"]
    java = [JAVA.parents[1], *Path("/etc").glob("java-*-openjdk")]
    said = podman(
        "run", "--rm", *CLOSED, *user, *mounts_of(client, volumes),
        *(word for path in java for word in ("--volume", f"{path}:{path}:ro")),
        "--env", f"{option['name']}={option['value']}", BASE, str(JAVA), "--version",
    )  # fmt: skip
    assert "openjdk" in said.lower()
    wrong = option["value"].replace("brokerwire.yaml", "missing.yaml")
    with pytest.raises(AssertionError, match=r"missing\.yaml"):
        podman(
            "run", "--rm", *CLOSED, *user, *mounts_of(client, volumes),
            *(word for path in java for word in ("--volume", f"{path}:{path}:ro")),
            "--env", f"{option['name']}={wrong}", BASE, str(JAVA), "--version",
        )  # fmt: skip
