"""The verdicts of `check`, the words of `explain`, and a snapshot narrowed to one process."""

import json
import re
from dataclasses import fields, replace

import pytest
from rich.console import Console

from exporter.cli import main
from exporter.commands.check import DEFAULTS, Threshold, judge
from exporter.commands.explain import matching
from exporter.commands.inspect import report
from exporter.commands.looking import CONNECTIONS_PATH, snapshot_for_process
from exporter.commands.output import rendered
from exporter.commands.records import connection_from_record
from exporter.commands.tables import connections_table
from exporter.errors import SourceDecodeError
from exporter.model import ClientKind, Connection, Owner
from exporter.web.document import connections_document, encode
from tests.unit.snapshots import (
    SIDE_PROCESS,
    connection,
    fleet,
    half_closed,
    page_sample,
    snapshot,
    unowned,
    zombie,
)

# What a record does not carry, or not in full.
NOT_TOLD = {"owner", "unanswered_seconds"}
# What every check asks for: a connection at least.
SOME = ("connections", 1)


def document_of(*connections):
    return json.loads(encode(connections_document(snapshot(connections))))


def verdicts_of(document, *arguments):
    return {(each.name, each.limit): each.passed for each in judge(document, *arguments)}


def test_without_flags_no_waste_is_let_through():
    assert all(verdict.passed for verdict in judge(document_of(connection(1)), DEFAULTS))
    for waste in (zombie(2), half_closed(2)):
        verdicts = judge(document_of(connection(1), waste), DEFAULTS)
        failed = [verdict.name for verdict in verdicts if not verdict.passed]
        assert failed == [str(waste.connection_class)]


def test_a_threshold_is_crossed_by_one_more():
    document = document_of(zombie(1), zombie(2), connection(3))
    assert verdicts_of(document, (Threshold("zombie", 2),)) == {("zombie", 2): True, SOME: True}
    assert verdicts_of(document, (Threshold("zombie", 1),)) == {("zombie", 1): False, SOME: True}
    assert verdicts_of(document, (Threshold("connections", 3),)) == {
        ("connections", 3): True,
        SOME: True,
    }
    assert verdicts_of(document, (Threshold("connections", 2),)) == {
        ("connections", 2): False,
        SOME: True,
    }


def test_a_check_that_saw_nothing_fails_unless_told_otherwise():
    assert verdicts_of(document_of(), DEFAULTS[:1])["connections", 1] is False
    told = judge(document_of(), DEFAULTS, allow_empty=True)
    assert all(verdict.passed for verdict in told)
    some = judge(document_of(connection(1)), (), None, 2, allow_empty=True)
    assert [verdict.passed for verdict in some] == [False]


def test_an_unknown_efficiency_is_not_high_enough():
    document = document_of(connection(1))
    document["summary"]["efficiency"] = None
    assert verdicts_of(document, (), 0.9)["efficiency", 0.9] is False
    assert all(each.passed for each in judge(document, (), 0.9, allow_empty=True))


@pytest.mark.parametrize(("efficiency", "passed"), [(0.79, False), (0.8, True), (1.0, True)])
def test_the_least_efficiency(efficiency, passed):
    document = document_of(connection(1))
    document["summary"]["efficiency"] = efficiency
    assert verdicts_of(document, (), 0.8) == {("efficiency", 0.8): passed, SOME: True}


@pytest.mark.parametrize(
    "original", [connection(1), half_closed(2), zombie(3), unowned(4)], ids=lambda c: c.tcp_state
)
def test_a_record_becomes_the_connection_that_it_was(original):
    again = connection_from_record(document_of(original)["connections"][0])
    for field in fields(Connection):
        if field.name not in NOT_TOLD:
            assert getattr(original, field.name) == getattr(again, field.name), field.name
    assert (original.owner.name, original.owner.pid) == (again.owner.name, again.owner.pid)


@pytest.mark.parametrize(
    "change",
    [{"class": "haunted"}, {"cookie": None}, {"evidence": None}, {"local": 5}, {"local": "x"}],
    ids=str,
)
def test_a_record_of_another_version_is_refused(change):
    record = document_of(connection(1))["connections"][0] | change
    with pytest.raises(SourceDecodeError, match="agent's own version"):
        connection_from_record(record)


