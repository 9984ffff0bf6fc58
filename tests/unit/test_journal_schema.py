"""The description of the journal's records: one, whole, and the same for both packages."""

import jsonschema
import pytest

from exporter.model import ConnectionClass, Role
from exporter.snapshot import LIFETIME_BUCKETS
from journal_schema import schema

SCHEMA = schema()
KINDS = ("agent", "connections", "finding")


def properties():
    for definition in SCHEMA["$defs"].values():
        yield from definition["properties"].items()


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", SCHEMA["$defs"])
def test_every_field_is_required_and_described(name):
    definition = SCHEMA["$defs"][name]
    described = [key for key, value in definition["properties"].items() if "x-is" in value]
    assert definition["required"] == described
    assert all(definition["properties"][key]["description"] for key in described)


def test_the_kinds_are_the_definitions():
    assert tuple(SCHEMA["$defs"]["envelope"]["properties"]["kind"]["enum"]) == KINDS
    for kind in KINDS:
        assert SCHEMA["$defs"][kind]["properties"]["kind"] == {"const": kind}


def test_no_field_stands_in_the_envelope_and_in_a_kind():
    shared = set(SCHEMA["$defs"]["envelope"]["properties"])
    for kind in KINDS:
        assert shared & set(SCHEMA["$defs"][kind]["properties"]) == {"kind"}


def test_a_field_means_the_same_in_every_kind():
    meanings = {}
    for name, value in properties():
        if "x-is" in value:
            meanings.setdefault(name, set()).add((str(value.get("type")), value["x-is"]))
    assert [name for name, found in meanings.items() if len(found) > 1] == []


def test_nothing_is_a_float():
    for name, value in properties():
        assert value.get("type") not in ("number", ["number", "null"]), name


def test_counters_are_integers_that_are_never_negative():
    for name, value in properties():
        if value.get("x-is") == "counter":
            items = value.get("items", value)
            assert items["type"] in ("integer", ["integer", "null"]), name
            assert items["minimum"] == 0, name


def test_the_closed_sets_are_those_of_the_model():
    fields = SCHEMA["$defs"]["connections"]["properties"]
    assert fields["class"]["enum"] == [each.value for each in ConnectionClass]
    assert fields["role"]["enum"] == [each.value for each in Role]


def test_the_journals_buckets_are_those_of_the_metrics():
    buckets = SCHEMA["$defs"]["connections"]["properties"]["lifetime_buckets"]
    assert buckets["x-bounds-ms"] == [round(1000 * bound) for bound in LIFETIME_BUCKETS]
    assert buckets["minItems"] == buckets["maxItems"] == len(LIFETIME_BUCKETS) + 1
