"""promtool over the rule files: their syntax, and a life of each alert (tests/rules/*.test.yaml)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.cli import main

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
RULES = REPOSITORY / "rules"
UNIT_TESTS = sorted(HERE.glob("*.test.yaml"))
INSTALL = REPOSITORY / "tools" / "install_prometheus.sh"


@pytest.fixture(scope="session")
def promtool() -> str:
    cache = Path(os.environ.get("BROKERWIRE_CACHE") or REPOSITORY / ".cache")
    unpacked = cache / "prometheus" / "bin" / "promtool"
    found = str(unpacked) if unpacked.exists() else shutil.which("promtool")
    if found is None:
        reason = f"promtool is missing: run {INSTALL.relative_to(REPOSITORY)}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def run(promtool: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [promtool, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(tmp_path: Path, settings: str) -> Path:
    written = tmp_path / "settings.yaml"
    written.write_text(settings)
    assert main(["rules", "render", "--settings", str(written), "--output", str(tmp_path)]) == 0
    return tmp_path


@pytest.mark.parametrize("name", ["alerts.yaml", "recording.yaml"])
def test_the_files_are_rules(promtool, name):
    assert "SUCCESS" in run(promtool, "check", "rules", RULES / name)


def test_rules_stay_rules_whatever_an_operator_asks_for(promtool, tmp_path):
    folder = rendered(
        tmp_path,
        r"""
scope:
  - 'namespace=~"shop|bil{3}ing"'
  - 'pod!="a \"quoted\" $name"'
labels: {team: "streaming: \"the\" team", 'tier': '#1'}
service_labels: [team, service]
fleet_labels: [region, cluster]
thresholds:
  gap: 90s
  poll_age: 2h
  efficiency_percent: 100
  efficiency_window: 1d
  storm_window: 90s
  max_connections: 3000
  max_connections_per_ip: 100
alerts:
  - name: KafkaClientZombieConnections
    severity: critical
    fire_after: off
    keep_firing_for: 36h
links:
  runbooks: "https://wiki.example/kafka?page={alert}&x='y'"
""",
    )
    run(promtool, "check", "rules", folder / "alerts.yaml", folder / "recording.yaml")
    told = yaml.safe_load((folder / "alerts.yaml").read_text())
    rules = [rule for group in told["groups"] for rule in group["rules"]]
    assert [rule["alert"] for rule in rules] == list(ALERTS_BY_NAME)
    assert {rule["labels"]["team"] for rule in rules} == {'streaming: "the" team'}
    windows = {rule["alert"]: set(re.findall(r"\[(\w+)\]", rule["expr"])) for rule in rules}
    assert windows["KafkaClientLowEfficiency"] == {"1d"}
    assert windows["KafkaClientReconnectStorm"] == {"90s"}


def test_the_queries_of_the_runbooks_parse(promtool, tmp_path):
    queries = [
        query
        for page in sorted((REPOSITORY / "docs" / "runbooks").glob("*.md"))
        for query in re.findall(r"```promql\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    assert len(queries) == len(ALERTS_BY_NAME)
    rules = [
        {"record": f"runbook:query:n{number}", "expr": query}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    run(promtool, "check", "rules", path)


@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.name)
def test_each_alert_is_quiet_fires_and_ends(promtool, tmp_path, path):
    told = yaml.safe_load(path.read_text())
    if told["rule_files"] == ["limits.rules.yaml"]:
        folder = rendered(tmp_path, (HERE / "limits.settings.yaml").read_text())
        (folder / "alerts.yaml").rename(folder / "limits.rules.yaml")
        path = Path(shutil.copy(path, folder))
    run(promtool, "test", "rules", path)


def lives() -> list:
    """Every promtool test of an alert: its neighbours, and what is expected minute by minute."""
    return [
        pytest.param(case["alertname"], len(test["input_series"]), cases, id=test["name"][:60])
        for path in UNIT_TESTS
        for test in yaml.safe_load(path.read_text())["tests"]
        if (cases := test.get("alert_rule_test"))
        for case in cases[:1]
    ]


def test_each_alert_has_a_whole_life_beside_a_neighbour_that_stays_silent():
    whole = {
        name
        for name, series, cases in (each.values for each in lives())
        if series > 1 and re.fullmatch(r"-+[#]+-+", "".join("-#"[_fires(c)] for c in cases))
    }
    assert whole == set(ALERTS_BY_NAME)


@pytest.mark.parametrize(("name", "_series", "cases"), lives())
def test_alerts_carry_the_labels_and_pages_that_their_description_names(name, _series, cases):
    spec = ALERTS_BY_NAME[name]
    for alert in (alert for case in cases for alert in case["exp_alerts"]):
        labels = alert["exp_labels"]
        assert labels["severity"] == str(spec.severity)
        of_scrape = {"cluster", "namespace", "pod", "job", "instance"}
        assert set(labels) - of_scrape <= {*spec.labels, "severity"}
        assert set(alert["exp_annotations"]) == {
            "summary",
            "description",
            "runbook_url",
            "dashboard_url",
        }


def _fires(case: dict) -> bool:
    return bool(case["exp_alerts"])
