"""The metrics of the fleet: they parse, they add up, and there are never too many."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_families

from spark_rollups.report.digest import BrokerLoad, Cohort, Quarantined, ServiceWaste
from spark_rollups.report.openmetrics import METRICS, MOST_BROKERS, MOST_SERVICES, render
from tests.unit.digests import digest, empty_digest
from tests.unit.payloads import PAYLOADS

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("BROKERWIRE_CACHE", ROOT / ".cache"))


def samples(text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(made, name):
    return {labels: value for (metric, labels), value in made.items() if metric == name}


def test_it_parses_as_openmetrics_and_as_the_older_format():
    text = render(digest())
    families = list(text_string_to_metric_families(text))
    assert [family.name for family in families] == [metric.name for metric in METRICS]
    older = {f.name: len(f.samples) for f in older_families(text) if f.samples}
    assert older == {f.name: len(f.samples) for f in families if f.samples}
    assert all(family.type == "gauge" for family in families)
    assert all(sample.timestamp is None for family in families for sample in family.samples)


def test_promtool_has_nothing_against_it():
    promtool = CACHE / "prometheus" / "bin" / "promtool"
    if not promtool.exists():
        if os.environ.get("CI"):
            pytest.fail("make prometheus")
        pytest.skip("needs promtool: make prometheus")
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=render(digest()), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout + done.stderr == ""


def test_it_tells_of_the_last_hour():
    made, last = samples(render(digest())), digest().hours[-1]
    assert of(made, "kafka_client_fleet_connections") == {(): last.connection_ms / 3_600_000}
    wasted = of(made, "kafka_client_fleet_wasted_connections")
    assert sum(wasted.values()) == pytest.approx(last.waste_ms / 3_600_000)
    ratio = of(made, "kafka_client_fleet_efficiency_ratio")[()]
    assert ratio == last.useful_ms / (last.useful_ms + last.waste_ms)
    assert of(made, "brokerwire_rollup_last_hour_timestamp_seconds") == {
        (): digest().end.timestamp()
    }


def test_without_an_hour_nothing_is_said_of_it():
    made = samples(render(empty_digest()))
    assert made == {}


def test_the_number_of_series_is_bounded_and_sums_are_kept():
    many = replace(
        digest(),
        services_waste=(
            *(ServiceWaste("c", "n", f"service-{n}", 1.0 + n) for n in range(5000)),
            ServiceWaste("other", "other", "other", 1e9),
        ),
        brokers=tuple(BrokerLoad("c", n, None, 1, 2, 3, None) for n in range(5000)),
        quarantine=tuple(Quarantined(f"reason {n}", 1, 1) for n in range(5000)),
    )
    text = render(many)
    made = samples(text)
    wasted = of(made, "kafka_client_fleet_service_wasted_connections")
    assert len(wasted) == MOST_SERVICES + 1
    assert sum(wasted.values()) == 1e9 + sum(1.0 + n for n in range(5000))
    assert sum(dict(labels)["service"] == "other" for labels in wasted) == 1
    peaks = of(made, "kafka_client_fleet_broker_peak_connections")
    assert len(peaks) == MOST_BROKERS + 1
    assert sum(peaks.values()) == 10_000
    assert len(made) < 600


def test_of_an_hour_that_has_only_begun_nothing_is_said_that_needs_a_whole_one():
    made = samples(render(replace(digest(), whole=False)))
    assert of(made, "kafka_client_fleet_connections") == {}
    assert of(made, "kafka_client_fleet_opened_per_hour") == {}
    assert of(made, "kafka_client_fleet_wasted_connections") == {}
    assert set(of(made, "brokerwire_rollup_agents").values()) == {80}


def test_what_is_not_known_of_a_broker_is_absent_and_not_nothing():
    """A broker without a forecast was one that nobody would ever connect to."""
    unknown = replace(digest(), brokers=(BrokerLoad("c", 1, "a:9092", None, None, None, None),))
    assert not [name for name, _ in samples(render(unknown)) if "fleet_broker_" in name]
    peaked = replace(digest(), brokers=(BrokerLoad("c", 1, "a:9092", None, 7, None, 5),))
    made = samples(render(peaked))
    assert {name: value for (name, _), value in made.items() if "fleet_broker_" in name} == {
        "kafka_client_fleet_broker_peak_connections": 7,
        "kafka_client_fleet_broker_max_connections": 5,
    }


def test_versions_that_are_one_when_their_name_is_cut_are_one_mean():
    """A mean of all their clients, not the mean of the last one that was written."""
    long = "9" * 100
    cohorts = tuple(
        Cohort("java", f"{long}{n}", "producer", clients, 9.0, waste, 0.5)
        for n, (clients, waste) in enumerate(((30, 60.0), (10, 0.0)))
    )
    made = samples(render(replace(digest(), cohorts=cohorts)))
    means = of(made, "kafka_client_fleet_version_wasted_connections_per_client")
    assert list(means.values()) == [60.0 / 40]


def test_hostile_names_stay_label_values():
    names = tuple((payload, payload) for payload in PAYLOADS)
    made = of(samples(render(digest(names=names))), "kafka_client_fleet_service_wasted_connections")
    assert len(made) >= 1
    for labels in made:
        assert all(value.isprintable() and len(value) <= 80 for _, value in labels)
