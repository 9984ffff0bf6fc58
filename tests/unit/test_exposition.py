from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.config.settings import LimitSettings
from exporter.metrics.catalogue import CATALOGUE
from exporter.metrics.collector import BrokerwireCollector
from exporter.metrics.exposition import (
    GZIP_FROM_BYTES,
    KEPT_SECONDS,
    Exposition,
    Format,
    _OwnProcess,
    choose_format,
)
from exporter.model import ClosedBy, ConnectionClass, Library
from exporter.snapshot import ClientBroker, ClientLibrary, Totals
from tests.unit.metrics_page import exposition, page
from tests.unit.snapshots import AT, connection, fleet, half_closed, snapshot, unowned, zombie

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def samples(snap, now=AT, limits=None):
    """All samples of a page: name and sorted labels to value."""
    text = page(snap, now, limits=limits).decode()
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
            "text/plain;version=1.0.0;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5",
            Format.TEXT,
            id="text first",
        ),
        pytest.param("application/openmetrics-text; version=0.0.1", Format.TEXT, id="too old"),
        pytest.param(
            "application/openmetrics-text; version=x", Format.TEXT, id="no version at all"
        ),
        pytest.param("text/plain; version=1.0.x", Format.TEXT, id="half a version"),
        pytest.param("application/openmetrics-text;q=x,;;=,", Format.OPENMETRICS, id="nonsense"),
    ],
)
def test_the_format_is_chosen_as_prometheus_client_does(accept, expected):
    assert choose_format(accept) is expected


@pytest.mark.parametrize("fmt", Format)
def test_two_pages_of_the_same_snapshot_have_the_same_lines_in_the_same_order(fmt):
    """Whatever order the snapshot has: dictionaries are filled as connections come."""
    snap = fleet(3, 4)
    turned = replace(
        snap,
        counts=dict(reversed(snap.counts.items())),
        expected=dict(reversed(snap.expected.items())),
        timings=dict(reversed(snap.timings.items())),
        sources=snap.sources[::-1],
        totals=replace(
            snap.totals,
            connection_seconds=dict(reversed(snap.totals.connection_seconds.items())),
            closed=dict(reversed(snap.totals.closed.items())),
            opened=dict(reversed(snap.totals.opened.items())),
        ),
    )
    lines = [
        [line for line in page(each, fmt=fmt).splitlines() if not line.startswith(b"process_")]
        for each in (snap, turned)
    ]
    assert lines[0] == lines[1]


def test_the_families_are_in_the_order_of_the_catalogue():
    names = [spec.name for spec in CATALOGUE if not spec.name.startswith("process_")]
    lines = page(snapshot()).decode().splitlines()
    shown = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    own = [name for name in shown if not name.startswith("process_")]
    assert own == [name for name in names if name in own]
    assert len(shown) == len(set(shown))


def test_openmetrics_is_parsed_by_its_own_parser():
    text = page(snapshot(), fmt=Format.OPENMETRICS).decode()
    assert text.endswith("# EOF\n")
    names = {family.name for family in parse_openmetrics(text)}
    assert {"kafka_client_connections", "brokerwire_build", "process_cpu_seconds"} <= names


def infos(snap, limits=None):
    """What `kafka_client_info` shows of each client: (process, client id, library, version)."""
    return [
        (named["process"], named["client_id"], named["library"], named["version"])
        for (name, labels), value in samples(snap, limits=limits).items()
        if name == "kafka_client_info" and value == 1
        for named in [dict(labels)]
    ]


def with_libraries(*libraries):
    """One client with a connection to as many brokers as there are libraries."""
    clients = tuple(connection(n, broker=f"10.2.0.{n}:9092") for n in range(len(libraries)))
    known = {
        ClientBroker.of(each): frozenset({library})
        for each, library in zip(clients, libraries, strict=True)
    }
    return snapshot(clients, libraries=known)


def test_the_library_is_shown_for_clients_that_are_known_only():
    snap = snapshot((connection(1), zombie(2), connection(3, client_id=None), unowned(4)))
    assert infos(snap) == [("orders", "orders-producer", "java", "4.4.0")]