@pytest.mark.parametrize("key", document_of(connection(1))["connections"][0])
def test_a_record_with_a_key_less_is_refused_or_shown(key):
    """An older agent tells less: what is needed is missed, never taken for something else."""
    record = document_of(connection(1))["connections"][0]
    del record[key]
    try:
        assert isinstance(connection_from_record(record), Connection)
    except SourceDecodeError as error:
        assert key in str(error)  # noqa: PT017 -- the other right outcome


@pytest.mark.parametrize(
    ("what", "cookies"),
    [
        ("orders-producer", ["1", "2"]),
        ("10.1.0.7:40002", ["2"]),
        ("10.2.0.1:9092", ["1", "2"]),
        ("[fd00::2]:9092", ["3"]),
        ("10.2.0.1", ["1", "2"]),
        ("fd00::2", ["3"]),
        ("orders", ["1", "2"]),
        ("41", ["1", "2"]),
        ("orders 41 producer orders-producer", ["1", "2"]),
        ("billing", ["3"]),
        ("billing unknown", ["3"]),
        ("billing data", []),
        ("nobody", []),
        ("orders nobody", []),
        ("", []),
        (" ", []),
        ("None", []),
    ],
)
def test_explain_takes_what_other_commands_show(what, cookies):
    document = document_of(connection(1), connection(2), unowned(3))
    assert cookies == [record["cookie"] for record in matching(document, what)]


def test_explain_takes_the_client_column_of_inspect():
    numbered = connection(1, client_id="#2", client_kind=ClientKind.PRODUCER)
    spaced = connection(2, client_id="orders producer")
    document = document_of(numbered, spaced)
    lines = rendered(Console(width=200), connections_table(document, width=200)).splitlines()
    shown = [re.split(" {2,}", line)[0] for line in lines[1:]]
    assert shown == ["orders 41 producer #2", "orders 41 producer orders producer"]
    assert [one["cookie"] for one in matching(document, shown[0])] == ["1"]
    assert [one["cookie"] for one in matching(document, "orders producer")] == ["2"]


def explained_as(output, capsys, tmp_path, count):
    snap = snapshot([connection(number) for number in range(1, count + 1)])
    content = {"documents": {CONNECTIONS_PATH: connections_document(snap)}}
    bundle = tmp_path / "bundle.json"
    bundle.write_text(json.dumps(content))
    assert main(["explain", "orders", "--from", str(bundle), "--output", output]) == 0
    return capsys.readouterr().out


def test_explain_for_scripts_shows_every_connection_and_people_the_first_fifty(capsys, tmp_path):
    table = explained_as("table", capsys, tmp_path, 60)
    assert table.count("recommendation:") == 50
    assert "... and 10 more" in table
    head, *lines = explained_as("tsv", capsys, tmp_path, 60).splitlines()
    assert len(lines) == 60
    assert {line.count("\t") for line in lines} == {head.count("\t")}
    made = json.loads(explained_as("json", capsys, tmp_path, 60))["connections"]
    assert len(made) == 60
    assert {"cookie", "meaning", "closes", "recommendation"} <= made[0].keys()


def test_a_table_has_no_spaces_at_the_ends_of_its_lines():
    document = json.loads(encode(connections_document(page_sample())))
    text = rendered(Console(width=120), report(document, width=120))
    assert len(text.splitlines()) > 5
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_process_is_shown_as_if_it_were_alone():
    whole = page_sample()
    other = Owner(key="9", rung=SIDE_PROCESS.rung, name="other", pid=99)
    more = replace(
        whole, connections=(*whole.connections, connection(999, owner=other, client_id="x"))
    )
    alone = snapshot_for_process(more, 41)
    assert {41} == {each.owner.pid for each in alone.connections}
    assert {"orders"} == {key.process for key in alone.counts}
    assert sum(sum(counts.values()) for counts in alone.counts.values()) == len(alone.connections)
    assert all(len(counts) == 13 for counts in alone.counts.values())
    assert alone.expected.keys() <= alone.counts.keys()
    assert encode(connections_document(alone))


def test_a_process_without_connections_is_an_empty_look():
    alone = snapshot_for_process(fleet(3, 2), 4_000_000)
    assert alone.connections == ()
    assert alone.counts == alone.expected == {}
    assert connections_document(alone)["summary"]["efficiency"] is None
