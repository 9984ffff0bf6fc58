"""What one source remembers of its clients and of the sockets of their process."""

from __future__ import annotations

import pytest

from exporter.join import source as join_source
from exporter.join.laws import LAWS, PLAIN, Law
from exporter.join.source import Source
from exporter.model import CipherUse, ClientKey, ClientKind, Library
from tests.unit.joins import HERE, Process, client, look, node, page, socket

KEY = ClientKey("app", ClientKind.ADMIN, "c")
RDKAFKA = {"library": Library.LIBRDKAFKA}
TLS = Law(38, 38)
CIPHERS = (CipherUse("TLSv1.3", "TLS_AES_256_GCM_SHA384", 1),)


def read(source, *clients):
    source.take(page(2.0 * (source.reads + 1), *clients))


def rows_of(source, key=KEY):
    return source.clients[key].rows


def laws_of(source, one):
    return {pair.law for pair in source.alive(one)}


# ---- clients and nodes come and go ---------------------------------------------------------------


def test_clients_and_nodes_that_a_whole_page_leaves_out_are_gone():
    process, one = Process(), socket()
    nodes = node("-1", 50, 60), node("-2", 50, 60)
    process.read({one: (50, 60)}, client("c", *nodes), client("d", node("-1", 50, 60)))
    assert len(list(process.source.alive(one))) == 3 * len(LAWS[Library.JAVA])
    process.read({one: (50, 60)}, client("c", nodes[0]))
    assert process.source.clients.keys() == {KEY}
    assert rows_of(process.source).keys() == {"-1"}
    assert {pair.row.node_id for pair in process.source.alive(one)} == {"-1"}


def test_a_page_without_clients_says_that_the_last_one_is_gone():
    source = Source()
    read(source, client("c", node("-1", 50, 60)))
    read(source)
    assert not source.clients
    assert not source.seen_at


def test_a_client_of_librdkafka_stays_when_another_one_reports():
    source = Source()
    read(source, client("c", node("1", 50, 60), **RDKAFKA))
    read(source, client("d", node("1", 50, 60), **RDKAFKA))
    assert {key.client_id for key in source.clients} == {"c", "d"}


def test_one_older_page_forgets_nothing():
    source = Source()
    for total in (50, 40, 55):
        read(source, client("c", node("-1", total, 60), node("-2", 50, 60)))
    assert [each.counts.outgoing for each in rows_of(source)["-1"].reads] == [50, 55]


def test_a_java_client_whose_totals_fell_twice_begins_again_with_all_its_nodes():
    source = Source()
    for total in (50, 40, 41):
        read(source, client("c", node("-1", 50, 60), node("-2", total, 60), node("-3", 1, 1)))
    assert {name: len(each.reads) for name, each in rows_of(source).items()} == {
        "-1": 1, "-2": 1, "-3": 1
    }  # fmt: skip


def test_a_broker_of_librdkafka_whose_totals_fell_twice_begins_again_alone():
    source = Source()
    for total in (50, 40, 41):
        read(source, client("c", node("1", 50, 60), node("2", total, 60), **RDKAFKA))
    assert {name: len(each.reads) for name, each in rows_of(source).items()} == {"1": 3, "2": 1}


def test_a_client_is_steady_once_two_reads_count_the_same_connections():
    source = Source()
    counted = {"connection_count": 1, "connections_created": 1}
    for reported, is_steady in (
        (counted, False), (counted, True), (counted | {"connections_created": 2}, False),
        ({}, False), ({}, False),
    ):  # fmt: skip
        read(source, client("c", node("-1", 50, 60), **reported))
        assert source.clients[KEY].is_steady is is_steady


def test_reads_with_more_nodes_than_connections_count_while_they_follow_each_other():
    source = Source()
    nodes = node("-1", 50, 60), node("-2", 50, 60)
    for created, reads in ((1, 1), (1, 2), (2, 0), (1, 1), (None, 0)):
        read(source, client("c", *nodes, connections_created=created))
        assert source.clients[KEY].shared_reads == reads


def test_a_socket_that_is_gone_marks_the_nodes_that_may_have_had_it():
    process, mine, others = Process(), socket(1), socket(2)
    for total in (1, 2, 3, 4, 5):
        both = node("-1", 50 + total, 60), node("-2", 70 + 2 * total, 80)
        counts = {mine: (50 + total, 60), others: (70 + 2 * total, 80)}
        process.read(counts, client("c", *both, authentications=0))
    rows = rows_of(process.source)
    before = rows["-2"].lost_at
    process.read({others: (80, 80)}, client("c", *both, authentications=0))
    assert rows["-1"].lost_at == process.source.reads
    assert rows["-2"].lost_at == before
    assert mine not in process.source.pairs


# ---- pairs ---------------------------------------------------------------------------------------


def test_an_address_that_a_client_names_leaves_other_sockets_no_pair():
    source, one = Source(), socket()
    read(source, client("c", node("1", 50, 60)))
    source.advance([one], lambda _row, _socket: False)
    assert not list(source.alive(one))
    source.advance([one], lambda _row, _socket: True)
    assert not list(source.alive(one)), "that was asked once"


