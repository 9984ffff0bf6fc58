"""One agent for all network namespaces of a machine: real namespaces, sockets and capabilities."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.config.files import settings_from_text
from exporter.config.settings import LimitSettings, WebSettings
from exporter.network_agents import NetworkAgents
from exporter.web.server import WebServer
from tests.e2e.monitoring import Alertmanager, Webhook
from tests.integration.kernel_support import NOBODY, ROOT, as_user, needs_root
from tests.integration.real_pods import PORT, pod, wait_for
from tests.integration.test_cli import BROKERWIRE
from tests.lab.addresses import free_port

pytestmark = [pytest.mark.root, needs_root]

PAGE = ROOT / "tests" / "golden" / "metrics" / "jmx-1-brokerwire-4.4.0.prom"
UIDS = ("11111111-2222-3333-4444-555555555555", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")


def settings(**networks):
    text = {
        "poll": {"interval": "200ms"},
        "networks": {"follow": "all", "interval": "1s", **networks},
        "brokers": {"ports": [PORT]},
        "sources": {
            "java": [{"name": "java", "url": "http://127.0.0.1:19404/metrics", "interval": "500ms"}]
        },
        "web": {"listen_addresses": ["127.0.0.1:0"]},
    }
    return settings_from_text(json.dumps(text), "test.yaml")


class Machine:
    """The agent and its server, asked as Prometheus and people ask it."""

    def __init__(self, made):
        self.agents = NetworkAgents(made)
        self.server = WebServer(
            WebSettings(listen_addresses=("127.0.0.1:0",)),
            lambda: None,
            limits=LimitSettings(),
            is_alive=self.agents.is_healthy,
            readings=[self.agents.readings],
            networks=self.agents.networks,
        )

    def __enter__(self):
        self.server.start()
        self.agents.start()
        return self

    def __exit__(self, *_):
        self.server.stop()
        self.agents.stop()

    def get(self, path):
        address = self.server.addresses[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{address.port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def series(self):
        return series_in(self.get("/metrics"))


def series_in(text):
    return [each for family in text_string_to_metric_families(text) for each in family.samples]


def held_in(series, network):
    return sum(
        each.value
        for each in series
        if each.name == "kafka_client_connections" and each.labels["network"] == network.inode
    )


def state(series, name):
    (found,) = [
        each.value
        for each in series
        if each.name == "brokerwire_networks" and each.labels["state"] == name
    ]
    return found


def test_equal_addresses_in_two_namespaces_are_told_apart(tmp_path):
    (tmp_path / f"shop_orders-1_{UIDS[0]}").mkdir()
    with (
        pod(2, uid=UIDS[0]) as first,
        pod(3, uid=UIDS[1]) as second,
        Machine(settings(pod_logs=str(tmp_path))) as machine,
    ):
        series = machine.series()
        assert (held_in(series, first), held_in(series, second)) == (2, 3)
        labels = {
            each.labels["network"]: (each.labels.get("namespace"), each.labels["pod"])
            for each in series
            if each.name == "kafka_client_connections"
        }
        # The kubelet's folder tells one pod's name; of the other the cgroup tells the uid.
        assert labels == {
            first.inode: ("shop", "orders-1"),
            second.inode: (None, UIDS[1]),
        }
        found = json.loads(machine.get(f"/networks/{first.inode}/api/v1/connections"))
        assert {each["owner_rung"] for each in found["connections"]} == {"proc_fd"}
        assert {each["pid"] for each in found["connections"]} == {first.process.pid}


def test_one_page_has_each_metric_once_and_a_page_for_each_namespace():
    with pod(1) as first, pod(1) as second, Machine(settings()) as machine:
        text = machine.get("/metrics")
        heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(heads) == len(set(heads))
        assert {each.name for each in series_in(text)} >= {
            "process_open_fds",
            "brokerwire_networks",
        }
        listed = json.loads(machine.get("/api/v1/networks"))["networks"]
        assert {each["network"] for each in listed} == {first.inode, second.inode}
        page = machine.get("/")
        for each in listed:
            assert f'href="{each["path"]}"' in page
            inner = machine.get(each["path"])
            assert f'href="{each["path"]}api/v1/connections"' in inner
            assert f"127.0.0.1:{PORT}" in inner
        with pytest.raises(urllib.error.HTTPError, match="404"):
            machine.get("/networks/1/")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            machine.get("/api/v1/connections")


def test_a_namespace_that_ends_leaves_no_series_and_nothing_open():
    before = descriptors()
    with pod(2) as gone, pod(1) as stays, Machine(settings()) as machine:
        assert held_in(machine.series(), gone) == 2
        gone.end()
        wait_for(lambda: gone.inode not in machine.get("/metrics"))
        assert held_in(machine.series(), stays) == 1
        # Neither a descriptor of the namespace nor a socket in it: the kernel has freed it.
        assert f"net:[{gone.inode}]" not in descriptors()
    # The server's loop closes its own a moment later.
    wait_for(lambda: not descriptors() - before)


def descriptors():
    found = Counter()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[str(each.readlink())] += 1
    return found


def test_a_namespace_without_clients_sleeps_until_the_first_one_connects():
    with pod(0) as late, Machine(settings()) as machine:
        # Somebody's attempt at some port: no sign of a client of Kafka.
        command = ["nsenter", f"--net=/proc/{late.process.pid}/ns/net", sys.executable, "-c"]
        refused = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 1)) > 0)"
        done = subprocess.run([*command, refused], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
        machine.agents.look()
        series = machine.series()
        assert held_in(series, late) == 0
        assert state(series, "asleep") >= 1
        late.connect()
        wait_for(lambda: held_in(machine.series(), late) == 1)


def test_more_namespaces_than_allowed_are_counted():
    with pod(1) as first, pod(1) as second, Machine(settings(max_networks=1)) as machine:
        series = machine.series()
        assert sorted([held_in(series, first), held_in(series, second)]) == [0, 1]
        assert (state(series, "watched"), state(series, "beyond_limit")) == (1, 1)


def test_a_clients_page_is_read_inside_its_namespace_and_missed_nowhere_else():
    with pod(1, page=PAGE) as java, pod(1) as other, Machine(settings()) as machine:

        def up():
            return {
                each.labels["network"]: each.value
                for each in machine.series()
                if each.name == "brokerwire_source_up"
            }

        wait_for(lambda: up() == {java.inode: 1.0})
        sources = json.loads(machine.get(f"/networks/{other.inode}/api/v1/sources"))
        assert sources["sources"] == []


def test_three_capabilities_are_enough(tmp_path):
    """The command as the DaemonSet runs it: uid 0 with these and no other, beside another uid."""
    config = tmp_path / "brokerwire.yaml"
    config.write_text(
        f"networks: {{follow: all, interval: 1s}}\nbrokers: {{ports: [{PORT}]}}\n"
        "poll: {interval: 200ms}\n"
    )
    command = ["setpriv", "--bounding-set=-all,+sys_admin,+sys_ptrace,+dac_read_search"]
    command += ["--inh-caps=-all", "--no-new-privs", *BROKERWIRE, "run", "--config", str(config)]
    port = free_port("127.0.0.1")
    command += ["--web.listen-address", f"127.0.0.1:{port}"]
    with pod(2, user=NOBODY) as one:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:

            def asked(path):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                    return answer.read().decode()

            def held():
                try:
                    series = series_in(asked("/metrics"))
                except OSError:
                    return False
                return held_in(series, one) == 2

            wait_for(held)
            assert asked("/-/ready") == "ready\n"
            found = json.loads(asked(f"/networks/{one.inode}/api/v1/connections"))
            assert {each["owner_rung"] for each in found["connections"]} == {"proc_fd"}
        finally:
            begun = time.monotonic()
            process.terminate()
            process.communicate()
        assert process.returncode == 0
        assert time.monotonic() - begun < 2.0


def test_an_alert_names_the_pod_that_it_is_about(tmp_path):
    (tmp_path / f"shop_orders-1_{UIDS[0]}").mkdir()
    rules = tmp_path / "rules.yaml"
    rules.write_text("alerts: [{name: KafkaClientHalfClosedConnections, fire_after: 1s}]\n")
    config = tmp_path / "brokerwire.yaml"
    with (
        Webhook() as hook,
        Alertmanager(tmp_path / "alertmanager", hook) as manager,
        pod(2, uid=UIDS[0]) as bad,
        pod(2, uid=UIDS[1]),
    ):
        made = {
            "networks": {"follow": "all", "interval": "1s", "pod_logs": str(tmp_path)},
            "brokers": {"ports": [PORT]},
            "poll": {"interval": "200ms"},
            "alertmanager": {"targets": [{"url": manager.url}], "rules_file": str(rules)},
        }
        config.write_text(json.dumps(made))
        bad.close_at_the_broker()
        command = [*BROKERWIRE, "run", "--config", str(config)]
        process = subprocess.Popen([*command, "--web.listen-address", "127.0.0.1:0"])
        try:
            hook.wait("KafkaClientHalfClosedConnections")
        finally:
            process.terminate()
            process.wait()
    assert process.returncode == 0
    assert {told.name for told in hook.told} == {"KafkaClientHalfClosedConnections"}
    labels = hook.told[0].labels
    assert (labels["network"], labels["namespace"], labels["pod"]) == (
        bad.inode,
        "shop",
        "orders-1",
    )
    assert len(hook.told) == 1


POWERLESS = """
import json
from exporter.config.files import settings_from_text
from exporter.network_agents import NetworkAgents
agents = NetworkAgents(settings_from_text("networks: {follow: all}", "x"))
agents.look()
print(json.dumps({name: value for name, labels, value in agents.readings() if not labels}))
"""


def test_without_capabilities_it_says_what_it_cannot_see():
    with pod(1):
        told = as_user(NOBODY, POWERLESS)
    assert told["brokerwire_hidden_processes"] > 0
    # Its own namespace it may see and not enter.
    assert told["brokerwire_network_errors_total"] >= 1
