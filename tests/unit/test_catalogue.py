from __future__ import annotations

import re
from dataclasses import replace

import pytest

from exporter.config.settings import LimitSettings
from exporter.metrics.catalogue import CATALOGUE, SPECS, Kind
from exporter.metrics.families import _READERS, pairs_of, rows_of
from exporter.metrics.labels import OTHER, Labels
from exporter.snapshot import OpenFiles
from tests.unit.snapshots import FINDING, snapshot

LIMITS = LimitSettings()


def labels() -> Labels:
    return Labels(series=LIMITS.series, label_bytes=LIMITS.label_bytes)


def test_each_metric_is_written_once():
    assert len(CATALOGUE) == len(SPECS)


@pytest.mark.parametrize("spec", CATALOGUE, ids=lambda spec: spec.name)
def test_names_follow_the_conventions(spec):
    assert re.fullmatch(r"(kafka_client|brokerwire|process)_[a-z_]+", spec.name)
    assert spec.name.endswith("_total") == (spec.kind is Kind.COUNTER)
    assert spec.name.endswith("_info") == (spec.kind is Kind.INFO)
    assert not spec.family.endswith(("_count", "_sum", "_bucket", "_created"))
    assert "type" not in spec.labels
    assert len(spec.labels) == len(set(spec.labels))
    assert not {"pod", "namespace", "cluster", "job", "instance", "le"} & set(spec.labels)
    assert not spec.by or spec.labels[-1] == spec.by


@pytest.mark.parametrize("spec", CATALOGUE, ids=lambda spec: spec.name)
def test_the_unit_is_in_the_name(spec):
    units = {"seconds", "bytes", "ratio"} & set(spec.name.split("_"))
    assert units == ({spec.unit} if spec.unit else set())


@pytest.mark.parametrize("spec", CATALOGUE, ids=lambda spec: spec.name)
def test_help_is_one_sentence_that_needs_no_escapes(spec):
    assert spec.help.endswith(".")
    assert not set(spec.help) & set('\n"\\')


def test_no_family_takes_a_name_that_another_ones_samples_have():
    reserved: dict[str, str] = {}
    for spec in CATALOGUE:
        suffixes = {
            Kind.COUNTER: ("", "_total", "_created"),
            Kind.HISTOGRAM: ("", "_bucket", "_count", "_sum", "_created"),
            Kind.INFO: ("", "_info"),
            Kind.GAUGE: ("",),
        }[spec.kind]
        for suffix in suffixes:
            assert reserved.setdefault(spec.family + suffix, spec.name) == spec.name


def test_every_reader_reads_for_a_metric_of_the_catalogue():
    assert set(_READERS) <= set(SPECS)


def test_what_is_about_clients_expires_and_what_is_about_the_agent_does_not():
    about_now = {"brokerwire_findings", "brokerwire_owned_connections"}
    for spec in CATALOGUE:
        assert spec.expires == (spec.name.startswith("kafka_client_") or spec.name in about_now)


def rows(snap, name: str, labels: Labels) -> list:
    labels.settle(pairs_of(snap))
    return rows_of(SPECS[name], snap, labels, stale=False)


def findings_of(labels: Labels, *findings) -> dict:
    found = rows(snapshot(findings=findings), "kafka_client_finding_connections", labels)
    return {(*values, name): value for values, name, value in found}


def test_a_finding_about_a_client_has_a_series_with_the_labels_of_its_alert():
    churn = replace(
        FINDING,
        name="KafkaClientConnectionChurn",
        labels={"broker": "10.2.0.1:9092", "cause": "probe"},
        value=9.0,
    )
    source = replace(FINDING, name="BrokerwireSourceDown", labels={"source": "orders"})
    assert findings_of(labels(), FINDING, churn, source) == {
        ("orders-producer", "producer", "orders", "", "", "", FINDING.name): 1.0,
        ("", "", "", "", "10.2.0.1:9092", "probe", churn.name): 9.0,
    }


def test_series_of_findings_are_bounded_and_their_sum_is_kept():
    narrow = Labels(series=1, label_bytes=128)
    many = [replace(FINDING, labels={"client_id": f"client-{i}"}) for i in range(50)]
    found = findings_of(narrow, *many)
    assert len(found) == narrow.room + 1
    assert found[(OTHER,) * 5 + ("", FINDING.name)] == 50 - narrow.room
    assert sum(found.values()) == 50


def series_of(snap, name) -> dict:
    return {key: value for key, _, value in rows(snap, name, labels())}


def test_open_files_are_told_by_process_and_an_unknown_limit_is_absent():
    assert series_of(snapshot(), "kafka_client_process_open_fds") == {
        ("orders",): 312,
        ("billing",): 7,
    }
    assert series_of(snapshot(), "kafka_client_process_max_fds") == {("orders",): 1024}


def test_processes_beyond_the_room_are_other_and_the_nearest_to_its_limit_counts():
    files = {f"p-{number:03}": OpenFiles(number, 1000) for number in range(600)}
    shown = series_of(snapshot(open_files=files), "kafka_client_process_open_fds")
    assert len(shown) == labels().room + 1
    assert shown[OTHER,] == 599


def test_a_limit_of_the_brokers_is_told_for_each_broker_or_not_at_all():
    brokers = {("10.2.0.1:9092",): 3000, ("[fd00::2]:9092",): 3000}
    assert series_of(snapshot(), "kafka_client_broker_max_connections") == brokers
    assert series_of(snapshot(), "kafka_client_broker_max_connections_per_ip") == {}


def test_a_finding_in_percent_is_no_number_of_connections():
    near = replace(FINDING, name="KafkaClientNearDescriptorLimit", value=90.0)
    told = series_of(snapshot(findings=(near,)), "kafka_client_finding_connections")
    assert told == {}
    assert sum(series_of(snapshot(findings=(near,)), "brokerwire_findings").values()) == 1
