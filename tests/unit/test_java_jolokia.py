"""Jolokia's answers, the recorded and the hostile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.clients.jolokia import bulk_read, clients_from_jolokia
from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.model import ClientKind, Role

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"
NODE = "kafka.producer:type=producer-node-metrics,client-id={client},node-id={node}"


def answer(beans, status=200):
    return json.dumps([{"status": status, "value": beans}])


def only_node(beans):
    (client,) = clients_from_jolokia(answer(beans))
    (node,) = client.nodes
    return client, node


def test_the_bulk_read_asks_for_nodes_clients_and_versions_of_every_kind():
    requests = json.loads(bulk_read())
    assert len(requests) == 12
    beans = {request["mbean"] for request in requests}
    assert {
        "kafka.producer:type=producer-node-metrics,*",
        "kafka.admin.client:type=admin-client-metrics,*",
        "kafka.connect:type=app-info,*",
    } <= beans


def test_versions_are_told():
    clients = clients_from_jolokia((GOLDEN / "jolokia-2.1.0.json").read_bytes())
    assert {"2.1.0"} == {client.version for client in clients}


@pytest.mark.parametrize(
    ("client", "client_id", "node"),
    [
        pytest.param('"a,b=c:\\"d\\""', 'a,b=c:"d"', "node-1", id="quoted-client"),
        pytest.param('"\\"a\\""', '"a"', "node-1", id="quotes-of-its-own"),
        pytest.param("a", "a", '"node-+1"', id="quoted-node"),
        pytest.param("", "", "node--1", id="empty-client-id"),
    ],
)
def test_quoted_object_names_are_read(client, client_id, node):
    reading, told = only_node({NODE.format(client=client, node=node): {"request-total": 3.0}})
    assert told.requests == 3
    assert client_id == reading.client_id
    assert told.node_id == node.strip('"').removeprefix("node-")


def test_the_order_of_the_properties_does_not_matter():
    name = 'kafka.consumer:client-id="a,type=x",node-id="node-+2",type=consumer-node-metrics'
    reading, node = only_node({name: {"outgoing-byte-total": 5}})
    assert (
        reading.kind,
        reading.client_id,
        node.role,
        node.broker_id,
    ) == (ClientKind.CONSUMER, "a,type=x", Role.COORDINATOR, 2)


def test_the_protocol_and_cipher_of_a_clients_connections_are_read():
    plain = "kafka.producer:type=producer-metrics,client-id=p"
    name = "kafka.producer:cipher=TLS_AES_256_GCM_SHA384,client-id=p,protocol=TLSv1.3"
    beans = {
        plain: {"connection-count": 3.0, "successful-authentication-total": 4.0},
        f"{name},type=producer-metrics": {"connections": 3},
    }
    (client,) = clients_from_jolokia(answer(beans))
    assert (client.connection_count, client.authentications) == (3, 4)
    assert [tuple(use) for use in client.ciphers] == [("TLSv1.3", "TLS_AES_256_GCM_SHA384", 3)]


@pytest.mark.parametrize(
    "value",
    ["NaN", "12", True, None, [], {}, -1, 1.5, 1e400, 10**30, "ERROR: javax.management..."],
    ids=repr,
)
def test_a_value_that_counts_nothing_is_none(value):
    beans = {NODE.format(client="a", node="node-1"): {"outgoing-byte-total": value}}
    _, node = only_node(beans)
    assert node.outgoing_bytes is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "kafka.producer",
        "kafka.producer:",
        "kafka.producer:type",
        'kafka.producer:type="producer-node-metrics',
        "kafka.producer:type=producer-node-metrics",
        "kafka.producer:type=producer-node-metrics,client-id=a",
        "kafka.producer:type=consumer-node-metrics,client-id=a,node-id=node-1",
        "kafka.server:type=producer-node-metrics,client-id=a,node-id=node-1",
        "kafka.producer:type=producer-node-metrics,client-id=a,node-id=",
        ",,,===:::",
    ],
)
def test_a_name_that_is_no_clients_is_passed_over(name):
    assert clients_from_jolokia(answer({name: {"outgoing-byte-total": 1}})) == ()


def test_attributes_that_are_no_object_are_passed_over():
    assert clients_from_jolokia(answer({NODE.format(client="a", node="node-1"): 3})) == ()


def test_no_bean_is_no_client():
    assert clients_from_jolokia(answer(None, status=404)) == ()
    assert clients_from_jolokia(answer(None, status=400)) == ()


def test_a_refused_read_says_what_to_allow():
    with pytest.raises(SourceUnavailableError, match=r"refuses the read \(status 403\); allow"):
        clients_from_jolokia(answer(None, status=403))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[", id="cut"),
        pytest.param(b"[]", id="no-answer"),
        pytest.param(b"3", id="number"),
        pytest.param(b"[3]", id="numbers"),
        pytest.param(b"{}", id="no-status"),
        pytest.param(b'{"status": 200, "value": {}}', id="one-answer"),
        pytest.param(b'[{"status": "x"}]', id="status-text"),
        pytest.param(b"[] []", id="two-documents"),
        pytest.param(b"\xff\xfe", id="no-utf-8"),
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b'[{"status": 200, "value": ' + b"9" * 10_000 + b"}]", id="long-number"),
        pytest.param(b"[" + b"[]," * 700_000 + b"[]]", id="many-values"),
    ],
)
def test_what_is_no_answer_is_a_decode_error(body):
    with pytest.raises(SourceDecodeError):
        clients_from_jolokia(body)


def test_a_lone_surrogate_in_a_client_id_can_be_encoded():
    body = answer({NODE.format(client="\ud800", node="node-1"): {"request-total": 1}})
    (client,) = clients_from_jolokia(body)
    assert client.client_id.encode() == b"?"


def test_a_bean_told_twice_with_two_values_counts_nothing():
    name = NODE.format(client="a", node="node-1")
    body = f'[{{"status": 200, "value": {{"{name}": {{"request-total": 1, "request-total": 2}}}}}}]'
    (client,) = clients_from_jolokia(body)
    assert client.nodes[0].requests is None
