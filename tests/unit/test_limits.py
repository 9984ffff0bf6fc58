"""Findings about limits: near one, not just below it, and never where none is known."""

from __future__ import annotations

import pytest

from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.alerts.settings import Thresholds
from exporter.findings.limits import find_near_limits
from exporter.model import ConnectionClass
from exporter.snapshot import BrokerLimits, ClientBroker, OpenFiles

DEFAULTS = Thresholds()
ONE, TWO = "10.2.0.1:9092", "10.2.0.2:9092"


def pair(client, broker=ONE):
    return ClientBroker(client, "producer", "java", "1", broker)


def held(**classes):
    return {ConnectionClass(name): count for name, count in classes.items()}


def found(counts=None, limits=None, files=None, thresholds=DEFAULTS):
    return find_near_limits(counts or {}, limits or BrokerLimits(), files or {}, thresholds)


COUNTS = {
    pair("orders"): held(data=50, zombie=10),
    pair("billing"): held(data=20, connecting=500, half_closed=500, ghost=500),
    pair("orders", TWO): held(data=79),
}


def test_clients_of_a_broker_count_together_and_its_neighbour_below_the_limit_is_silent():
    [finding] = found(COUNTS, BrokerLimits(max_connections=100))
    assert finding.name == "KafkaClientBrokerNearMaxConnections"
    assert (finding.labels, finding.value) == ({"broker": ONE}, 80.0)
    assert "hold 80 connections" in finding.description
    assert "max.connections is 100" in finding.description


def test_both_limits_are_told_where_both_are_near():
    limits = BrokerLimits(max_connections=90, max_connections_per_ip=85)
    names = sorted((each.name, each.labels["broker"]) for each in found(COUNTS, limits))
    per_ip = "KafkaClientNearMaxConnectionsPerIp"
    near = "KafkaClientBrokerNearMaxConnections"
    assert names == [(near, ONE), (near, TWO), (per_ip, ONE), (per_ip, TWO)]


def test_where_no_limit_is_known_nothing_is_near_it():
    files = {"java": OpenFiles(10**6, None)}
    assert found(COUNTS, BrokerLimits(), files) == []


def test_a_process_near_its_limit_is_told_and_one_below_it_is_not():
    files = {"java": OpenFiles(820, 1024), "python3": OpenFiles(819, 1024)}
    [finding] = found(files=files)
    assert (finding.name, finding.labels) == (
        "KafkaClientNearDescriptorLimit",
        {"process": "java"},
    )
    assert finding.value == pytest.approx(80.08, abs=0.01)
    assert "820 of 1024" in finding.description


def test_the_thresholds_are_the_rules_own():
    limits, files = BrokerLimits(max_connections=100), {"java": OpenFiles(900, 1024)}
    higher = Thresholds(near_limit_percent=81, descriptor_percent=90)
    assert found(COUNTS, limits, files, higher) == []


def test_a_finding_is_as_severe_as_its_alert_and_has_its_labels():
    limits = BrokerLimits(max_connections=90, max_connections_per_ip=85)
    findings = found(COUNTS, limits, {"java": OpenFiles(1, 1)})
    assert len({each.name for each in findings}) == 3
    for each in findings:
        alert = ALERTS_BY_NAME[each.name]
        assert (each.severity, each.summary, each.remedy) == (
            alert.severity,
            alert.summary,
            alert.remedy,
        )
        assert set(each.labels) == set(alert.labels)
