from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from exporter.model import Connection, ConnectionClass
from exporter.snapshot import NetworkView
from exporter.web.document import (
    connections_document,
    encode,
    encode_connections,
    findings_document,
    sources_document,
)
from exporter.web.history_document import classes_document, events_document, history_document
from exporter.web.live import changes_document
from exporter.web.networks import networks_document
from tests.unit.snapshots import FINDING, PROCESS, SOURCES, connection, fleet, page_sample, snapshot

SCHEMA = json.loads(Path("docs/api.schema.json").read_text("utf-8"))
DOCUMENTS = {
    "connections_document": connections_document,
    "findings_document": findings_document,
    "sources_document": sources_document,
    "history_document": history_document,
    "events_document": events_document,
    "classes_document": lambda _: classes_document(),
}
SNAPSHOTS = [
    pytest.param(snapshot(), id="mixed"),
    pytest.param(snapshot(()), id="empty"),
    pytest.param(page_sample(), id="pod"),
    pytest.param(fleet(3, 2), id="fleet"),
]


def parsed(document):
    return json.loads(encode(document))


def check(document, name: str) -> None:
    schema = {**SCHEMA, "$ref": f"#/$defs/{name}"}
    Draft202012Validator(schema).validate(document)


def same_keys(document, schema) -> None:
    """Assert that the schema describes every field that there is."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(document, list):
        for each in document:
            same_keys(each, schema["items"])
    elif isinstance(document, dict) and "properties" in schema:
        assert set(document) == set(schema["properties"])
        for key, value in document.items():
            same_keys(value, schema["properties"][key])


@pytest.mark.parametrize("snap", SNAPSHOTS)
@pytest.mark.parametrize("stale", [False, True])
def test_encoding_piece_by_piece_makes_the_same_bytes(snap, stale):
    assert encode_connections(snap, stale=stale) == encode(connections_document(snap, stale=stale))


@pytest.mark.parametrize("name", ['"connections":[', '\\"connections":[', "],"])
def test_no_name_can_pass_for_the_list_of_connections(name):
    finding = replace(FINDING, summary=name, labels={name: name})
    snap = snapshot((connection(1, client_id=name),), findings=(finding,))
    assert encode_connections(snap) == encode(connections_document(snap))


def test_the_list_of_networks_is_as_described():
    views = [
        NetworkView(network="2", namespace="shop", pod="a", pod_uid="u", snapshot=snapshot()),
        NetworkView(network="1", namespace="", pod="", pod_uid="", snapshot=snapshot(())),
    ]
    document = networks_document(views, views[0].snapshot.at)
    check(document, "networks_document")
    same_keys(document, {"$ref": "#/$defs/networks_document"})
    assert [(each["network"], each["pod"]) for each in document["networks"]] == [
        ("1", None),
        ("2", "a"),
    ]


def test_changes_are_as_described():
    before = snapshot()
    after = snapshot((*before.connections[1:], connection(9)), findings=())
    document = parsed(changes_document(before, after, stale=False))
    check(document, "changes_document")
    assert [each["cookie"] for each in document["connections"]] == ["9"]
    assert document["gone"] == ["1"]
    assert document["findings"] == []
    assert "sources" not in document


def test_of_a_connection_only_what_changed_is_told():
    before = snapshot((connection(1), connection(2)))
    after = snapshot((connection(1, outgoing_bytes=2000, idle_seconds=0.0), before.connections[1]))
    document = changes_document(before, after, stale=False)
    assert document["connections"] == [{"cookie": "1", "idle_seconds": 0.0, "outgoing_bytes": 2000}]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("snap", SNAPSHOTS)
def test_documents_are_what_the_schema_says(name, snap):
    document = parsed(DOCUMENTS[name](snap))
    check(document, name)
    same_keys(document, SCHEMA["$defs"][name])


@pytest.mark.parametrize("name", SCHEMA["$defs"])
def test_every_field_of_the_schema_is_described(name):
    properties = SCHEMA["$defs"][name].get("properties", {})
    assert [
        key for key, value in properties.items() if not ("description" in value or "$ref" in value)
    ] == []


def test_everything_that_is_known_of_a_connection_is_told():
    renamed = {"connection_class": "class", "owner": "pid", "group": "client_number"}
    told = set(connections_document(snapshot())["connections"][0])
    assert {renamed.get(each.name, each.name) for each in fields(Connection)} <= told


def test_the_fields_that_others_rely_on_have_their_form():
    first = parsed(connections_document(snapshot()))["connections"][0]
    assert first["local"] == "10.1.0.7:40001"
    assert first["remote"] == "10.2.0.1:9092"
    assert first["tcp_state"] == "established"
    assert (first["class"], first["role"]) == ("data", "data")
    assert (first["pid"], first["client_id"], first["client_kind"]) == (
        41,
        "orders-producer",
        "producer",
    )
    assert (first["broker_id"], first["confidence"]) == (1, "exact")
    assert first["evidence"] == ["sent 1803 bytes and so did node-1"]


def test_missing_is_null():
    unknown = parsed(connections_document(snapshot()))["connections"][3]
    for field in ("pid", "client_id", "node_id", "broker_id", "idle_seconds", "outgoing_bytes"):
        assert unknown[field] is None
    assert unknown["client_instance"] is None


def test_the_summary_adds_up():
    document = connections_document(page_sample())
    summary = document["summary"]
    assert sum(summary["by_class"].values()) == summary["connections"] == 12
    assert set(summary["by_class"]) == set(ConnectionClass)
    assert summary["expected"] == sum(each["expected"] for each in document["expected"])
    assert summary["connections"] == sum(each["connections"] for each in document["clients"])


def test_a_client_is_added_up_over_its_brokers():
    (producer,) = (
        each
        for each in connections_document(page_sample())["clients"]
        if each["client_id"] == "orders-producer"
    )
    assert (producer["brokers"], producer["connections"], producer["expected"]) == (3, 6, 3)
    assert producer["efficiency"] == pytest.approx(0.5)


def test_a_cookie_survives_a_reader_whose_numbers_have_53_bits():
    document = parsed(connections_document(snapshot((connection(2**64 - 1),))))
    assert document["connections"][0]["cookie"] == str(2**64 - 1)


@pytest.mark.parametrize("hostile", ["\u2028</script>", "caf\udce9", "\x00\x1b[2J", '"\\'])
def test_any_name_is_ascii_json(hostile):
    owner = replace(PROCESS, name=hostile)
    snap = snapshot((connection(1, client_id=hostile, owner=owner, evidence=(hostile,)),))
    text = encode(connections_document(snap)).decode("ascii")
    assert text.count("\n") == 1
    shown = json.loads(text)["connections"][0]
    assert shown["client_id"].encode()  # no half of a surrogate pair
    assert shown["process"] == shown["evidence"][0] == shown["client_id"]


def test_what_is_no_number_is_null():
    finding = replace(FINDING, value=float("nan"))
    snap = snapshot((connection(1, rtt_seconds=float("inf")),), findings=(finding,))
    document = parsed(connections_document(snap))
    assert document["findings"][0]["value"] is None
    assert document["connections"][0]["rtt_seconds"] is None


def test_a_source_that_is_down_says_why():
    down = parsed(sources_document(snapshot()))["sources"][1]
    assert (down["up"], down["error"]) == (False, SOURCES[1].error)
    assert down["last_success"] is None


def test_stale_is_said():
    assert parsed(findings_document(snapshot(), stale=True))["stale"] is True
