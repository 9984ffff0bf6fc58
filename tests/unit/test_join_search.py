"""The search over assignments, on pairs that are made by hand."""

from __future__ import annotations

import pytest

from exporter.join.history import Row, Socket
from exporter.join.laws import PLAIN, Law, Shape
from exporter.join.pairs import Pair
from exporter.join.search import Problem, Search, saturating
from exporter.model import (
    ClientKey,
    ClientKind,
    Endpoint,
    Library,
    NodeReading,
    Role,
)

HERE, THERE = Endpoint("10.0.0.1", 9093), Endpoint("10.0.0.2", 9093)
TLS = Law(38, 38)


def socket(cookie, remote=HERE):
    return Socket(cookie, remote, "pid:1", opened_by=10.0, opened_from=9.0)


def row(node_id, client="c", broker=None):
    role = Role.BOOTSTRAP if node_id.startswith("-") else Role.DATA
    node = NodeReading(
        node_id=node_id, role=role, broker_id=broker, outgoing_bytes=0, incoming_bytes=0
    )
    key = ClientKey("app", ClientKind.PRODUCER, client, "")
    return Row(key, node_id, Library.JAVA, node, Shape(out=True, incoming=True))


def options_of(edges, law=TLS, **more):
    """Search what each socket may be; `edges` names sockets and their rows."""
    problem = Problem(
        {left: [Pair(left, right, law) for right in rights] for left, rights in edges.items()},
        **more,
    )
    found = Search().options(problem)
    if found is None:
        return None
    return {left: {pair.row.node_id for pair in pairs} for left, pairs in found.items()}


def test_a_node_that_another_socket_needs_is_no_option():
    one, two, a, b = socket(1), socket(2), row("-1"), row("-2")
    assert options_of({one: [a, b], two: [a]}) == {one: {"-2"}, two: {"-1"}}


def test_what_nothing_distinguishes_keeps_all_its_options():
    one, two, a, b = socket(1), socket(2), row("-1"), row("-2")
    assert options_of({one: [a, b], two: [a, b]}) == {one: {"-1", "-2"}, two: {"-1", "-2"}}


def test_more_sockets_than_nodes_are_no_assignment():
    a = row("-1")
    assert options_of({socket(1): [a], socket(2): [a]}) is None


def test_two_nodes_of_one_broker_are_at_one_address():
    one, two, three = socket(1), socket(2), socket(3, THERE)
    a, b, c = row("1", broker=1), row("2147483646", broker=1), row("2", broker=2)
    assert options_of({one: [a, c], two: [b], three: [a, c]}) == {
        one: {"1"}, two: {"2147483646"}, three: {"2"}
    }  # fmt: skip


def test_brokers_behind_one_address_are_told_as_well():
    one, two = socket(1), socket(2)
    a, b = row("1", broker=1), row("2", broker=2)
    assert options_of({one: [a], two: [b]}) == {one: {"1"}, two: {"2"}}


def test_a_client_has_no_more_sockets_than_it_says():
    one, two = socket(1), socket(2)
    mine, more, others = row("-1"), row("-2"), row("-1", client="d")
    most = {mine.client: 1, others.client: 1}
    found = options_of({one: [mine, more, others], two: [others]}, most=most)
    assert found == {one: {"-1", "-2"}, two: {"-1"}}
    assert options_of({one: [mine], two: [more]}, most=most) is None


def test_a_full_client_gives_way_by_moving_another_socket():
    one, two, three = socket(1), socket(2), socket(3)
    a, b, c = row("-1"), row("-2"), row("-1", client="d")
    most = {a.client: 1, c.client: 2}
    assert options_of({one: [a, c], two: [b]}, most=most) == {one: {"-1"}, two: {"-2"}}
    assert options_of({one: [a, c], two: [b], three: [c]}, most=most) is None


def test_a_listener_speaks_one_protocol_to_all_clients():
    one, two = socket(1), socket(2)
    mine, others = row("-1"), row("-1", client="d")
    problem = Problem({
        one: [Pair(one, mine, PLAIN)],
        two: [Pair(two, others, TLS), Pair(two, others, PLAIN)],
    })  # fmt: skip
    found = Search().options(problem)
    assert [pair.law for pair in found[two]] == [PLAIN]


def test_a_client_has_one_protocol_for_all_its_connections():
    one, two = socket(1), socket(2, THERE)
    problem = Problem({
        one: [Pair(one, row("-1"), PLAIN)], two: [Pair(two, row("-2"), TLS)],
    })  # fmt: skip
    assert Search().options(problem) is None


def test_bootstrap_connections_come_before_those_that_metadata_names():
    early, late = socket(1), socket(2)
    late.opened_from, late.opened_by = 20.0, 21.0
    bootstrap, learned = row("-1"), row("1", broker=1)
    edges = {early: [Pair(early, learned, TLS)], late: [Pair(late, bootstrap, TLS)]}
    assert Search().options(Problem(edges)) is not None
    assert Search().options(Problem(edges, is_complete=True)) is None


def test_what_a_search_cannot_disprove_in_time_stays_possible():
    one, two, a, b = socket(1), socket(2), row("-1"), row("-2")
    edges = {
        one: [Pair(one, a, TLS), Pair(one, b, TLS)],
        two: [Pair(two, a, TLS), Pair(two, b, TLS)],
    }
    search = Search()
    found = search.options(Problem(edges), most_steps=0)
    assert {left: set(pairs) for left, pairs in found.items()} == {
        left: set(pairs) for left, pairs in edges.items()
    }
    # While it rests, what the laws exclude since is excluded.
    edges[one] = edges[one][:1]
    assert search.options(Problem({**edges}))[one] == edges[one]


@pytest.mark.parametrize(
    ("edges", "must", "found"),
    [
        ({"a": ["x"], "b": ["x", "y"]}, "ab", {"x": ["a"], "y": ["b"]}),
        ({"a": ["x", "y"], "b": ["x", "y"]}, "ab", {"x": ["a", "b"], "y": ["a", "b"]}),
        ({"a": ["x", "y"]}, "a", {}),
        ({"a": ["x"], "b": ["x"]}, "ab", {}),
    ],
)
def test_a_side_is_owned_where_every_matching_uses_it(edges, must, found):
    owners = saturating(edges, must)
    assert {right: sorted(lefts) for right, lefts in owners.items()} == found
