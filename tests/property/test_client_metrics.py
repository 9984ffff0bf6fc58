"""Whatever a client's page says, it is a reading or a SourceDecodeError, soon and in little memory."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics

from exporter.clients.java import clients_from_prometheus
from exporter.clients.jolokia import clients_from_jolokia
from exporter.clients.librdkafka import client_from_statistics, readings_from_statistics
from exporter.clients.node_ids import parse_node_id
from exporter.clients.prometheus_dialects import DIALECTS, MEANINGS
from exporter.errors import SourceDecodeError, SourceError
from exporter.model import ClientKind, Role

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"
PAGES = sorted(GOLDEN.glob("*.prom"))
JSON_PAGES = sorted(GOLDEN.glob("*.json"))
FIGURES = ("outgoing_bytes", "incoming_bytes", "requests", "responses")

text = st.text(max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


def check_clients(clients):
    """A reading holds only what its type says, and nothing of it is negative."""
    for client in clients:
        client.client_id.encode()
        for node in client.nodes:
            assert isinstance(node.role, Role)
            counts = [getattr(node, figure) for figure in FIGURES]
            counts += [node.broker_id, node.connects, node.disconnects, node.partitions]
            for count in counts:
                assert count is None or (type(count) is int and count >= 0)
            assert node.idle_seconds is None or node.idle_seconds >= 0
        assert len({node.node_id for node in client.nodes}) == len(client.nodes)


def read(decode, body):
    try:
        answer = decode(body)
    except SourceError:
        return ()
    clients = answer if isinstance(answer, tuple) else (answer.client,)
    check_clients(clients)
    return clients


# Text ---------------------------------------------------------------------------------------

names = st.sampled_from(sorted(MEANINGS))
pieces = st.one_of(
    names,
    st.sampled_from(
        ['{client_id="', '",node_id="', '"} ', "\n", "\\", '"', "{", "}", ",", "=", " "]
    ),
    st.sampled_from(["node-1", "node--1", "-2147483646", "+1", "NaN", "1e9", "-5", "# EOF", "\r"]),
    st.text(max_size=8),
)


@given(st.text() | st.lists(pieces, max_size=30).map("".join))
@example("kafka_")
@example("\nkafka_consumer_consumer_node_metrics_request")
@settings(max_examples=400)
def test_any_text_is_a_reading_or_a_decode_error(page):
    read(clients_from_prometheus, page)


@given(st.sampled_from(PAGES), st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_page_is_a_reading_or_a_decode_error(page, data):
    content = page.read_text()[:40_000]
    at = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, 20))
    inserted = data.draw(st.text(max_size=5) | st.sampled_from(['"', "\n", "\\", "{", "}", " "]))
    read(clients_from_prometheus, content[:at] + inserted + content[at + length :])


@given(st.sampled_from(PAGES), st.data())
@settings(max_examples=100)
def test_a_page_cut_anywhere_never_shows_a_smaller_number(page, data):
    """A cut within a number must not be taken for the number."""
    content = page.read_text()
    cut = content[: data.draw(st.integers(0, len(content)))]
    whole = {
        (client.kind, client.client_id, client.instance, node.node_id): node
        for client in clients_from_prometheus(content)
        for node in client.nodes
    }
    for client in read(clients_from_prometheus, cut):
        for node in client.nodes:
            known = whole[client.kind, client.client_id, client.instance, node.node_id]
            for figure in FIGURES:
                assert getattr(node, figure) in (None, getattr(known, figure))


client_ids = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
counts = st.integers(0, 2**53)


@given(
    st.sampled_from(DIALECTS),
    st.sampled_from(["producer", "consumer", "admin_client", "connect"]),
    client_ids,
    st.dictionaries(
        st.sampled_from(["node--1", "node-0", "node-7", "node-2147483646", "node-+1"]),
        st.tuples(counts, counts),
        min_size=1,
    ),
    st.booleans(),
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_what_the_official_library_writes_is_read(dialect, kind, client_id, nodes, is_open):
    """Any client id at all, in every dialect, rendered by the library of the format."""
    assume(not (client_id[:1] == client_id[-1:] == '"'))
    registry = CollectorRegistry()
    labels = [dialect.client_labels[0], dialect.node_labels[0]]

    class Collector:
        def collect(self):
            for position, figure in enumerate(("outgoing_byte", "incoming_byte")):
                name = dialect.node.format(kind=kind, figure=figure)
                family = GaugeMetricFamily(name, "help\n# kafka_", labels=labels)
                for node, values in nodes.items():
                    family.add_metric([client_id, node], values[position])
                yield family

    registry.register(Collector())
    page = (generate_open_metrics if is_open else generate_latest)(registry).decode()
    (client,) = clients_from_prometheus(page)
    assert client_id == client.client_id
    expected = {parse_node_id(node, client.kind)[0]: values for node, values in nodes.items()}
    assert expected == {
        node.node_id: (node.outgoing_bytes, node.incoming_bytes) for node in client.nodes
    }


@given(
    st.text() | st.from_regex(r'"?(node-)?[-+]?(coordinator-)?\d{1,12}"?'),
    st.sampled_from(ClientKind),
)
def test_any_node_id_has_a_role_and_a_broker_in_range(raw, kind):
    node_id, role, broker_id = parse_node_id(raw, kind)
    assert isinstance(node_id, str)
    assert broker_id is None or 0 <= broker_id < 2**31
    assert (broker_id is None) == (role in (Role.BOOTSTRAP, Role.UNKNOWN))


# JSON ---------------------------------------------------------------------------------------

broker_fields = [
    "name", "nodeid", "nodename", "source", "state", "tx", "txbytes", "rxbytes", "rx", "req",
    "toppars", "txidle", "rxidle", "connects", "disconnects",
]  # fmt: skip
brokers = st.dictionaries(
    text,
    json_values
    | st.fixed_dictionaries(
        {},
        optional={
            field: json_values | st.sampled_from(["logical", "learned", "GroupCoordinator"])
            for field in broker_fields
        },
    ),
    max_size=4,
)
statistics = st.fixed_dictionaries(
    {"client_id": text, "brokers": brokers},
    optional=dict.fromkeys(("name", "type", "ts", "age", "time"), json_values),
)


@given(statistics | json_values, st.booleans())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_is_statistics_or_a_decode_error(document, is_ascii):
    body = json.dumps(document, ensure_ascii=is_ascii)
    read(client_from_statistics, body)
    try:
        readings = readings_from_statistics(body * 2, source="s", received_at=1000.0)
    except SourceDecodeError:
        return
    for reading in readings:
        assert reading.begun_at <= reading.ended_at <= 1000.0


@given(st.binary() | st.text())
def test_any_bytes_are_statistics_or_a_decode_error(body):
    read(client_from_statistics, body)
    read(clients_from_jolokia, body)


object_names = st.one_of(
    text,
    st.builds(
        "{}:type={}-node-metrics,client-id={},node-id={}".format,
        st.sampled_from(["kafka.producer", "kafka.consumer", "kafka.server"]),
        st.sampled_from(["producer", "consumer"]),
        text | text.map(json.dumps),
        st.sampled_from(["node-1", '"node-+1"', "node--1", '"', ""]),
    ),
)
beans = st.dictionaries(
    object_names,
    json_values
    | st.dictionaries(st.sampled_from(["outgoing-byte-total", "request-total"]), json_values),
    max_size=4,
)


@given(
    st.lists(
        st.fixed_dictionaries({"status": st.just(200) | json_values, "value": beans}) | json_values,
        max_size=4,
    )
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_is_jolokia_or_a_declared_error(answers):
    read(clients_from_jolokia, json.dumps(answers))


@given(st.sampled_from(JSON_PAGES), st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_json_is_a_reading_or_a_declared_error(page, data):
    content = page.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    damaged = content[:at] + data.draw(st.binary(max_size=4)) + content[at + 1 :]
    read(
        clients_from_jolokia if page.name.startswith("jolokia") else client_from_statistics, damaged
    )


# Bounds -------------------------------------------------------------------------------------

MEGABYTE = 1024 * 1024
ROW = 'kafka_consumer_consumer_node_metrics_request{{client_id="c{}",node_id="node-{}"}} 1\n'


def many_clients():
    return "".join(ROW.format(number, 1) for number in range(100_000))


HOSTILE_PAGES = {
    "50-mb-of-others": lambda: 'jvm_memory_pool_bytes{pool="x"} 1.0\n' * (50 * MEGABYTE // 36),
    "50-mb-of-prefixes": lambda: "kafka_\n" * (50 * MEGABYTE // 7),
    "50-mb-of-one-name": lambda: "kafka_" + "a" * 50 * MEGABYTE,
    "50-mb-line": lambda: ROW.format("x" * 50 * MEGABYTE, 1),
    "100000-clients": many_clients,
    "one-row-for-ever": lambda: ROW.format(1, 1) * (4 * MEGABYTE // 80),
    "backslashes": lambda: ROW.format("\\" * 60_000, 1) * 20,
    "quotes": lambda: ROW.format('"' * 60_000, 1) * 20,
    "labels": lambda: "kafka_producer_connection_count{" + 'a="",' * 10_000 + "} 1\n",
    "blanks": lambda: "kafka_producer_connection_count" + " " * 60_000 + "x\n",
    "digits": lambda: "kafka_producer_connection_count " + "1" * 60_000 + "x\n",
    "hashes": lambda: "kafka_producer_connection_count 1 " + "# {" * 20_000 + "\n",
    "escaped-quote": lambda: 'kafka_producer_connection_count{a="' + '\\"' * 30_000 + "\n",
}  # fmt: skip


def cost_of(decode, body):
    """Return CPU seconds, and the peak of memory beyond the body (measured apart)."""
    begun = time.process_time()
    read(decode, body)
    seconds = time.process_time() - begun
    tracemalloc.start()
    try:
        read(decode, body)
        return seconds, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE_PAGES)
def test_a_hostile_page_costs_little_time_and_memory(name):
    seconds, peak = cost_of(clients_from_prometheus, HOSTILE_PAGES[name]())
    assert seconds < 2.0
    assert peak < 32 * MEGABYTE


def statistics_of(count):
    broker = dict.fromkeys(broker_fields, 12345)
    broker |= {"source": "learned", "req": {str(n): n for n in range(30)}}
    every = {str(n): {**broker, "nodeid": n, "name": f"b{n}"} for n in range(count)}
    return json.dumps({"client_id": "c", "brokers": every})


HOSTILE_JSON = {
    "deep": lambda: "[" * MEGABYTE,
    "deep-objects": lambda: '{"a":' * (MEGABYTE // 5),
    "many-lists": lambda: "[" + "[]," * (16 * MEGABYTE // 3) + "[]]",
    "many-numbers": lambda: "[" + "1," * (8 * MEGABYTE) + "1]",
    "blanks": lambda: " " * 16 * MEGABYTE,
    "one-text": lambda: '"' + "x" * 16 * MEGABYTE + '"',
    "one-key-for-ever": lambda: "{" + '"a":1,' * 400_000 + '"a":2}',
    "many-documents": lambda: "{} " * MEGABYTE,
    "a-thousand-brokers": lambda: statistics_of(1000),
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
@pytest.mark.parametrize("decode", [client_from_statistics, clients_from_jolokia])
def test_hostile_json_costs_little_time_and_memory(name, decode):
    seconds, peak = cost_of(decode, HOSTILE_JSON[name]())
    assert seconds < 2.0
    assert peak < 200 * MEGABYTE