@pytest.mark.parametrize("fmt", Format)
def test_the_info_series_has_the_type_that_its_format_knows(fmt):
    text = page(snapshot(), fmt=fmt).decode()
    is_openmetrics = fmt is Format.OPENMETRICS
    parse = parse_openmetrics if is_openmetrics else parse_text
    (family,) = [each for each in parse(text) if each.name in {"kafka_client", "kafka_client_info"}]
    assert family.type == ("info" if is_openmetrics else "gauge")
    assert [(each.name, each.value) for each in family.samples] == [("kafka_client_info", 1)]


def test_a_client_has_one_info_series_whatever_is_known_of_its_connections():
    """With two, `* on (...) group_left` would fail for all clients."""
    new, old = ClientLibrary(Library.JAVA, "4.4.0"), ClientLibrary(Library.JAVA, "3.9.2")
    not_yet = ClientLibrary(Library.JAVA, None)
    name = ("orders", "orders-producer")
    assert infos(with_libraries(new, not_yet)) == [(*name, "java", "4.4.0")]
    assert infos(with_libraries(not_yet)) == [(*name, "java", "")]
    assert infos(with_libraries(new, old)) == [(*name, "java", "")]
    assert infos(with_libraries(new, ClientLibrary(Library.LIBRDKAFKA, "2.10.0"))) == []


def test_a_version_is_as_bounded_as_a_name():
    (shown,) = infos(with_libraries(ClientLibrary(Library.JAVA, '4.4"\n\x1b[2J' + "9" * 10_000)))
    assert len(shown[3].encode()) <= LimitSettings().label_bytes
    assert shown[3].startswith('4.4"\\n\\x1b[2J9')


def test_what_is_folded_has_no_library():
    snap = fleet(60, 3)
    limits = LimitSettings(series=700)
    shown = infos(snap, limits=limits)
    assert len(infos(snap)) == 60
    assert 0 < len(shown) < 60
    assert "other" not in {client_id for _, client_id, *_ in shown}


def test_the_sum_over_classes_is_the_number_of_connections():
    assert total(samples(snapshot()), "kafka_client_connections") == 4


def test_what_may_be_counted_of_a_known_client_begins_at_zero():
    """Prometheus's increase() does not see how a series came to its first value."""
    snap = snapshot()
    found = samples(replace(snap, totals=Totals()))
    for name, by in (
        ("connections_opened_total", 1),
        # The broker's and aborts: what the rules take an increase of.
        ("connections_closed_total", 2),
        ("connect_failures_total", 1),
    ):
        values = [value for (each, _), value in found.items() if each == f"kafka_client_{name}"]
        assert values == [0.0] * by * len(snap.counts)


def test_a_client_without_connections_keeps_the_sides_of_its_ends():
    pair = next(iter(snapshot().counts))
    totals = replace(snapshot().totals, opened={pair: 3}, closed={(pair, ClosedBy.CLIENT): 3})
    found = samples(replace(snapshot(()), totals=totals))
    sides = {
        dict(labels)["closed_by"]: value
        for (name, labels), value in found.items()
        if name == "kafka_client_connections_closed_total"
    }
    assert sides == {"broker": 0.0, "abort": 0.0, "client": 3.0}


def test_connections_of_a_stale_snapshot_are_dropped_and_the_agent_stays():
    snap = snapshot()
    fresh = samples(snap, AT + 3.0)
    stale = samples(snap, AT + 3.1)
    assert any(name.startswith("kafka_client_") for name, _ in fresh)
    assert not any(name.startswith("kafka_client_") for name, _ in stale)
    assert stale["brokerwire_last_poll_timestamp_seconds", ()] == snap.wall_time
    assert stale["brokerwire_polls_total", ()] == snap.poll.polls


