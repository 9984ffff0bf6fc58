"""The fleet's metrics, pushed to a real Pushgateway, as a real Prometheus and the dashboard see them."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
import yaml

from spark_rollups.errors import PushError
from spark_rollups.report.openmetrics import render
from spark_rollups.report.push import push
from tests.dashboards.boards import REPOSITORY
from tests.e2e.monitoring import HOST, answers, child, get, tool
from tests.lab.addresses import free_port
from tests.lab.processes import wait_until
from tests.unit.digests import digest, empty_digest

DASHBOARD = REPOSITORY / "dashboards" / "brokerwire-fleet.json"


@pytest.fixture
def gateway(tmp_path):
    address = f"{HOST}:{free_port(HOST)}"
    command = [tool("pushgateway"), f"--web.listen-address={address}", "--persistence.file="]
    process = child("pushgateway", command, tmp_path / "pushgateway.log")
    wait_until("the Pushgateway", lambda: answers(f"http://{address}/-/ready"), timeout=60)
    yield f"http://{address}"
    process.kill()


@pytest.fixture
def prometheus(gateway, tmp_path):
    address = f"{HOST}:{free_port(HOST)}"
    pushed = {
        "job_name": "pushgateway",
        "honor_labels": True,
        "static_configs": [{"targets": [gateway.removeprefix("http://")]}],
    }
    config = tmp_path / "prometheus.yml"
    config.write_text(
        yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [pushed]})
    )
    command = [
        tool("prometheus"),
        f"--config.file={config}",
        f"--web.listen-address={address}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
    ]
    process = child("prometheus", command, tmp_path / "prometheus.log")
    wait_until("Prometheus", lambda: answers(f"http://{address}/-/ready"), timeout=60)
    yield f"http://{address}"
    process.kill()


def asked(prometheus, query):
    found = json.loads(get(f"{prometheus}/api/v1/query?query={quote(query)}"))
    return found["data"]["result"]


def of_panel(title):
    """Return the queries of the dashboard that have a word in them."""
    text = DASHBOARD.read_text("utf-8")
    found = [
        line.split('"expr": ', 1)[1].rstrip(",")
        for line in text.splitlines()
        if title in line and '"expr": ' in line
    ]
    return [json.loads(each) for each in found]


def pushed(gateway):
    lines = get(f"{gateway}/metrics").decode().splitlines()
    return [
        line for line in lines if line.startswith(("kafka_client_fleet_", "brokerwire_rollup_"))
    ]


def test_the_dashboard_has_its_figure(gateway, prometheus):
    push(render(digest()), gateway)
    (query,) = [each for each in set(of_panel("efficiency_ratio")) if "offset" not in each]
    wait_until("the scrape", lambda: asked(prometheus, query), timeout=60)
    (found,) = asked(prometheus, query)
    line = next(
        each
        for each in render(digest()).splitlines()
        if each.startswith("kafka_client_fleet_efficiency_ratio ")
    )
    assert float(found["value"][1]) == float(line.split()[1])
    (series,) = asked(prometheus, "kafka_client_fleet_connections")
    assert series["metric"]["job"] == "brokerwire-rollups"
    wasters = asked(prometheus, "kafka_client_fleet_service_wasted_connections")
    assert wasters
    assert all(each["metric"]["namespace"] for each in wasters)


def test_what_is_no_more_is_gone(gateway):
    push(render(digest()), gateway)
    assert any("service_wasted" in line for line in pushed(gateway))
    push(render(empty_digest()), gateway)
    assert not any("service_wasted" in line for line in pushed(gateway))


def test_two_fleets_are_two_groups(gateway):
    push(render(digest()), gateway + "/")
    push(render(digest()), f"{gateway}/metrics/job/eu")
    found = [line for line in pushed(gateway) if line.startswith("kafka_client_fleet_connections{")]
    assert {line.partition('job="')[2].partition('"')[0] for line in found} == {
        "eu",
        "brokerwire-rollups",
    }


def test_its_no_is_told_with_its_words(gateway):
    with pytest.raises(PushError, match=r"brokerwire-rollups answered 400: .*text format"):
        push("no metrics\n", gateway)


def test_nobody_there_is_told():
    began = time.monotonic()
    with pytest.raises(PushError, match=r"cannot push to .*refused.*Pushgateway"):
        push(render(empty_digest()), f"http://{HOST}:{free_port(HOST)}")
    assert time.monotonic() - began < 20
