"""The alerts as they are described, and what an operator makes of them."""

from __future__ import annotations

import re
from dataclasses import fields
from itertools import pairwise

import pytest
import yaml

from exporter.alerts.catalogue import ALERTS, ALERTS_BY_NAME
from exporter.alerts.expressions import scoped
from exporter.alerts.recording import recording_rules
from exporter.alerts.render import alerts_of, alerts_text, recording_text
from exporter.alerts.settings import AlertOverride, LinkSettings, RuleSettings, Thresholds
from exporter.metrics.catalogue import SPECS
from exporter.snapshot import Severity
from exporter.text import written_duration

DEFAULTS = RuleSettings()
RECORDING = tuple(recording_rules(DEFAULTS.service_labels, DEFAULTS.fleet_labels))


def alerts(settings: RuleSettings) -> dict[str, dict]:
    groups = yaml.safe_load(alerts_text(settings))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_each_alert_is_described_once():
    assert len(ALERTS) == len(ALERTS_BY_NAME)


def test_alerts_of_a_group_stand_together():
    groups = [group["name"] for group in yaml.safe_load(alerts_text(DEFAULTS))["groups"]]
    assert len(groups) == len(set(groups)) == len({alert.group for alert in ALERTS})


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_keeps_to_the_conventions(alert):
    assert re.fullmatch(r"(KafkaClient|Brokerwire)([A-Z][a-z]+)+", alert.name)
    assert alert.severity in set(Severity)
    assert "{{" not in alert.summary + alert.remedy
    assert not alert.summary.endswith(".")
    assert "$value" in alert.description or alert.name == "KafkaClientManyInstances"
    assert "$labels." in alert.description
    assert alert.description.endswith(".")
    assert alert.remedy.endswith(".")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_number_of_an_alert_has_its_reason(alert):
    known = {field.name for field in fields(Thresholds)}
    text = alert.expression + alert.expression_if_given
    # The last three are `fire_after`, which has a reason of its own.
    used = set(re.findall(r"\$(\w+)", text)) - {"fleet", "target", "watched", "step", "steps"}
    used = {name.removesuffix("_seconds") if name not in known else name for name in used}
    windows = set(re.findall(r"\[(\w+)\]", alert.expression))
    assert set(alert.reasons) == used | windows
    assert all([*alert.reasons.values(), alert.fire_after.why, alert.keep_firing_for.why])


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_value_held_over_a_gap_cannot_make_an_alert_fire_alone(alert):
    if re.search(r"last_over_time\([^)]*\[\$gap\]", alert.expression):
        assert alert.fire_after.seconds > DEFAULTS.thresholds.gap


def test_a_comment_stands_above_each_number_of_the_file():
    lines = alerts_text(DEFAULTS).splitlines()
    for before, line in pairwise(lines):
        if re.match(r" +(for|keep_firing_for): ", line):
            assert before.lstrip().startswith("# "), line


