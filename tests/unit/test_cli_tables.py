"""Tables for people: what stands there, and that no name in it can do harm."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from exporter.commands.inspect import report
from exporter.model import ClientGroup, ClientThreads, Endpoint
from exporter.snapshot import ProcessClients
from exporter.web.document import connections_document
from tests.unit.snapshots import FINDING, connection, half_closed, page_sample, snapshot, unowned
from tests.unit.snapshots import zombie as zombie_of

HOSTILE = ["\x1b[2J\x1b]0;x\x07", "a\nb\rc", "\u202e\u2066", "[red]x[/red]", "\u2028", "x" * 5000]


def printed(document, *, each=False, width=200):
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    console.print(report(document, each=each, width=width))
    return stream.getvalue()


def rows_of(*connections, **options):
    text = printed(connections_document(snapshot(connections)), **options)
    lines = text[: text.index("\n\n")].split("\n") if "\n\n" in text else text.split("\n")
    table = text.split("\n \n")[0].split("\n") if "\n \n" in text else lines
    return [re.split(r"\s{2,}", line.strip()) for line in table]


def test_unused_connections_are_counted_and_each_says_for_how_long():
    unused = [zombie_of(n, unused_seconds=540.0) for n in (1, 2)]
    [_head, row, _data] = rows_of(*unused, connection(3))[:3]
    assert row[7:9] == ["12 min", "2"]
    [_head, row] = rows_of(unused[0], each=True)[:2]
    assert row[7:9] == ["12 min", "9 min"]
    text = printed(connections_document(snapshot((*unused, connection(3)))))
    assert "3 connections, 1 expected, 2 unused since they were opened" in text


def test_what_is_unknown_has_no_efficiency():
    document = connections_document(snapshot((unowned(1), unowned(2))))
    assert document["summary"]["efficiency"] is None
    assert [each["efficiency"] for each in document["clients"]] == [None]
    known = connections_document(snapshot((unowned(1), connection(2), zombie_of(3))))
    assert known["summary"]["efficiency"] == 0.5


def test_a_row_stands_for_all_of_a_client_broker_and_class():
    rows = rows_of(zombie_of(1), zombie_of(2, idle_seconds=1200.0), connection(3))
    name = "orders 41 producer orders-producer"
    assert rows[:3] == [
        [
            *("CLIENT", "BROKER", "HELD", "EXPECTED", "CLASS", "ROLE"),
            *("N", "IDLE", "UNUSED", "OUT", "IN"),
        ],
        [
            name,
            "1 10.2.0.1:9092",
            "3",
            "1",
            "zombie",
            "bootstrap",
            "2",
            "20 min",
            "2",
            "346 B",
            "2.8 KiB",
        ],
        ["data", "1", "250 ms", "1.8 KiB", "901 B"],
    ]


def test_each_connection_can_have_a_row():
    rows = rows_of(zombie_of(1), zombie_of(2), connection(3), each=True)
    assert [row[-5] for row in rows[1:3]] == ["10.1.0.7:40001", "10.1.0.7:40002"]


def test_a_name_stands_once_and_brokers_below_it():
    rows = rows_of(
        connection(1), connection(2, remote=Endpoint("10.2.0.2", 9092), broker="10.2.0.2:9092")
    )
    assert rows[1][0].startswith("orders 41")
    assert rows[2][0] == "1 10.2.0.2:9092"


def test_what_is_missing_is_a_dash():
    rows = rows_of(unowned(5))
    assert rows[1][-3:] == ["-", "-", "-"]


def test_the_summary_counts_every_class_that_is_there():
    text = printed(connections_document(snapshot((zombie_of(1), half_closed(2), connection(3)))))
    assert "3 connections, 1 expected, 1 unused since they were opened, 1 half_closed" in text


def test_what_to_change_names_each_kind_once():
    findings = tuple(replace(FINDING, description=f"client {number}") for number in range(9))
    text = printed(connections_document(replace(page_sample(), findings=findings)))
    assert text.count(FINDING.summary) == 1
    assert text.count(FINDING.remedy) == 1
    assert "client 2" in text
    assert "client 3" not in text
    assert "and 6 more like this" in text


def test_nothing_to_see_says_what_to_do():
    text = printed(connections_document(replace(snapshot(()), findings=())))
    assert "--ports" in text
    assert "Nothing to change" not in text


def test_nothing_to_change_says_so():
    text = printed(connections_document(replace(snapshot((connection(1),)), findings=())))
    assert "Nothing to change." in text


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_stays_in_its_cell(name, each):
    owner = replace(connection().owner, name=name)
    hostile = connection(1, owner=owner, client_id=name, evidence=(name,), broker=name)
    finding = replace(FINDING, summary=name, description=name, remedy=name, labels={"a": name})
    seen = replace(snapshot((hostile,)), findings=(finding,))
    text = printed(connections_document(seen), each=each, width=300)
    assert all(line.isprintable() for line in text.split("\n"))
    assert max(map(len, text.split("\n"))) <= 300


@pytest.mark.parametrize("width", [20, 80, 100])
def test_on_a_narrow_screen_the_name_stands_above_its_lines(width):
    text = printed(connections_document(page_sample()), width=width)
    assert "orders 41 producer" in text
    if width >= 80:
        assert max(map(len, text.split("\n"))) <= width
        assert "2 10.2.0.2:9092 " in text
        assert "half_closed" in text
        assert "…" not in text


def test_a_newer_agent_may_know_more_classes():
    document = connections_document(snapshot((connection(1),)))
    document["connections"][0] |= {"class": "haunted", "role": "medium", "new": [1]}
    assert "haunted" in printed(document)


def test_a_document_with_holes_is_still_shown():
    document = {
        "summary": {},
        "connections": [{}, {"pid": "x", "idle_seconds": None, "outgoing_bytes": "many"}],
        "expected": [{}],
        "findings": [{}],
        "sources": [],
    }
    assert "2 connections" in printed(document)


def test_nothing_is_called_well_where_something_is_unknown():
    text = printed(connections_document(replace(snapshot((unowned(1),)), findings=())))
    assert "Nothing to change" not in text
    assert "1 of 1 connection unknown" in text
    assert "--for 30s" in text


def test_an_all_clear_on_guesses_says_so():
    guess = connection(1, confidence="weak")
    text = printed(connections_document(replace(snapshot((guess,)), findings=())))
    assert "Nothing to change, if 1 guess (weak) is right." in text


def test_the_number_of_clients_stands_below_the_table():
    threads = ClientThreads(producers=1, librdkafka=2)
    clients = (ProcessClients("orders", 41, threads, is_told_apart=False),)
    seen = replace(snapshot((unowned(1),)), process_clients=clients)
    text = printed(connections_document(seen))
    assert "orders 41: 1 producer, 2 clients of librdkafka" in text
    assert "shareProcessNamespace: true" in text


def test_clients_beyond_the_threads_are_counted_too():
    groups = [ClientGroup(key=f"g{number}", number=number) for number in (1, 2)]
    held = tuple(connection(number, group=group) for number, group in enumerate(groups))
    clients = (ProcessClients("orders", 41, ClientThreads(producers=1), is_told_apart=True),)
    text = printed(connections_document(replace(snapshot(held), process_clients=clients)))
    assert "orders 41: 1 producer, 1 client of unknown kind" in text
