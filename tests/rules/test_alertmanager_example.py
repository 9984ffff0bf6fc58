"""examples/alertmanager: who is told, in how many notifications, and what an alert makes superfluous."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
import yaml

from exporter.alerts.catalogue import ALERTS_BY_NAME
from tests.e2e.monitoring import Alertmanager, Webhook, tool

EXAMPLE = Path(__file__).parents[2] / "examples" / "alertmanager" / "alertmanager.yaml"
PODS = 200
LABELS = {"cluster": "prod", "namespace": "shop", "process": "java", "instance": "i"}


@pytest.fixture(scope="module")
def amtool():
    return tool("amtool")


@pytest.fixture
def alertmanager(tmp_path):
    """A real Alertmanager with the example, except that it groups at once and tells a webhook."""
    settings = yaml.safe_load(EXAMPLE.read_text())
    settings["route"]["group_wait"] = "0s"
    with Webhook() as webhook:
        for receiver in settings["receivers"]:
            receiver["webhook_configs"] = [{"url": webhook.url}]
        made = Alertmanager(tmp_path, webhook)
        (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(settings))
        with made:
            yield made


def alert(name, **labels):
    severity = str(ALERTS_BY_NAME[name].severity)
    return {"labels": {"alertname": name, "severity": severity, **LABELS, **labels}}


def post(manager, alerts):
    request = urllib.request.Request(
        f"{manager.url}/api/v2/alerts",
        json.dumps(alerts).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def groups(manager):
    with urllib.request.urlopen(f"{manager.url}/api/v2/alerts/groups", timeout=10) as answer:
        return json.load(answer)


def suppressed(manager, count):
    """The alerts that are inhibited, once as many as were posted are there and judged."""
    deadline = time.monotonic() + 20
    while True:
        there = manager.alerts()
        states = [each["status"]["state"] for each in there]
        if len(there) == count and "unprocessed" not in states:
            break
        assert time.monotonic() < deadline, states
        time.sleep(0.1)
    return Counter(
        (each["labels"]["alertname"], each["labels"].get("broker", ""))
        for each in there
        if each["status"]["state"] == "suppressed"
    )


def test_amtool_takes_it(amtool):
    done = subprocess.run(
        [amtool, "check-config", EXAMPLE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ALERTS_BY_NAME)
def test_only_what_is_critical_wakes_somebody(amtool, name):
    severity = str(ALERTS_BY_NAME[name].severity)
    labels = [f"alertname={name}", f"severity={severity}"]
    done = subprocess.run(
        [amtool, "config", "routes", "test", f"--config.file={EXAMPLE}", *labels],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ("on-call" if severity == "critical" else "team")


def test_every_alert_that_it_names_exists():
    named = set(re.findall(r"(?:KafkaClient|Brokerwire)\w+", EXAMPLE.read_text()))
    assert named
    assert named <= set(ALERTS_BY_NAME)


def test_a_broker_that_is_down_is_one_notification_for_all_pods(alertmanager):
    name = "KafkaClientBrokerUnreachable"
    post(alertmanager, [alert(name, broker="b1:9092", pod=f"orders-{n}") for n in range(PODS)])
    post(alertmanager, [alert(name, broker="b1:9092", pod="x", cluster="test")])
    assert suppressed(alertmanager, PODS + 1) == {}
    found = {
        (each["labels"]["cluster"], each["receiver"]["name"], len(each["alerts"]))
        for each in groups(alertmanager)
    }
    assert found == {("prod", "on-call", PODS), ("test", "on-call", 1)}


def test_what_follows_from_an_alert_is_not_told_beside_it(alertmanager):
    client = {"client_id": "orders", "pod": "orders-1"}
    alerts = [
        alert("KafkaClientBrokerUnreachable", broker="b1:9092", pod="orders-0"),
        alert("KafkaClientConnectionChurn", broker="b1:9092", **client),
        alert("KafkaClientConnectionChurn", broker="b2:9092", **client),
        alert("KafkaClientExcessConnections", pod="orders-1"),
        alert("KafkaClientManyInstances", pod="orders-1"),
        alert("KafkaClientManyInstances", pod="orders-2", broker="another pod"),
        alert("KafkaClientZombieConnections", broker="b2:9092", **client),
        alert("KafkaClientIdleClosingOff", **client),
        alert("BrokerwireAgentDown", pod="orders-3"),
        alert("BrokerwireSourceDown", pod="orders-3", source="jmx"),
        alert("BrokerwireSourceDown", pod="orders-4", source="another pod", broker="-"),
    ]
    post(alertmanager, alerts)
    assert suppressed(alertmanager, len(alerts)) == {
        ("KafkaClientConnectionChurn", "b1:9092"): 1,
        ("KafkaClientManyInstances", ""): 1,
        ("KafkaClientIdleClosingOff", ""): 1,
        ("BrokerwireSourceDown", ""): 1,
    }