def test_alerts_about_limits_read_the_agents_limit_unless_an_operator_gives_one():
    told = alerts(DEFAULTS)
    for name in ("broker_max_connections", "broker_max_connections_per_ip"):
        assert any(f"kafka_client_{name}[" in rule["expr"] for rule in told.values())
    settings = RuleSettings(thresholds=Thresholds(max_connections=3000))
    given = alerts(settings)
    assert "3000 * 80 / 100" in given["KafkaClientBrokerNearMaxConnections"]["expr"]
    assert "broker_max" not in given["KafkaClientBrokerNearMaxConnections"]["expr"]
    assert given["KafkaClientNearMaxConnectionsPerIp"] == told["KafkaClientNearMaxConnectionsPerIp"]
    assert "# 3000 (max_connections): " in alerts_text(settings)
    assert "(max_connections)" not in alerts_text(DEFAULTS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_rate_leaves_out_what_jumps(alert):
    """decisions/0006: `other` grows by a client's whole past when that client is gone."""
    text = " ".join((alert.expression, *(each.expression for each in RECORDING)))
    rates = re.findall(r"(?:rate|increase)\(\s*(kafka_client_\w+)(\{[^}]*\})?", text)
    assert rates
    for name, matchers in rates:
        # What is told by broker has no client that could be gone.
        assert 'client_kind!="other"' in matchers or "client_kind" not in SPECS[name].labels


def test_an_operators_number_is_marked_as_such():
    text = alerts_text(RuleSettings(thresholds=Thresholds(zombie_connections=7)))
    assert ">= 7" in text
    assert "# 7 (zombie_connections), set here; 1 by default: " in text


def test_one_alert_can_be_changed_or_left_out():
    changed = AlertOverride(
        name="KafkaClientZombieConnections", severity="critical", fire_after=7200.0
    )
    at_once = AlertOverride(name="BrokerwireAgentDown", fire_after=0.0, keep_firing_for=0.0)
    without = AlertOverride(name="KafkaClientManyInstances", enabled=False)
    told = alerts(RuleSettings(alerts=(changed, at_once, without)))
    zombie = told["KafkaClientZombieConnections"]
    assert (zombie["labels"]["severity"], zombie["for"]) == ("critical", "2h")
    assert zombie["keep_firing_for"] == "15m"
    assert not {"for", "keep_firing_for"} & set(told["BrokerwireAgentDown"])
    assert "KafkaClientManyInstances" not in told
    assert len(told) == len(alerts(DEFAULTS)) - 1


@pytest.mark.parametrize(
    ("seconds", "waits"),
    [
        (480.0, "[9m:1m]) >= 9"),
        (90.0, "[135s:45s]) >= 3"),
        (86_400.0, "[1464m:24m]) >= 61"),
        (6.0, "[7200ms:1200ms]) >= 6"),
        (1.001, "[1206ms:201ms]) >= 6"),
        (0.0, "[1s:1s]) >= 1"),
    ],
)
def test_an_alert_that_counts_pods_waits_for_each_of_them(seconds, waits):
    changed = AlertOverride(name="KafkaClientBrokerUnreachable", fire_after=seconds)
    rule = alerts(RuleSettings(alerts=(changed,)))[changed.name]
    assert f"  ){waits}\n)" in rule["expr"]
    assert "for" not in rule


def test_what_has_its_cause_at_a_broker_names_no_pod():
    told = alerts(RuleSettings(fleet_labels=("region", "cluster")))
    for name in ("KafkaClientBrokerUnreachable", "KafkaClientFrozenPeer"):
        assert told[name]["expr"].startswith("count by (region, cluster, broker) (")


def test_the_specs_of_a_changed_alert_are_what_the_file_says():
    changed = AlertOverride(name="KafkaClientFrozenPeer", keep_firing_for=1.5)
    settings = RuleSettings(alerts=(changed,))
    spec = next(each for each in alerts_of(settings) if each.name == changed.name)
    assert spec.keep_firing_for.seconds == 1.5
    assert alerts(settings)[changed.name]["keep_firing_for"] == "1500ms"


def test_labels_and_links_go_to_every_alert():
    settings = RuleSettings(
        labels={"team": 'a "b": c'},
        links=LinkSettings(runbooks="https://x/{alert}?a", dashboards="https://y/{dashboard}"),
    )
    for name, rule in alerts(settings).items():
        assert rule["labels"]["team"] == 'a "b": c'
        assert rule["annotations"]["runbook_url"] == f"https://x/{name}?a"
        assert rule["annotations"]["dashboard_url"].startswith("https://y/brokerwire-")


def test_the_scope_is_in_every_selector():
    scope = ('namespace="shop"', 'pod!~"a{2}|\\\\d"')
    settings = RuleSettings(
        scope=scope, thresholds=Thresholds(max_connections=9, max_connections_per_ip=9)
    )
    read = r"(?<![\w:\"#`])((?:kafka_client|brokerwire)_\w+|up)(?![\w:(])(\{[^\n]*?\"\})?"
    for text in (alerts_text(settings), recording_text(settings)):
        groups = yaml.safe_load(text)["groups"]
        for rule in (rule for group in groups for rule in group["rules"]):
            for name, matchers in re.findall(read, rule["expr"]):
                assert all(matcher in matchers for matcher in scope), (rule, name)


def test_scope_leaves_functions_strings_and_recorded_series_alone():
    text = 'sum(client:kafka_client_x:rate5m) + group by (up) (up{a="up"}) and startup'
    assert scoped(text, ('b="c"',)) == text.replace('up{a="up"}', 'up{a="up",b="c"}').replace(
        "by (up)", 'by (up{b="c"})'
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(300.0, "5m"), (90.0, "90s"), (86400.0, "1d"), (5400.0, "90m"), (0.25, "250ms")],
)
def test_durations_are_written_as_prometheus_does(seconds, text):
    assert written_duration(seconds) == text


def test_recording_rules_are_ratios_of_sums():
    rules = list(recording_rules(("namespace",), ("cluster",)))
    names = [rule.name for rule in rules]
    assert len(names) == len(set(names))
    for rule in rules:
        assert re.fullmatch(
            r"(client|service|fleet):kafka_client_\w+:(ratio_)?rate(5m|1h|1d)", rule.name
        )
        assert "avg" not in rule.expression
        assert ("/" in rule.expression) == (":ratio_" in rule.name)
    ratios = {name for name in names if ":ratio_" in name}
    assert len(ratios) == 3 * 3 * 3


def test_a_recorded_sum_stands_before_what_needs_it():
    seen: set[str] = set()
    for rule in recording_rules(("job",), ("cluster",)):
        assert set(re.findall(r"\w+:\w+:\w+", rule.expression)) <= seen
        seen.add(rule.name)
