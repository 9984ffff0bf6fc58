"""Texts to records: what is set aside, and why; what is let through although it is odd."""

from __future__ import annotations

import json

import pytest

from tests.spark.journals import Agent


def good(**changes):
    agent = Agent()
    agent.series(1)
    agent.write()
    record = {**agent.records[1], **changes}
    return {name: value for name, value in record.items() if value is not ...}


BAD = {
    "not a JSON object": ["", "   ", "[1]", "null", '"text"', "\x00", f"[{json.dumps(good())}]"],
    "not JSON, or a field of the wrong type": [
        '{"schema_version":1,"kind":"agent"',
        "{broken}",
        json.dumps(good(connection_ms=1.5)),
        json.dumps(good(connection_ms="12")),
        json.dumps(good(opened=2**63)),
        json.dumps(good(lifetime_buckets=["x"])),
        json.dumps(good()).replace('"', "'"),
    ],
    "more than one JSON object": [
        json.dumps(good()) + end
        for end in (" hello", "}", ',"x":1', '],[{"x":1}', ' {"x":1}', '{"x":"}"}', "[]", "//", ",")
    ],
    "more than one record": [json.dumps(good()) * 2, json.dumps(good()) + " " + json.dumps(good())],
    "no schema_version": [json.dumps(good(schema_version=...)), "{}"],
    "schema_version 2, known is 1": [json.dumps(good(schema_version=2, connection_ms=-1))],
    "no kind": [json.dumps(good(kind=None))],
    "unknown kind": [json.dumps(good(kind=word)) for word in ("weather", "x" * 99_999)],
    "unknown class": [json.dumps(good(**{"class": "warm"}))],
    "no agent_id": [json.dumps(good(agent_id=...))],
    "no series": [json.dumps(good(series=None))],
    "no class": [json.dumps(good(**{"class": None}))],
    "no since_ms": [json.dumps(good(since_ms=...))],
    "a negative number": [json.dumps(good(opened=-1)), json.dumps(good(lifetime_buckets=[-1] * 12))],
    "a number beyond 2^53": [json.dumps(good(bytes_out=2**53 + 1))],
    "a state beyond 2^32": [json.dumps(good(connections=2**32))],
    "a seq beyond 2^31": [json.dumps(good(seq=2**31))],
    "at_ms is no time from 2020 to 2100": [
        json.dumps(good(at_ms=at)) for at in (0, 60_000, 1_577_836_799_999, 2**52)
    ],
    "since_ms is after at_ms": [json.dumps(good(since_ms=good()["at_ms"] + 3_600_001))],
    "lifetime_buckets has not 12 numbers": [json.dumps(good(lifetime_buckets=[1] * 11))],
}  # fmt: skip
FINE = {
    "as an agent writes it": good(),
    "a field of tomorrow": good(weather="fine", deep={"a": [1]}),
    "an older agent": good(retransmits=..., instances=..., node=..., lifetime_buckets=...),
    "a cause of tomorrow": good(cause="meteor"),
    "the greatest count": good(bytes_out=2**53),
    "the greatest state": good(broker_max_connections=2**32 - 2),
    "a clock that went back a little": good(since_ms=good()["at_ms"] + 59_000),
    "a name with a bracket": good(client_id='} { "x'),
    "space around": good(),
    "a name that is no text is the text of its JSON": good(cluster={"a": 1}),
}


@pytest.fixture(scope="module")
def parsed(spark):
    from spark_rollups.transforms.parse import parse

    texts = [(text, f"bad/{reason}") for reason, group in BAD.items() for text in group]
    texts += [(f" {json.dumps(record)} ", f"fine/{name}") for name, record in FINE.items()]
    return parse(spark.createDataFrame(texts, "raw string, source string")).collect()


def test_every_text_comes_out_once(parsed):
    assert len(parsed) == sum(map(len, BAD.values())) + len(FINE)


def test_what_cannot_be_read_says_why_and_keeps_its_text(parsed):
    odd = [row for row in parsed if row["source"] and row["source"] != f"bad/{row['reason']}"]
    assert odd == []
    assert sum(row["reason"] is not None for row in parsed) == sum(map(len, BAD.values()))
    assert all(row["raw_sha256"] and row["kind"] is None for row in parsed if row["reason"])


def test_what_is_fine_is_a_record_and_nothing_else(parsed):
    fine = [row for row in parsed if row["reason"] is None]
    assert len(fine) == len(FINE)
    assert {(row["raw"], row["source"], row["raw_sha256"]) for row in fine} == {(None, None, None)}
    assert {row["agent_id"] for row in fine} == {"agent-1"}
    older = next(row for row in fine if row["node"] is None)
    assert (older["retransmits"], older["lifetime_bucket_0"], older["opened"]) == (None, None, 0)
