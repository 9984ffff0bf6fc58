"""Prometheus pages of Java clients, in every dialect."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from exporter.clients.java import clients_from_prometheus
from exporter.clients.prometheus_dialects import MEANINGS, PREFIX
from exporter.errors import SourceDecodeError
from exporter.model import ClientKind, Library, Role
from tests.golden.metrics.expected import decoded, expected_file, pages

ROW = 'kafka_consumer_consumer_node_metrics_{figure}{{client_id="c",node_id="{node}"}} {value}\n'


def node_page(*rows):
    return "".join(
        ROW.format(figure=figure, node=node, value=value) for figure, node, value in rows
    )


def only_node(page):
    (client,) = clients_from_prometheus(page)
    (node,) = client.nodes
    return node


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_recorded_page_decodes_as_before(page):
    assert json.loads(expected_file(page).read_text()) == decoded(page)


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.suffix == ".prom"], ids=lambda page: page.name
)
def test_every_byte_count_of_a_recorded_page_is_read(page):
    """An independent parser, and no table of dialects: whatever looks like a node's byte count."""
    text = page.read_text()
    wanted = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            node = sample.labels.get("node_id") or sample.labels.get("nodeId")
            if node and "byte" in sample.name and "rate" not in sample.name:
                wanted.add((node.strip('"').removeprefix("node-"), int(sample.value)))
    read = {
        (node.node_id, count)
        for client in clients_from_prometheus(text)
        for node in client.nodes
        for count in (node.outgoing_bytes, node.incoming_bytes)
    }
    assert wanted
    assert wanted == read


def test_all_generations_say_the_same_through_jmx_and_jolokia():
    for generation in ("2.1.0", "3.9.2", "4.4.0"):
        by_name = {page.name: decoded(page) for page in pages() if generation in page.name}
        jmx = {client["client_id"]: client for client in by_name[f"jmx-1-plain-{generation}.prom"]}
        jolokia = {client["client_id"]: client for client in by_name[f"jolokia-{generation}.json"]}
        assert jmx.keys() == jolokia.keys()
        for client_id, client in jmx.items():
            idle = [node for node in client["nodes"] if node["role"] == "bootstrap"]
            assert idle
            assert all(node in jolokia[client_id]["nodes"] for node in idle)


def test_a_page_without_kafka_is_an_empty_answer():
    assert clients_from_prometheus("") == ()
    assert clients_from_prometheus("# HELP x y\nx 1\nkafka_server_thing 2\n") == ()
    assert clients_from_prometheus("kafka_consumer_consumer_node_metrics_request_ratex 2\n") == ()


def test_a_rate_without_its_total_is_none():
    page = node_page(("outgoing_byte_rate", "node-1", "5"), ("incoming_byte", "node-1", "7"))
    node = only_node(page)
    assert (node.outgoing_bytes, node.incoming_bytes, node.requests) == (None, 7, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("12345", 12345),
        ("1.2345E4", 12345),
        ("1.2345e+04", 12345),
        ("0.0", 0),
        ("9007199254740992", 2**53),
        ("9007199254740994", None),
        ("1e400", None),
        ("12.5", None),
        ("-1", None),
        ("NaN", None),
        ("+Inf", None),
        ("-Inf", None),
    ],
)
def test_a_value_that_counts_nothing_is_none_never_zero(value, expected):
    assert expected == only_node(node_page(("outgoing_byte", "node-1", value))).outgoing_bytes


def test_a_row_told_twice_with_two_values_is_none_and_stays_so():
    page = node_page(*[("outgoing_byte", "node-1", value) for value in ("5", "6", "6")])
    assert only_node(page).outgoing_bytes is None


def test_a_row_told_twice_alike_is_one():
    page = node_page(*[("outgoing_byte", "node-1", "5")] * 2)
    assert only_node(page).outgoing_bytes == 5


def test_the_quoted_and_the_bare_spelling_of_a_node_are_one_node():
    page = node_page(("outgoing_byte", "node-+1", "5"), ("incoming_byte", r"\"node-+1\"", "6"))
    node = only_node(page)
    assert (
        node.node_id,
        node.role,
        node.broker_id,
        node.outgoing_bytes,
        node.incoming_bytes,
    ) == ("+1", Role.COORDINATOR, 1, 5, 6)


