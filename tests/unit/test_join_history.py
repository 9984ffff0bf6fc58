"""Bounds of a socket's counts at a moment, and what a node counted read after read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.join.history import LAG
from exporter.model import ClientKind, Library
from tests.unit.joins import look, node, row, socket

KIND = ClientKind.ADMIN


def bounds(window):
    """Return the bounds of both counts."""
    return window[:2], window[2:4]


# ---- sockets -------------------------------------------------------------------------------------


def test_counts_are_unknown_until_a_look_after_the_moment():
    one = socket()
    one.note(100.0, look(100.0, 5, 6))
    assert one.window(99.0, 100.5) is None
    one.note(101.0, look(101.0, 5, 6))
    assert one.window(99.0, 100.5) is not None


def test_two_looks_with_equal_counts_leave_one_number():
    one = socket()
    one.note(100.0, look(100.0, 5, 6))
    one.note(102.0, look(102.0, 5, 6))
    assert bounds(one.window(100.5, 101.5)) == ((5, 5), (6, 6))


def test_between_two_looks_a_count_is_between_theirs_in_its_direction_alone():
    one = socket()
    one.note(100.0, look(100.0, 5, 6))
    one.note(102.0, look(102.0, 9, 6))
    assert bounds(one.window(100.5, 101.5)) == ((5, 9), (6, 6))


def test_an_age_says_how_long_the_count_was_there_before_the_look_less_one_tick():
    one = socket()
    one.note(100.0, look(100.0, 5, 6, sent=30.0, received=1.0))
    assert bounds(one.window(70.02, 99.5)) == ((5, 5), (0, 6))
    # The kernel's clock has ticks of 10 ms: the last bytes may have gone so much later.
    assert bounds(one.window(70.0, 99.5))[0] == (0, 5)


def test_the_age_of_a_send_says_nothing_of_bytes_that_wait():
    one = socket()
    one.note(100.0, look(100.0, 5, 6, sent=30.0, received=30.0, waits=2))
    assert bounds(one.window(80.0, 99.5)) == ((0, 5), (6, 6))


def test_the_age_of_a_receipt_says_nothing_of_what_the_client_has_taken():
    one = socket()
    one.note(100.0, look(100.0, 5, 6, sent=30.0, received=30.0, unread=2))
    assert bounds(one.window(80.0, 99.5)) == ((5, 5), (0, 6))


def test_an_age_reaches_no_further_back_than_the_look_that_saw_less():
    one = socket()
    one.note(100.0, look(100.0, 5, 6))
    one.note(102.0, look(102.0, 9, 6, sent=30.0))
    assert bounds(one.window(99.9, 101.0))[0] == (0, 9)
    assert bounds(one.window(100.0, 101.0))[0] == (9, 9)


def test_what_came_in_is_dated_apart_from_what_went_out():
    one = socket()
    one.note(100.0, look(100.0, 5, 6))
    one.note(102.0, look(102.0, 5, 9, received=30.0))
    assert bounds(one.window(99.9, 101.0)) == ((0, 5), (0, 9))
    assert bounds(one.window(100.0, 101.0)) == ((5, 5), (9, 9))


def test_a_queue_is_remembered_while_the_count_stands():
    one = socket()
    one.note(100.0, look(100.0, 5, 6, waits=3))
    one.note(102.0, look(102.0, 5, 6))
    assert one.window(101.0, 102.0).is_queued


def test_a_queue_of_the_last_look_before_the_moment_counts():
    one = socket()
    one.note(100.0, look(100.0, 5, 6, waits=3))
    one.note(102.0, look(102.0, 9, 9, sent=1.5, received=1.5))
    assert one.window(101.0, 101.5).is_queued
    one.note(104.0, look(104.0, 10, 10, sent=1.0, received=1.0))
    assert not one.window(103.5, 103.9).is_queued


def test_the_same_reading_again_says_that_nothing_happened_until_then():
    one, reading = socket(), look(100.0, 5, 6)
    one.note(100.0, reading)
    one.note(110.0, reading)
    assert bounds(one.window(101.0, 109.0)) == ((5, 5), (6, 6))


def test_a_look_from_before_the_last_one_is_ignored():
    one = socket()
    one.note(100.0, look(100.0, 5, 6))
    one.note(99.0, look(99.0, 4, 6))
    assert one.window(99.5, 100.0).out_high == 5


def test_a_reading_without_counts_is_no_look():
    one = socket()
    one.note(100.0, replace(look(100.0, 5, 6), info=None))
    assert not one.looks
    assert not one.is_talking
    assert not one.is_idle_since(200.0)


def test_a_moment_before_all_remembered_looks_has_no_bounds():
    one = socket()
    for number in range(63):
        one.note(100.0 + number, look(100.0 + number, 5 + number, 6))
    assert bounds(one.window(50.0, 100.0)) == ((0, 5), (0, 6))
    one.note(200.0, look(200.0, 500, 6))
    assert one.window(50.0, 100.0) is None
    assert one.window(100.0, 100.5) is not None


def test_a_socket_talks_once_bytes_went_both_ways():
    one, other = socket(), socket(2)
    one.note(100.0, look(100.0, 5, 0))
    other.note(100.0, look(100.0, 0, 5))
    assert not one.is_talking
    assert not other.is_talking
    one.note(101.0, look(101.0, 5, 1))
    assert one.is_talking


def test_a_socket_is_idle_since_its_last_bytes_either_way_unless_some_wait():
    one = socket()
    one.note(100.0, look(100.0, 5, 6, sent=30.0, received=10.0))
    assert one.active_at == pytest.approx(90.01)
    assert one.is_idle_since(91.0)
    assert not one.is_idle_since(80.0)
    one.note(101.0, look(101.0, 5, 6, waits=1))
    assert not one.is_idle_since(91.0)
    other = socket(2)
    other.note(100.0, look(100.0, 5, 6, sent=10.0, received=30.0))
    assert not other.is_idle_since(80.0)


# ---- nodes ---------------------------------------------------------------------------------------


def counted(its_row, number, out, incoming, **more):
    """Read a node at so many seconds times two."""
    at = number * 2.0
    return its_row.take(node(its_row.node_id, out, incoming, **more), KIND, number, (at, at))


def test_one_page_that_is_older_than_the_one_before_changes_nothing():
    one = row()
    assert counted(one, 1, 50, 60)
    assert counted(one, 2, 40, 60)
    assert one.counts[:2] == (50, 60)
    assert counted(one, 3, 55, 66)
    # The first fall is forgiven again.
    assert counted(one, 4, 50, 60)


def test_totals_that_fall_twice_in_a_row_began_again():
    one = row()
    assert counted(one, 1, 50, 60)
    assert counted(one, 2, 50, 10)
    assert not counted(one, 3, 50, 11)


def test_totals_that_are_gone_began_again_at_once():
    one = row()
    assert counted(one, 1, None, None)
    assert counted(one, 2, 50, 60)
    assert not counted(one, 3, None, None)


def test_a_node_whose_requests_are_reported_later_has_one_record_a_message_from_then_on():
    one = row(requests=None, responses=None)
    assert not one.shape.out
    counted(one, 1, 50, 60, requests=1, responses=1)
    assert one.shape.out


def test_a_node_is_in_use_while_it_counted_more_within_two_reads():
    one = row()
    assert not one.is_in_use
    counted(one, 1, 50, 60)
    assert not one.is_in_use
    for number in (2, 3):
        counted(one, number, 51, 61)
        assert one.is_in_use
    counted(one, 4, 51, 61)
    assert not one.is_in_use


def test_a_node_that_says_that_it_is_connected_is_in_use():
    one = row(library=Library.LIBRDKAFKA)
    counted(one, 1, 50, 60, connection_state="CONNECT")
    assert not one.is_in_use
    counted(one, 2, 50, 60, connection_state="UP")
    assert one.is_in_use


@pytest.mark.parametrize("state", [None, "UP"])
def test_what_a_node_counted_before_its_socket_may_have_closed_shows_no_other(state):
    """The bytes that make it look used may be those of the socket that is gone."""
    one = row()
    for number in (1, 2, 3):
        counted(one, number, 50 + number, 60, connection_state=state)
    one.lost_at = 3
    assert not one.is_in_use
    counted(one, 4, 54, 60, connection_state=state)
    assert not one.is_in_use
    counted(one, 5, 54, 60, connection_state=state)
    assert one.is_in_use is (state == "UP")
    counted(one, 6, 55, 60, connection_state=state)
    assert one.is_in_use


def test_a_node_is_idle_when_two_reads_in_a_row_counted_the_same():
    one = row()
    assert one.is_idle
    counted(one, 1, 50, 60)
    assert not one.is_idle
    counted(one, 2, 50, 60)
    assert one.is_idle
    counted(one, 3, 50, 61)
    assert not one.is_idle


def test_what_was_counted_before_a_socket_was_opened_is_the_last_read_before_that():
    one = row()
    for number in (1, 2, 3):
        counted(one, number, 50 + number, 60)
    opened = socket(opened=4.0 + LAG + 1.0)
    # The page at 4.0 may show what was so a moment later: not before this socket for certain.
    assert one.counted_before(opened).outgoing == 51
    opened.opened_from = 4.5
    assert one.counted_before(opened).outgoing == 52
    opened.opened_from = float("-inf")
    assert one.counted_before(opened) is None


def test_only_a_bootstrap_node_was_not_learned_from_metadata():
    assert not row("-1").is_learned
    assert row("1").is_learned
    assert row("2147483646").is_learned