def test_a_class_has_a_series_once_this_client_and_broker_has_had_it():
    snap = snapshot((connection(1), zombie(2)))
    pair = next(iter(snap.counts))
    had = snap.totals.connection_seconds | {(pair, ConnectionClass.BOOTSTRAP): 12.5}
    found = samples(replace(snap, totals=replace(snap.totals, connection_seconds=had)))
    assert {
        dict(labels)["class"]: value
        for (name, labels), value in found.items()
        if name == "kafka_client_connections"
    } == {"data": 1.0, "zombie": 1.0, "bootstrap": 0.0}


def test_a_class_that_goes_back_to_nothing_ends_with_a_zero():
    """What is firing on it ends at the next scrape, not when Prometheus has lost the series."""
    before = snapshot((connection(1), half_closed(2)))
    after = replace(snapshot((connection(1),)), totals=before.totals)
    key = {"class": "half_closed"}.items()
    values = [
        value
        for (name, labels), value in samples(after).items()
        if name == "kafka_client_connections" and key <= dict(labels).items()
    ]
    assert values == [0.0]


def test_a_client_that_is_gone_leaves_no_series():
    views = [({}, snapshot())]
    collector = BrokerwireCollector(lambda: views, clock=lambda: AT)
    assert b"orders-producer" in Exposition(collector).page(Format.TEXT).body
    views[:] = [({}, snapshot((), findings=()))]
    assert b"orders-producer" not in Exposition(collector).page(Format.TEXT).body


def counting_exposition():
    """An exposition with a clock to set, whose readings are asked for."""
    asked, clock = [], [AT]

    def supply():
        asked.append(clock[0])
        return [("brokerwire_http_connections", (), len(asked))]

    collector = BrokerwireCollector(list, None, (supply,), clock=lambda: clock[0])
    return Exposition(collector, clock=lambda: clock[0]), asked, clock


def test_a_page_is_made_once_for_all_who_ask_within_a_second():
    exposed, asked, clock = counting_exposition()
    for tick in range(50):
        clock[0] = AT + tick * KEPT_SECONDS / 51
        exposed.page(Format.TEXT)
    assert len(asked) == 1


def test_the_agent_itself_is_not_frozen_when_no_poll_follows():
    exposed, _, clock = counting_exposition()
    first = exposed.page(Format.TEXT).body
    clock[0] += KEPT_SECONDS
    assert exposed.page(Format.TEXT).body != first


def test_a_supplier_that_fails_costs_only_its_own_metrics(caplog):
    def broken():
        raise RuntimeError("boom")

    assert b"kafka_client_connections" in page(snapshot(), readings=(broken,))
    assert "bug in a supplier of metrics" in caplog.text


def test_a_metric_that_is_not_in_the_catalogue_is_a_bug():
    with pytest.raises(KeyError):
        page(None, readings=(lambda: [("other", (), 1)],))


def test_large_pages_are_compressed_and_small_ones_are_not():
    small = exposition(None).page(Format.TEXT, packed=True)
    assert len(small.body) < GZIP_FROM_BYTES
    assert small.encoding == ""
    exposed = exposition(fleet(5, 5))
    big = exposed.page(Format.TEXT, packed=True)
    assert big.encoding == "gzip"
    plain = exposed.page(Format.TEXT)
    assert plain.encoding == ""
    assert without_process(gzip.decompress(big.body)) == without_process(plain.body)


def without_process(body: bytes) -> list[bytes]:
    return [line for line in body.splitlines() if not line.startswith(b"process_")]


def test_snapshots_of_several_networks_share_one_head_and_are_told_apart():
    views = [({"network": "1", "pod": "a"}, snapshot()), ({"network": "2"}, snapshot())]
    text = Exposition(BrokerwireCollector(lambda: views, clock=lambda: AT)).page(Format.TEXT).body
    heads = [line for line in text.splitlines() if line.startswith(b"# TYPE")]
    assert len(heads) == len(set(heads))
    held = {
        (sample.labels["network"], sample.labels.get("pod")): 0.0
        for family in parse_text(text.decode())
        for sample in family.samples
        if sample.name == "kafka_client_connections"
    }
    assert set(held) == {("1", "a"), ("2", None)}