def test_open_metrics_with_exemplars_and_timestamps_is_read():
    page = (
        "# TYPE kafka_producer_producer_node_metrics_request counter\n"
        'kafka_producer_producer_node_metrics_request_total{client_id="p",node_id="node-1"} 3.0'
        ' 1700000000.123 # {trace_id="x"} 1.0\n'
        'kafka_producer_producer_node_metrics_request_created{client_id="p",node_id="node-1"} 1\n'
        "# EOF\n"
    )
    assert only_node(page).requests == 3


TLS_13 = ("TLSv1.3", "TLS_AES_256_GCM_SHA384")
TLS_12 = ("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")


@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("kafka_producer_producer_metrics_connections", "client_id"),
        ("kafka_producer_connections", "clientId"),
        ("kafka_producer_connections", "client_id"),
    ],
)
def test_the_protocol_and_cipher_of_a_clients_connections_are_read(name, client):
    page = "".join(
        f'{name}{{cipher="{cipher}",{client}="p",protocol="{protocol}"}} {count}\n'
        for (protocol, cipher), count in ((TLS_12, 2), (TLS_13, 3), (("TLSv1.3", "gone"), 0))
    )
    (reading,) = clients_from_prometheus(page)
    assert [(*TLS_12, 2), (*TLS_13, 3)] == [tuple(use) for use in reading.ciphers]


def test_connections_without_a_cipher_are_another_metric():
    page = 'kafka_producer_connections{client_id="p",protocol="TLSv1.3"} 3\n'
    assert clients_from_prometheus(page) == ()


def test_a_page_of_endless_ciphers_is_refused():
    row = 'kafka_producer_connections{{client_id="p",protocol="x",cipher="{}"}} 1\n'
    with pytest.raises(SourceDecodeError, match="ciphers"):
        clients_from_prometheus("".join(row.format(number) for number in range(200)))


def test_logins_are_counted():
    page = (
        'kafka_producer_producer_metrics_successful_authentication_total{client_id="p"} 3\n'
        'kafka_producer_producer_metrics_successful_reauthentication_total{client_id="p"} 2\n'
    )
    (reading,) = clients_from_prometheus(page)
    assert (reading.authentications, reading.reauthentications) == (3, 2)


def test_timestamps_and_carriage_returns_are_read():
    page = 'kafka_producer_producer_node_metrics_request{client_id="p",node_id="node-1"} 3 -17\r\n'
    assert only_node(page).requests == 3


def test_label_values_are_unescaped():
    page = ROW.format(figure="request", node="node-1", value=1).replace(
        'client_id="c"', r'client_id="a\\b\"c\n, {x}=\d"'
    )
    (client,) = clients_from_prometheus(page)
    assert client.client_id == 'a\\b"c\n, {x}=\\d'


def test_spring_beans_tell_clients_of_one_id_apart():
    row = (
        'kafka_producer_node_request_total{{client_id="p",kafka_version="3.9.2",'
        'node_id="node-1",spring_id="{bean}"}} {value}\n'
    )
    page = row.format(bean="a.p", value=1) + row.format(bean="b.p", value=2)
    first, second = clients_from_prometheus(page)
    assert [(client.instance, client.nodes[0].requests) for client in (first, second)] == [
        ("a.p", 1),
        ("b.p", 2),
    ]
    assert first.version == second.version == "3.9.2"


def test_micrometers_old_counter_of_open_connections_is_their_count():
    page = 'kafka_admin_client_connection_count_total{client_id="a",kafka_version="unknown"} 2.0\n'
    (client,) = clients_from_prometheus(page)
    assert (
        client.kind,
        client.library,
        client.connection_count,
        client.version,
        client.nodes,
    ) == (ClientKind.ADMIN, Library.JAVA, 2, None, ())


def test_a_clients_own_total_is_no_nodes():
    """OpenTelemetry leaves the group out of the name: the label decides."""
    page = (
        'kafka_producer_outgoing_byte_total{client_id="p"} 10\n'
        'kafka_producer_outgoing_byte_total{client_id="p",node_id="node-1"} 4\n'
    )
    node = only_node(page)
    assert node.outgoing_bytes == 4


