from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.process_collector import ProcessCollector

from exporter.model import ClosedBy
from exporter.settings import LimitSettings
from exporter.sinks.collector import BrokerwireCollector
from exporter.sinks.exposition import Exposition, Format, build_readings, choose_format
from exporter.sinks.process import process_readings
from exporter.snapshot import Totals
from tests.unit.snapshots import AT, connection, fleet, snapshot, zombie

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def samples(snap, now=AT, limits=None):
    """All samples of a page: name and sorted labels to value."""
    text = Exposition(limits).render(snap, now, Format.TEXT).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def total(found, name: str) -> float:
    return sum(value for (each, _), value in found.items() if each == name)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", Format.TEXT, id="says nothing"),
        pytest.param("*/*", Format.TEXT, id="curl"),
        pytest.param("text/html,application/xhtml+xml,*/*;q=0.8", Format.TEXT, id="browser"),
        pytest.param(PROMETHEUS_3, Format.OPENMETRICS, id="Prometheus 3"),
        pytest.param("application/openmetrics-text", Format.OPENMETRICS, id="no version"),
        pytest.param(
            "application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5",
            Format.TEXT,
            id="prefers text",
        ),
        pytest.param("application/openmetrics-text; version=2.0.0", Format.TEXT, id="too new"),
        pytest.param("application/openmetrics-text;q=0", Format.TEXT, id="refused"),
        pytest.param("application/openmetrics-text;q=x,;;=,", Format.TEXT, id="nonsense"),
    ],
)
def test_the_format_is_chosen_as_prometheus_does(accept, expected):
    assert choose_format(accept) is expected


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize(
    "snap",
    [
        pytest.param(snapshot(), id="mixed"),
        pytest.param(snapshot(()), id="no connections"),
        pytest.param(fleet(3, 4), id="fleet"),
        pytest.param(None, id="before the first poll"),
    ],
)
def test_bytes_are_those_of_prometheus_client(snap, fmt):
    registry = CollectorRegistry()
    registry.register(BrokerwireCollector(lambda: snap, clock=lambda: AT))
    generate = generate_latest if fmt is Format.TEXT else generate_openmetrics
    exposition = Exposition()
    exposition._readings = (build_readings,)
    assert exposition.render(snap, AT, fmt) == generate(registry)


def test_openmetrics_is_parsed_by_its_own_parser():
    text = Exposition().render(snapshot(), AT, Format.OPENMETRICS).decode()
    assert text.endswith("# EOF\n")
    names = {family.name for family in parse_openmetrics(text)}
    assert {"kafka_client_connections", "brokerwire_build", "process_cpu_seconds"} <= names


def test_the_sum_over_classes_is_the_number_of_connections():
    assert total(samples(snapshot()), "kafka_client_connections") == 4


def test_what_may_be_counted_of_a_known_client_begins_at_zero():
    """Prometheus's increase() does not see how a series came to its first value."""
    snap = snapshot()
    found = samples(replace(snap, totals=Totals()))
    for name, by in (
        ("connections_opened_total", 1),
        ("connections_closed_total", len(ClosedBy)),
        ("connect_failures_total", 1),
    ):
        values = [value for (each, _), value in found.items() if each == f"kafka_client_{name}"]
        assert values == [0.0] * by * len(snap.counts)


def test_a_client_without_connections_keeps_every_side_of_its_ends():
    pair = next(iter(snapshot().counts))
    totals = replace(snapshot().totals, opened={pair: 3}, closed={(pair, ClosedBy.CLIENT): 3})
    found = samples(replace(snapshot(()), totals=totals))
    sides = {
        dict(labels)["closed_by"]: value
        for (name, labels), value in found.items()
        if name == "kafka_client_connections_closed_total"
    }
    assert sides == dict.fromkeys(ClosedBy, 0.0) | {"client": 3.0}


def test_connections_of_a_stale_snapshot_are_dropped_and_the_agent_stays():
    snap = snapshot()
    fresh = samples(snap, AT + 3.0)
    stale = samples(snap, AT + 3.1)
    assert any(name.startswith("kafka_client_") for name, _ in fresh)
    assert not any(name.startswith("kafka_client_") for name, _ in stale)
    assert stale["brokerwire_last_poll_timestamp_seconds", ()] == snap.wall_time
    assert stale["brokerwire_polls_total", ()] == snap.poll.polls


def test_a_client_that_is_gone_leaves_no_series():
    exposition = Exposition()
    exposition.render(snapshot(), AT, Format.TEXT)
    after = exposition.render(snapshot((), findings=()), AT, Format.TEXT)
    assert b"orders-producer" not in after


def test_a_snapshot_is_rendered_once_for_all_who_ask():
    asked = []
    exposition = Exposition(readings=[lambda: asked.append(1) or []])
    snap = snapshot()
    bodies = {exposition.render(snap, AT + tick / 100, Format.TEXT) for tick in range(50)}
    assert len(bodies) == 1
    assert len(asked) == 1


