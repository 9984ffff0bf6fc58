"""librdkafka's statistics: roles, figures and the moment they are of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.clients.librdkafka import (
    EMIT_SECONDS,
    OLDEST_SECONDS,
    UNDATED_SECONDS,
    client_from_statistics,
    readings_from_statistics,
)
from exporter.errors import SourceDecodeError
from exporter.model import ClientKind, Library, Role

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"


def broker(**more):
    return {
        "name": "b1:9092/1",
        "nodeid": 1,
        "nodename": "b1:9092",
        "source": "learned",
        "state": "UP",
        "txbytes": 10,
        "rxbytes": 20,
        "rx": 3,
        "req": {"Produce": 2, "ApiVersion": 1},
        "connects": 1,
        "disconnects": 0,
        "txidle": 2_000_000,
        "rxidle": 1_500_000,
        "toppars": {"t-0": {}},
        **more,
    }


def document(*brokers, **more):
    return {
        "name": "rdkafka#producer-1",
        "client_id": "rdkafka",
        "type": "producer",
        "ts": 5_000_000,
        "age": 1_000_000,
        "brokers": {f"{number}": one for number, one in enumerate(brokers)},
        **more,
    }


def client(*brokers, **more):
    return client_from_statistics(json.dumps(document(*brokers, **more))).client


def test_the_version_is_what_the_sender_adds():
    assert client(broker(), librdkafka_version="2.6.1").version == "2.6.1"
    assert client(broker()).version is None
    assert client(broker(), librdkafka_version=0x020601FF).version is None


def only_node(**more):
    (node,) = client(broker(**more)).nodes
    return node


def test_a_client_is_told_with_all_its_figures():
    reading = client(broker())
    assert (
        reading.client_id,
        reading.kind,
        reading.library,
        reading.instance,
    ) == ("rdkafka", ClientKind.PRODUCER, Library.LIBRDKAFKA, "rdkafka#producer-1@4.000000")
    (node,) = reading.nodes
    assert (
        node.node_id,
        node.role,
        node.broker_id,
        node.outgoing_bytes,
        node.incoming_bytes,
        node.requests,
        node.responses,
    ) == ("1", Role.DATA, 1, 10, 20, 3, 3)
    assert (
        node.remote_name,
        node.connection_state,
        node.connects,
        node.disconnects,
        node.idle_seconds,
        node.partitions,
    ) == ("b1:9092", "UP", 1, 0, 1.5, 1)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            {"name": "s:9092/bootstrap", "nodeid": -1, "source": "configured"},
            ("s:9092/bootstrap", Role.BOOTSTRAP, None),
            id="bootstrap",
        ),
        pytest.param({"source": "configured"}, ("1", Role.DATA, 1), id="configured-and-learned"),
        pytest.param(
            {"name": "GroupCoordinator", "nodeid": -1, "source": "logical"},
            ("GroupCoordinator", Role.COORDINATOR, None),
            id="group",
        ),
        pytest.param(
            {"name": "TxnCoordinator", "nodeid": -1, "source": "logical"},
            ("TxnCoordinator", Role.TRANSACTION, None),
            id="transaction",
        ),
        pytest.param(
            {"name": "ShareCoordinator", "nodeid": -1, "source": "logical"},
            ("ShareCoordinator", Role.UNKNOWN, None),
            id="logical-of-tomorrow",
        ),
        pytest.param({"source": "learned", "nodeid": -1}, ("b1:9092/1", Role.UNKNOWN, None)),
        pytest.param(
            {"req": {"DescribeConfigs": 1, "Metadata": 4}, "toppars": {}},
            ("1", Role.ADMIN, 1),
            id="admin",
        ),
        pytest.param(
            {"req": {"DescribeConfigs": 1, "Produce": 1}, "toppars": {}},
            ("1", Role.DATA, 1),
            id="admin-and-records",
        ),
        pytest.param(
            {"req": {"GetTelemetrySubscriptions": 1}, "toppars": {}},
            ("1", Role.DATA, 1),
            id="not-yet-used",
        ),
    ],
)
def test_the_source_of_a_broker_is_its_role(more, expected):
    node = only_node(**more)
    assert expected == (node.node_id, node.role, node.broker_id)


def test_a_logical_broker_is_the_learned_one_of_its_address():
    group = {"name": "GroupCoordinator", "nodeid": -1, "source": "logical"}
    nodes = client(broker(), broker(**group)).nodes
    assert [(node.node_id, node.broker_id) for node in nodes] == [("1", 1), ("GroupCoordinator", 1)]


def test_an_address_of_two_brokers_tells_no_coordinator():
    group = {"name": "GroupCoordinator", "nodeid": -1, "source": "logical"}
    nodes = client(broker(), broker(nodeid=2), broker(**group)).nodes
    assert nodes[2].broker_id is None


def test_bootstrap_servers_are_told_apart():
    servers = [broker(name=f"s{n}:9092/bootstrap", nodeid=-1, source="configured") for n in (1, 2)]
    assert [node.node_id for node in client(*servers).nodes] == [
        "s1:9092/bootstrap",
        "s2:9092/bootstrap",
    ]


def test_the_internal_broker_is_left_out():
    assert client(broker(name=":0/internal", nodeid=-1, source="internal")).nodes == ()


@pytest.mark.parametrize("value", [None, -1, True, "10", 1.5, [], 10**30, 1e400], ids=repr)
def test_a_figure_that_counts_nothing_is_none_never_zero(value):
    node = only_node(txbytes=value, rx=value, connects=value)
    assert (node.outgoing_bytes, node.responses, node.connects) == (None, None, None)


@pytest.mark.parametrize("req", [None, [], {"Produce": "2"}, {"Produce": 1, "X": None}], ids=repr)
def test_requests_that_cannot_be_summed_are_none(req):
    assert only_node(req=req).requests is None


@pytest.mark.parametrize(
    ("txidle", "rxidle", "expected"),
    [(-1, -1, None), (-1, 3_000_000, 3.0), (1_000_000, -1, 1.0), (None, "x", None)],
)
def test_idle_is_the_time_since_bytes_went_either_way(txidle, rxidle, expected):
    assert expected == only_node(txidle=txidle, rxidle=rxidle).idle_seconds


def test_partitions_that_are_not_told_are_none():
    assert only_node(toppars=None).partitions is None
    assert only_node(toppars={}).partitions == 0


def test_an_instance_is_constant_over_the_life_of_a_client():
    documents = [document(broker(), ts=7_000_000 + n, age=2_000_000 + n) for n in range(5)]
    names = {client_from_statistics(json.dumps(one)).client.instance for one in documents}
    assert names == {"rdkafka#producer-1@5.000000"}


def test_an_old_library_without_age_is_known_by_name():
    assert client(broker(), age=None).instance == "rdkafka#producer-1"


@pytest.mark.parametrize(
    ("seconds_ago", "is_dated"),
    [
        pytest.param(0.0, True, id="now"),
        pytest.param(2.5, True, id="fetched-late"),
        pytest.param(OLDEST_SECONDS - 1, True, id="very-late"),
        pytest.param(OLDEST_SECONDS + 1, False, id="another-clock-behind"),
        pytest.param(-0.005, True, id="rounding"),
        pytest.param(-1.0, False, id="another-clock-ahead"),
    ],
)
def test_a_clock_that_is_not_ours_is_not_believed(seconds_ago, is_dated):
    reading = client_from_statistics(json.dumps(document(broker())), 5.0 + seconds_ago)
    assert (5.0 if is_dated else None) == reading.taken_at


def test_a_dated_document_is_of_its_own_moment():
    (reading,) = readings_from_statistics(
        json.dumps(document(broker())), source="s", received_at=7.0, sender_pid=12
    )
    assert (
        reading.source,
        reading.begun_at,
        reading.ended_at,
        reading.sender_pid,
    ) == ("s", 5.0, 5.0 + EMIT_SECONDS, 12)


def test_a_document_that_came_at_once_ends_when_it_came():
    (reading,) = readings_from_statistics(
        json.dumps(document(broker())), source="s", received_at=5.001
    )
    assert (reading.begun_at, reading.ended_at) == (5.0, 5.001)


def test_an_undated_document_is_of_the_second_before_it_came():
    (reading,) = readings_from_statistics(
        json.dumps(document(broker(), ts=None)), source="s", received_at=90.0
    )
    assert (reading.begun_at, reading.ended_at) == (90.0 - UNDATED_SECONDS, 90.0)


@pytest.mark.parametrize("glue", ["\n", "\n\n", "\r\n", " ", "", "\x00"], ids=repr)
def test_a_body_may_hold_several_documents(glue):
    one = json.dumps(document(broker()), indent=1)
    readings = readings_from_statistics(glue.join([one] * 3) + glue, source="s", received_at=6.0)
    assert len(readings) == 3


def test_an_empty_body_is_no_reading():
    assert readings_from_statistics(b"\n", source="s", received_at=6.0) == ()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut"),
        pytest.param("[]", id="list"),
        pytest.param("null", id="null"),
        pytest.param("{}", id="no-brokers"),
        pytest.param('{"brokers": {}}', id="no-client"),
        pytest.param('{"brokers": [], "client_id": "c"}', id="brokers-list"),
        pytest.param('{"brokers": {}, "client_id": 3}', id="client-number"),
        pytest.param('{"brokers": {}, "client_id": "c", "client_id": "d"}', id="two-clients"),
        pytest.param('{"brokers": {}, "client_id": "c"} x', id="rubbish-after"),
        pytest.param('{"a":' * 100_000, id="deep"),
        pytest.param(b'{"brokers": {}, "client_id": "\xff"}', id="no-utf-8"),
        pytest.param('{"brokers": {}, "client_id": "c", "x": ' + "9" * 5000 + "}", id="digits"),
    ],
)
def test_what_is_no_statistics_is_a_decode_error(body):
    with pytest.raises(SourceDecodeError):
        client_from_statistics(body)


def test_too_many_brokers_are_an_error():
    body = {"client_id": "c", "brokers": {str(n): {} for n in range(10_001)}}
    with pytest.raises(SourceDecodeError, match="more than 10000 brokers"):
        client_from_statistics(json.dumps(body))


def test_too_many_documents_are_an_error():
    body = json.dumps(document()) * 1001
    with pytest.raises(SourceDecodeError, match="more than 1000 JSON documents"):
        readings_from_statistics(body, source="s", received_at=6.0)


def test_nan_and_surrogates_and_long_names_do_no_harm():
    body = (
        '{"client_id": "\\ud800' + "x" * 5000 + '", "type": "other", "ts": NaN, "age": Infinity,'
        ' "brokers": {"1": {"name": 3, "nodeid": NaN}, "2": [], "3": {"nodeid": 7, "txbytes": NaN}}}'
    )
    reading = client_from_statistics(body)
    assert reading.taken_at is None
    assert ClientKind.UNKNOWN is reading.client.kind
    assert len(reading.client.client_id.encode()) <= 1024
    assert [node.node_id for node in reading.client.nodes] == ["7"]


def test_the_transactional_producer_of_the_lab_has_its_coordinator():
    reading = client_from_statistics((GOLDEN / "librdkafka-payments.json").read_bytes()).client
    roles = {node.node_id: (node.role, node.broker_id) for node in reading.nodes}
    assert roles == {
        "1": (Role.DATA, 1),
        "2": (Role.DATA, 2),
        "TxnCoordinator": (Role.TRANSACTION, 1),
    }