def test_lower_case_labels_of_the_connect_rules_are_read():
    page = 'kafka_consumer_node_request_total{clientid="c",nodeid="node--1"} 4\n'
    assert only_node(page).requests == 4


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{client_id="c",node_id="node-1"}', id="no-value"),
        pytest.param('{client_id="c",node_id="node-1"} x', id="no-number"),
        pytest.param('{client_id="c",node_id="node-1"} 1_000', id="underscore"),
        pytest.param('{client_id="c",node_id="node-1"} \u0663', id="other-digits"),
        pytest.param('{client_id="c",node_id="node-1"} 1 2 3', id="too-much"),
        pytest.param('{client_id="c",node_id="node-1" 1', id="not-closed"),
        pytest.param('{client_id="c,node_id=node-1} 1', id="open-quote"),
        pytest.param('{client_id="c" node_id="node-1"} 1', id="no-comma"),
        pytest.param('{client_id="c",client_id="d"} 1', id="label-twice"),
        pytest.param('{client_id="c",,} 1', id="two-commas"),
        pytest.param("{client_id=c} 1", id="no-quotes"),
        pytest.param('{"client_id"="c"} 1', id="quoted-name"),
        pytest.param("", id="nothing"),
        pytest.param("{", id="brace"),
        pytest.param('{client_id="c\\', id="backslash"),
    ],
)
def test_a_malformed_row_is_an_error_with_its_line(line):
    page = f"# one\nkafka_x 1\nkafka_consumer_consumer_node_metrics_request{line}\nkafka_y 2\n"
    with pytest.raises(SourceDecodeError, match=r"^the page line 3: not a sample of kafka_consu"):
        clients_from_prometheus(page)


def test_a_malformed_row_that_nobody_wants_does_not_matter():
    page = "kafka_consumer_other{ nonsense\n" + node_page(("request", "node-1", "1"))
    assert only_node(page).requests == 1


def test_a_page_cut_off_within_a_wanted_row_is_an_error():
    """`12` may be what is left of `12345`."""
    page = node_page(("request", "node-0", "1"), ("request", "node-1", "12"))
    with pytest.raises(SourceDecodeError, match="line 2: the page ends within a line"):
        clients_from_prometheus(page[:-1])


def test_a_line_without_end_is_an_error():
    page = ROW.format(figure="request", node="n" * 10_000_000, value=1)
    with pytest.raises(SourceDecodeError, match="line 1: a line of more than 65536 characters"):
        clients_from_prometheus(page)


def test_too_many_clients_are_an_error():
    row = 'kafka_producer_producer_metrics_connection_count{{client_id="{}"}} 1\n'
    page = "".join(row.format(number) for number in range(10_001))
    with pytest.raises(SourceDecodeError, match="more than 10000 clients"):
        clients_from_prometheus(page)


def test_too_many_nodes_are_an_error():
    page = node_page(*[("request", f"node-{number}", 1) for number in range(100_001)])
    with pytest.raises(SourceDecodeError, match="more than 100000 nodes"):
        clients_from_prometheus(page)


def test_too_many_lines_are_an_error():
    with pytest.raises(SourceDecodeError, match=r"line 500001: more than 500000 lines of kafka_"):
        clients_from_prometheus("kafka_x 1\n" * 500_001)


def test_no_dialect_can_be_mistaken_for_another():
    """Where dialects share a name and the labels too, they mean the same."""
    for name, meanings in MEANINGS.items():
        assert name.startswith(PREFIX)
        by_labels = {}
        for meaning in meanings:
            dialect = meaning.dialect
            labels = (dialect.client_labels, dialect.node_labels, type(meaning.figure))
            by_labels.setdefault(labels, set()).add((meaning.kind, meaning.figure))
        assert all(len(different) == 1 for different in by_labels.values()), name


@pytest.mark.parametrize(
    ("name", "client_id"), [("orders", "orders"), ('"billing, \\"old\\""', '"billing, \\"old\\""')]
)
def test_our_rules_for_jmx_exporter_keep_protocol_and_cipher(name, client_id):
    """The bean is named as kafka-clients 4.4 names it: its own tags come after the client's."""
    bean = (
        f"kafka.producer<type=producer-metrics, client-id={name},"
        " cipher=TLS_AES_256_GCM_SHA384, protocol=TLSv1.3><>connections"
    )
    rules = yaml.safe_load(Path("examples/jmx_exporter/brokerwire.yaml").read_text("utf-8"))[
        "rules"
    ]
    rule, found = next((rule, m) for rule in rules if (m := re.fullmatch(rule["pattern"], bean)))
    labels = {key: found[int(value[1:])] for key, value in rule["labels"].items()}
    assert labels == {
        "client_id": client_id,
        "protocol": "TLSv1.3",
        "cipher": "TLS_AES_256_GCM_SHA384",
    }
