"""What all those alerts had in common, and whether none was left out."""

from __future__ import annotations

import re

import pytest
import yaml

from exporter.alerts.catalogue import ALERTS
from tests.e2e.monitoring import REPOSITORY
from tests.e2e.scene import PLACE, WAYS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


# Rules that add up all agents of a fleet: nobody's pod is left.
OF_FLEET = {alert.name for alert in ALERTS if "$fleet" in alert.expression}


def test_each_cause_was_told_and_resolved(scene):
    assert {cause.alert for cause in scene.causes} <= {alert.name for alert in ALERTS}
    for cause in scene.causes:
        assert set(cause.firing) == set(cause.resolved) == set(cause.ways), cause
        assert cause.ways == WAYS or cause.alert == "BrokerwireAgentDown"


def test_alerts_say_the_same_by_either_way(scene):
    for told in scene.told("short"):
        place = {"cluster": PLACE["cluster"]} if told.name in OF_FLEET else PLACE
        assert told.labels.items() >= place.items()
        assert told.alert["annotations"]["runbook_url"] == f"docs/runbooks/{told.name}.md"
        assert told.alert["annotations"]["dashboard_url"].startswith("/d/brokerwire-")
    for cause in scene.causes:
        labels = [label_names(scene, way, cause) for way in cause.ways]
        assert set.intersection(*labels), (cause, labels)


def label_names(scene, way, cause) -> set[frozenset[str]]:
    """What labels this way gave the alert; a scrape's own come with Prometheus alone."""
    return {
        frozenset(told.labels.keys() - {"job", "instance", *PLACE})
        for told in scene.hooks[way].of(cause.alert, run="short", **cause.labels)
        if told.at >= cause.began
    }


def test_every_expression_is_evaluated_and_what_should_have_data_has(scene):
    rules = scene.prometheus.rules()
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    names = set()
    for file in ("alerts.yaml", "recording.yaml"):
        document = yaml.safe_load((REPOSITORY / "rules" / file).read_text())
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            result = scene.prometheus.query(rule["expr"])
            names |= set(re.findall(r"\b(?:kafka_client|brokerwire)_\w+(?!\w|:)", rule["expr"]))
            if "record" in rule:
                assert result, f"{rule['record']} has no data"
                assert scene.prometheus.query(rule["record"])
    assert len(names) > 10
    empty = [
        name
        for name in sorted(names)
        if ":" not in name and not scene.prometheus.query(f"last_over_time({name}[1h])")
    ]
    assert empty == []
    scene.notes["expressions"] = len(rules)
