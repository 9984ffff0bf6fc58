"""`--agent` may name anybody: whatever it answers, no command crashes or passes a control on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.cli import BUG, main
from exporter.commands.answers import document_from_answer
from exporter.errors import SourceDecodeError
from exporter.http.fetch import Response
from exporter.web.document import connections_document, encode
from tests.unit.snapshots import page_sample

ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e\u2028\x9b"
HOSTILE = [None, True, 10**400, -1e19, ESCAPES, "\ud800", [1], {"a": 1}]
COMMANDS = [
    ["inspect", "--each"],
    ["inspect", "--json"],
    ["explain", "orders-producer"],
    ["explain", "orders-producer", "--output", "tsv"],
    ["explain", "orders-producer", "--json"],
    ["check", "--min-efficiency", "0.5"],
]


@pytest.fixture
def answers(monkeypatch):
    def answer_with(body):
        response = Response(
            where="agent", content_type="application/json", body=body, begun_at=0.0, ended_at=0.0
        )
        monkeypatch.setattr("exporter.http.fetch.fetch", lambda *_, **__: response)

    return answer_with


def document():
    return json.loads(encode(connections_document(page_sample())))


def run(command, capfd):
    code = main([*command, "--agent", "http://agent"])
    out, err = capfd.readouterr()
    assert code != BUG, err
    assert "Traceback" not in err
    hidden = {letter for letter in out + err if not letter.isprintable()} - {"\n"}
    hidden -= {"\t"} if "tsv" in command else set()
    assert not hidden
    return out


def changed(path, value):
    made = document()
    inner = made
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return json.dumps(made).encode()


def paths():
    made = document()
    yield from ((key,) for key in made)
    yield from (("summary", key) for key in made["summary"])
    for name, values in made.items():
        if isinstance(values, list) and values and isinstance(values[0], dict):
            yield from ((name, 0, key) for key in values[0])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_field_of_an_answer_crashes_a_command_or_reaches_the_terminal_raw(
    answers, capfd, command
):
    # Each field gets two of the values, each value comes to many fields: all of all takes minutes.
    for number, path in enumerate(paths()):
        for value in (HOSTILE[number % len(HOSTILE)], HOSTILE[(number + 3) % len(HOSTILE)]):
            answers(changed(path, value))
            run(command, capfd)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", ["document", "connection"])
def test_a_number_too_large_in_a_field_that_is_not_known_crashes_no_command(
    answers, capfd, command, place
):
    made = document()
    (made if place == "document" else made["connections"][0])["added_later"] = "HUGE"
    answers(json.dumps(made).replace('"HUGE"', "1e999").encode())
    run(command, capfd)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"summary":NaN}', b"1" * 5000],
    ids=repr,
)
def test_what_is_no_document_is_said_to_be_none(answers, capfd, command, body):
    answers(body)
    assert run(command, capfd) == ""


def numbers_of(*names):
    """The numeric fields of these parts of the API's description."""
    parts = json.loads((Path(__file__).parents[2] / "docs/api.schema.json").read_text())["$defs"]
    for name in names:
        for key, value in parts[name]["properties"].items():
            kinds = value.get("type", [])
            if {"number", "integer"} & set([kinds] if isinstance(kinds, str) else kinds):
                yield name, key


@pytest.mark.parametrize(
    ("part", "key"),
    list(numbers_of("connection", "expected", "finding", "source", "process_clients", "summary")),
)
def test_each_number_of_the_api_must_be_one(part, key):
    places = {"connection": "connections", "finding": "findings", "source": "sources"}
    made = document()
    records = made[places.get(part, part)]
    if part == "process_clients":
        records.append({})
    (records if part == "summary" else records[0])[key] = "12"
    with pytest.raises(SourceDecodeError, match=key):
        document_from_answer(json.dumps(made).encode(), "the agent")