def test_the_process_is_not_frozen_with_a_snapshot_that_no_other_follows():
    values = iter(range(10))
    readings = [lambda: [("brokerwire_http_connections", (), next(values))]]
    exposition = Exposition(readings=readings)
    snap = snapshot()
    first = exposition.render(snap, AT, Format.TEXT)
    assert exposition.render(snap, AT + 0.9, Format.TEXT) == first
    assert exposition.render(snap, AT + 1.0, Format.TEXT) != first


def test_a_supplier_that_fails_costs_only_its_own_metrics(caplog):
    def broken():
        raise RuntimeError("boom")

    text = Exposition(readings=[broken]).render(snapshot(), AT, Format.TEXT)
    assert b"kafka_client_connections" in text
    assert "bug in a supplier of metrics" in caplog.text


def test_a_metric_that_is_not_in_the_catalogue_is_a_bug():
    with pytest.raises(KeyError):
        Exposition(readings=[lambda: [("other", (), 1)]]).render(None, AT, Format.TEXT)


def test_large_pages_are_compressed_and_small_ones_are_not():
    exposition = Exposition()
    assert exposition.render_gzip(None, AT, Format.TEXT) is None
    big = fleet(5, 5)
    packed = exposition.render_gzip(big, AT, Format.TEXT)
    assert gzip.decompress(packed) == exposition.render(big, AT, Format.TEXT)


def test_efficiency_is_useful_over_all_seconds_of_a_client():
    found = samples(snapshot((connection(1), zombie(2), zombie(3))))
    client = (("client_id", "orders-producer"), ("client_kind", "producer"), ("process", "orders"))
    ratio = found["kafka_client_connection_efficiency_ratio", client]
    assert ratio == pytest.approx(1 / 3)


def test_the_round_trip_is_that_of_the_connection_used_last():
    snap = snapshot(
        (
            connection(1, idle_seconds=500.0, rtt_seconds=0.9),
            connection(2, idle_seconds=0.1, rtt_seconds=0.002),
            connection(3, idle_seconds=None, rtt_seconds=0.7),
        )
    )
    found = samples(snap)
    assert total(found, "kafka_client_connection_rtt_seconds") == 0.002
    assert total(found, "kafka_client_connection_idle_seconds_max") == 500.0


@pytest.mark.parametrize(
    "name", ["connections", "connections_expected", "connections_opened_total"]
)
def test_folding_keeps_every_sum(name):
    snap = fleet(60, 3)
    folded = samples(snap, limits=LimitSettings(series=700))
    whole = samples(snap, limits=LimitSettings(series=1_000_000))
    metric = f"kafka_client_{name}"
    series = [key for key in folded if key[0] == metric]
    assert len(series) <= 700 < 13 * len(snap.counts)
    assert total(folded, metric) == total(whole, metric)
    assert folded["brokerwire_folded_series", ()] > 0


def test_histograms_of_folded_pairs_are_added():
    snap = fleet(60, 3)
    folded = samples(snap, limits=LimitSettings(series=700))
    name = "kafka_client_connection_lifetime_seconds_count"
    assert total(folded, name) == total(samples(snap), name)


def test_ids_that_look_alike_once_escaped_share_a_series():
    clients = ("a\nb", r"a\nb")
    snap = snapshot(tuple(connection(n, client_id=name) for n, name in enumerate(clients)))
    text = Exposition().render(snap, AT, Format.TEXT).decode()
    lines = [line for line in text.splitlines() if 'class="data"' in line and " 2.0" in line]
    assert len(lines) == 1
    assert total(samples(snap), "kafka_client_connections") == 2


def test_timings_of_folded_pairs_show_the_worst():
    snap = fleet(60, 3)
    folded = samples(snap, limits=LimitSettings(series=700))
    idle = {value for (name, _), value in folded.items() if name.endswith("idle_seconds_max")}
    assert idle == {745.0}


def test_probes_of_many_brokers_are_bounded():
    snap = snapshot()
    probes = {f"10.9.{n // 256}.{n % 256}:9092": 1 for n in range(5000)}
    found = samples(replace(snap, totals=replace(snap.totals, probes=probes)))
    assert total(found, "kafka_client_probes_total") == 5000
    assert len([1 for name, _ in found if name == "kafka_client_probes_total"]) < 1000


def test_the_process_metrics_are_those_of_prometheus_client():
    theirs = {
        sample.name: sample.value
        for family in ProcessCollector(registry=None).collect()
        for sample in family.samples
    }
    ours = {name: value for name, _, value in process_readings()}
    assert set(theirs) == set(ours)
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert ours[name] == pytest.approx(theirs[name], abs=0.02)
    assert ours["process_resident_memory_bytes"] > 1_000_000


def test_a_proc_that_is_hidden_raises_nothing(tmp_path):
    assert process_readings(str(tmp_path)) == []


def test_the_collector_describes_nothing_before_it_is_asked():
    registry = CollectorRegistry(auto_describe=True)
    registry.register(BrokerwireCollector(lambda: None))
    assert BrokerwireCollector(lambda: None).describe() == []