def test_the_name_of_a_pod_does_no_harm():
    views = [({"pod": 'a"b\nc\n'}, snapshot())]
    text = Exposition(BrokerwireCollector(lambda: views, clock=lambda: AT)).page(Format.TEXT).body
    pods = {
        sample.labels["pod"]
        for family in parse_text(text.decode())
        for sample in family.samples
        if "pod" in sample.labels
    }
    assert pods == {'a"b\\nc\\n'}


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


def test_useful_seconds_of_a_client_without_metrics_are_unknown_and_not_nothing():
    found = samples(snapshot((connection(1, useful=False), unowned(2))))
    useful = {
        dict(labels).get("client_id", "")
        for name, labels in found
        if name == "kafka_client_connection_useful_seconds_total"
    }
    assert useful == {"orders-producer"}


@pytest.mark.parametrize(
    "name",
    ["sent_bytes_total", "received_bytes_total", "retransmits_total", "connect_failures_total"],
)
def test_what_is_of_the_network_is_told_by_broker_for_all_clients(name):
    clients = [connection(n, client_id=f"p-{n}") for n in range(3)]
    found = samples(snapshot(tuple(clients)))
    one = samples(snapshot((clients[0],)))
    key = (f"kafka_client_{name}", (("broker", "10.2.0.1:9092"),))
    assert found[key] == 3 * one[key] > 0


def test_seconds_of_a_client_are_the_sum_over_its_brokers():
    at = ("10.2.0.1:9092", "10.2.0.2:9092")
    found = samples(snapshot(tuple(connection(n, broker=each) for n, each in enumerate(at))))
    seconds = [v for (name, _), v in found.items() if name.endswith("connection_seconds_total")]
    assert seconds == [2 * 750.5]


@pytest.mark.parametrize(
    "name",
    ["connections", "connections_expected", "connections_unused", "connections_opened_total"],
)
def test_folding_keeps_every_sum(name):
    snap = fleet(60, 3)
    folded = samples(snap, limits=LimitSettings(series=700))
    whole = samples(snap, limits=LimitSettings(series=1_000_000))
    metric = f"kafka_client_{name}"
    series = [key for key in folded if key[0] == metric]
    assert len(series) <= 700 < 13 * len(snap.counts)
    assert total(folded, metric) == total(whole, metric) > 0
    assert folded["brokerwire_folded_series", ()] > 0


def test_histograms_of_folded_pairs_are_added():
    snap = fleet(60, 3)
    folded = samples(snap, limits=LimitSettings(series=700))
    name = "kafka_client_connection_lifetime_seconds_count"
    assert total(folded, name) == total(samples(snap), name)


def test_ids_that_look_alike_once_escaped_share_a_series():
    clients = ("a\nb", r"a\nb")
    snap = snapshot(tuple(connection(n, client_id=name) for n, name in enumerate(clients)))
    text = page(snap).decode()
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


def test_the_metrics_of_the_process_are_those_of_the_catalogue():
    """prometheus_client makes them; the catalogue has them for the documentation and the rules."""
    made = {
        sample.name: family.documentation
        for family in _OwnProcess().collect()
        for sample in family.samples
    }
    assert made == {spec.name: spec.help for spec in CATALOGUE if spec.name.startswith("process_")}


def test_a_process_that_cannot_be_read_costs_only_its_own_metrics(tmp_path, caplog):
    """prometheus_client fails where /proc/self/limits lacks a line."""
    (tmp_path / "stat").write_text("btime 1\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "limits").write_text("")
    (tmp_path / "self" / "fd").mkdir()
    process = _OwnProcess()
    process._proc = str(tmp_path)
    assert process.collect() == []
    (tmp_path / "self" / "stat").write_text("1 (a) " + "1 " * 50)
    assert process.collect() == []
    assert "cannot read this process" in caplog.text


def test_any_registry_takes_the_collector():
    registry = CollectorRegistry(auto_describe=True)
    registry.register(BrokerwireCollector(list))
    assert registry.get_sample_value("brokerwire_build_info") is None
    assert "brokerwire_build" in {family.name for family in registry.collect()}