def test_with_too_many_pairs_there_is_no_join(monkeypatch):
    process, one, two = Process(), socket(1), socket(2)
    monkeypatch.setattr(join_source, "_MOST_PAIRS", len(LAWS[Library.JAVA]))
    process.read({one: (50, 60)}, client("c", node("-1", 50, 60)))
    assert list(process.source.alive(one))
    process.read({one: (50, 60), two: (1, 1)}, client("c", node("-1", 50, 60)))
    assert not process.source.pairs


def test_an_open_client_is_shown_by_two_growths_that_are_equal_to_the_byte():
    process, one = Process(), socket()
    for total in (50, 100, 170):
        assert not process.source.open_ends
        process.read({one: (total, 60)}, client("c", node("-1", total, 60), **RDKAFKA))
    assert process.source.open_ends == {HERE}
    assert process.source.clients[ClientKey("app", ClientKind.ADMIN, "c")].is_shown_open


def test_growth_of_one_size_may_be_the_heartbeats_of_another_client_in_step():
    process, one = Process(), socket()
    for total in (50, 100, 150, 200):
        process.read({one: (total, 60)}, client("c", node("-1", total, 60), **RDKAFKA))
    assert process.source.open_ends == {HERE}
    assert not process.source.clients[ClientKey("app", ClientKind.ADMIN, "c")].is_shown_open


def test_growth_with_a_login_before_it_shows_no_open_client():
    process, one = Process(), socket()
    for total in (50, 100, 150, 200):
        process.read({one: (total + 7, 60)}, client("c", node("-1", total, 60), **RDKAFKA))
    assert not process.source.open_ends
    assert not process.source.clients[KEY].is_shown_open


def test_a_law_that_is_reported_later_leaves_the_pairs_under_it_as_they_are():
    process, one = Process(), socket()
    process.read({one: (50, 60)}, client("c", node("-1", 50, 60)))
    before = [pair for pair in process.source.alive(one) if pair.law == TLS]
    process.read({one: (50, 60)}, client("c", node("-1", 50, 60), ciphers=CIPHERS))
    assert list(process.source.alive(one)) == before
    assert before[0].reads == 2


def test_a_client_that_proves_open_has_its_bounds_read_again_without_a_login():
    """Until then each read left room for a login."""
    process, one = Process(), socket()
    reported = {"authentications": 0, "reauthentications": None}
    for total in (50, 51):
        process.read({one: (total, 60)}, client("c", node("-1", total, 60), **reported))
    assert any(pair.handshake()[0].low < 0 for pair in process.source.alive(one))
    process.read({one: (52, 60)}, client("c", node("-1", 52, 60), **reported))
    (pair,) = process.source.alive(one)
    assert pair.law == PLAIN
    assert pair.is_equal


def test_a_narrowed_law_brings_no_disproved_pair_back():
    process, mine, others = Process(), socket(1), socket(2)
    for total in (50, 60, 70, 80):
        counts = {mine: (total, 60), others: (5, 10 * total)}
        process.read(counts, client("c", node("-1", total, 60), authentications=1))
    assert not list(process.source.alive(others))
    process.read(
        {mine: (80, 60), others: (5, 800)},
        client("c", node("-1", 80, 60), authentications=1, ciphers=CIPHERS),
    )
    assert not list(process.source.alive(others))


def test_a_pair_at_rest_is_not_read_again():
    process, one = Process(), socket()
    for _ in range(3):
        process.read({one: (50, 60)}, client("c", node("-1", 50, 60), authentications=0))
    (pair,) = process.source.alive(one)
    reads = pair.reads
    process.read({one: (50, 60)}, client("c", node("-1", 50, 60), authentications=0))
    assert pair.reads == reads
    process.read({one: (70, 60)}, client("c", node("-1", 70, 60), authentications=0))
    assert pair.reads > reads


# ---- maturity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [(50, 0), (0, 60)])
def test_a_socket_that_got_no_answer_yet_has_no_node_on_the_page(counts):
    process, one = Process(), socket()
    for _ in range(3):
        process.read({one: counts}, client("c", node("-1", 50, 60)))
    assert not process.source.is_mature(one, process.source.clients[KEY])


def test_a_socket_has_its_node_on_the_page_after_two_reads_of_both():
    process, one = Process(), socket()
    process.read({one: (50, 60)}, client("c", node("-1", 50, 60)))
    mine = process.source.clients[KEY]
    assert not process.source.is_mature(one, mine)
    process.read({one: (50, 60)}, client("c", node("-1", 50, 60)))
    assert process.source.is_mature(one, mine)


def test_a_node_that_has_just_begun_to_count_is_held_against_a_socket_first():
    process, one = Process(), socket()
    for _ in range(3):
        process.read({one: (50, 60)}, client("c", node("-1", 50, 60), node("-2")))
    mine = process.source.clients[KEY]
    assert process.source.is_mature(one, mine)
    # The page ends after the last look: the new node was not held against the socket.
    process.source.take(page(process.at + 5.0, client("c", node("-1", 50, 60), node("-2", 50, 60))))
    process.source.advance([one], lambda _row, _socket: True)
    assert not process.source.is_mature(one, mine)
    one.note(process.at + 6.0, look(process.at + 6.0, 50, 60))
    process.source.advance([one], lambda _row, _socket: True)
    assert process.source.is_mature(one, mine)


def test_a_client_whose_nodes_counted_nothing_has_no_mature_socket():
    process, one = Process(), socket()
    for _ in range(3):
        process.read({one: (50, 60)}, client("c", node("-1")))
    assert not process.source.is_mature(one, process.source.clients[KEY])
