"""Whether one socket may be one node: what its byte counts allow and contradict."""

from __future__ import annotations

import pytest

from exporter.join.laws import PLAIN, Law
from exporter.join.pairs import LARGEST_HANDSHAKE, Pair, Span
from exporter.model import ClientKind
from tests.unit.joins import look, node, row, socket

TLS = Law(38, 38)
HANDSHAKE = (500, 4_000)


class Held:
    """One pair, read every two seconds."""

    def __init__(self, law=PLAIN, *, kind=ClientKind.ADMIN, opened=10.0, **given):
        self.socket, self.row = socket(opened=opened), row("1", kind=kind, **given)
        self.pair = Pair(self.socket, self.row, law)
        self.kind, self.given = kind, given
        self.at, self.number = 100.0, 0

    def read(self, out, incoming, messages, before, after=None, *, waits=0, may_log_in=False):
        """Let the node report so much while the socket's counts go from `before` to `after`."""
        self.at += 2.0
        self.number += 1
        after = after or before
        self.socket.note(self.at - 1, look(self.at - 1, *before, waits=waits))
        told = node(
            "1", out, incoming, kind=self.kind,
            **(self.given | {"requests": messages, "responses": messages}),
        )  # fmt: skip
        self.row.take(told, self.kind, self.number, (self.at, self.at))
        self.socket.note(self.at + 1, look(self.at + 1, *after, waits=waits))
        self.pair.advance(may_log_in=may_log_in)
        return self.pair

    def exchange(self, messages, size=100, *, torn=0, **more):
        """Let a client under TLS 1.3 have had so many messages, each one record; count all."""
        counted = messages * size
        there = [weight + counted + 38 * messages + torn for weight in HANDSHAKE]
        return self.read(counted, counted, messages, there, **more)


# ---- laws and strikes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "is_possible"),
    [(TLS, True), (Law(29, 29), False), (Law(38, 38, 2), False), (PLAIN, False)],
)
def test_only_the_law_whose_records_cost_as_much_fits_a_socket(law, is_possible):
    held = Held(law)
    for messages in (1, 2, 3):
        held.exchange(messages)
    assert held.pair.is_possible is is_possible


@pytest.mark.parametrize("more", [(37, 0), (0, 39)])
def test_what_nobody_counted_grows_by_whole_records_alone(more):
    """A page of 9,000 bytes leaves one record open, of 38 bytes and no others."""
    held = Held(TLS)
    held.exchange(1)
    for _ in range(2):
        out, incoming = (538 + 9_100 + more[0], 4_038 + 9_100 + more[1])
        held.read(9_100, 9_100, 1, (out, incoming))
    assert not held.pair.is_possible


def test_a_large_message_may_be_one_record_more():
    held = Held(TLS)
    held.exchange(1)
    held.read(9_100, 9_100, 2, (500 + 9_100 + 2 * 38 + 38, 4_000 + 9_100 + 2 * 38))
    assert not held.pair.strikes
    held.read(9_200, 9_200, 3, (500 + 9_200 + 3 * 38, 4_000 + 9_200 + 3 * 38))
    assert held.pair.strikes, "what was counted once cannot be less later"


def test_a_produce_request_may_be_several_records():
    held = Held(TLS, kind=ClientKind.PRODUCER)
    held.exchange(1)
    held.read(200, 200, 2, (500 + 200 + (2 + 40) * 38, 4_000 + 200 + 2 * 38))
    assert not held.pair.strikes


def test_a_fetch_response_may_be_several_records():
    held = Held(TLS, kind=ClientKind.CONSUMER)
    held.exchange(1)
    held.read(200, 200, 2, (500 + 200 + 2 * 38, 4_000 + 200 + (2 + 40) * 38))
    assert not held.pair.strikes


def test_one_contradiction_is_a_torn_page_and_two_are_another_socket():
    held = Held()
    held.read(100, 100, 1, (100, 100))
    assert held.read(200, 200, 2, (300, 300)).strikes == 1
    assert held.pair.is_possible
    assert not held.read(300, 300, 3, (400, 401)).is_possible


def test_growth_that_agrees_again_takes_a_strike_back():
    held = Held()
    held.read(100, 100, 1, (100, 100))
    held.read(200, 200, 2, (300, 300))
    assert held.read(400, 400, 3, (400, 400)).strikes == 0
    held.read(500, 500, 4, (600, 600))
    assert held.pair.is_possible


def test_silence_takes_no_strike_back():
    held = Held()
    held.read(100, 100, 1, (100, 100))
    held.read(200, 200, 2, (300, 300))
    assert held.read(100, 100, 2, (100, 100)).strikes == 1


def test_a_read_before_the_socket_was_opened_says_nothing_of_it():
    held = Held(opened=103.0)
    held.socket.note(103.0, look(103.0, 5, 5))
    held.row.take(node("1", 900, 900), held.kind, 1, (102.0, 102.0))
    held.pair.advance(may_log_in=False)
    assert not held.pair.is_read


def test_a_read_waits_for_a_look_after_it():
    held = Held()
    held.socket.note(100.0, look(100.0, 50, 60))
    held.row.take(node("1", 50, 60), held.kind, 1, (101.0, 101.0))
    held.pair.advance(may_log_in=False)
    assert not held.pair.is_read
    held.socket.note(102.0, look(102.0, 50, 60))
    held.pair.advance(may_log_in=False)
    assert held.pair.is_read


# ---- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_counted", [True, False], ids=["counted-early", "counted-late"])
@pytest.mark.parametrize(("waits", "strikes"), [(1, 0), (0, 1)], ids=["full", "empty"])
def test_where_the_send_buffer_is_full_count_and_kernel_may_differ_by_a_record(
    waits, strikes, is_counted
):
    """A client counts what it has encrypted, old ones count a request once all of it is written."""
    held = Held(TLS)
    held.exchange(1)
    missing = 16_000 if is_counted else -16_000
    there = (500 + 20_000 + 2 * 38 - missing, 4_000 + 200 + 2 * 38)
    assert held.read(20_000, 200, 2, there, waits=waits).strikes == strikes


def test_plaintext_has_no_bytes_that_are_counted_before_the_kernel_has_them():
    held = Held()
    held.read(100, 100, 1, (100, 100))
    assert held.read(300, 200, 2, (200, 200), waits=1).strikes


def test_of_an_answer_in_several_segments_a_record_may_be_there_in_part():
    held = Held()
    held.read(100, 100, 1, (100, 100))
    # The client counts a record of which it has all: of the last one 900 bytes are there.
    held.read(200, 100, 2, (200, 1_000), (200, 2_300))
    assert not held.pair.strikes
    held.read(300, 100, 3, (300, 2_300), (300, 3_000))
    assert held.pair.strikes


def test_a_key_renewal_is_a_record_of_five_bytes_each_way():
    held = Held(TLS)
    held.exchange(1)
    assert not held.exchange(2, torn=38 + 5).strikes
    assert not held.exchange(3, torn=38 + 5).strikes
    assert held.exchange(4, torn=38 + 5 + 1).strikes


def test_plaintext_has_no_keys_to_renew():
    held = Held()
    held.read(100, 100, 1, (100, 100))
    assert held.read(200, 200, 2, (205, 205)).strikes


@pytest.mark.parametrize(("may_log_in", "strikes"), [(True, 0), (False, 1)])
def test_a_client_that_logs_in_again_sends_bytes_that_it_does_not_count(may_log_in, strikes):
    held = Held()
    held.read(100, 100, 1, (600, 300), may_log_in=may_log_in)
    held.read(200, 200, 2, (700 + 900, 400 + 150), may_log_in=may_log_in)
    assert held.pair.strikes == strikes


def test_a_silent_client_has_not_logged_in_again():
    held = Held()
    held.read(100, 100, 1, (600, 300), may_log_in=True)
    assert held.read(100, 100, 1, (600 + 900, 300 + 150), may_log_in=True).strikes == 1


# ---- growth in step ------------------------------------------------------------------------------


def test_a_growth_counts_when_the_bounds_leave_less_than_an_eighth_of_it_open():
    held = Held()

    def grown(total):
        return held.read(total, total, 1, (total - 10, total - 10), (total + 10, total + 10))

    grown(1_000)
    # 20 bytes may have gone before or after the page each way: 320 may be chance.
    assert grown(1_160).growths == 0
    # In steady traffic, more reads show more.
    assert grown(1_161).growths == 1
    assert held.pair.increments == {322}
    assert grown(1_162).growths == 1


def test_growths_that_agree_are_forgotten_with_the_first_contradiction():
    held = Held()
    for total in (100, 200, 300):
        held.read(total, total, 1, (total, total))
    assert held.pair.growths == 2
    held.read(400, 400, 2, (500, 500))
    assert held.pair.growths == 0
    assert not held.pair.increments


def test_bytes_both_ways_show_equality_only_where_both_are_read_at_rest():
    held = Held()
    assert not held.pair.may_be_equal
    held.read(100, 100, 1, (90, 100), (110, 100))
    assert held.pair.may_be_equal
    assert not held.pair.is_equal
    held.read(110, 100, 1, (110, 100))
    assert held.pair.is_equal
    held.read(120, 100, 2, (130, 100))
    assert not held.pair.is_equal
    assert not held.pair.may_be_equal


@pytest.mark.parametrize("there", [(101, 100), (100, 99)])
def test_one_byte_either_way_is_no_equality(there):
    held = Held()
    held.read(100, 100, 1, there)
    assert not held.pair.may_be_equal


def test_a_socket_under_tls_is_never_equal():
    held = Held(Law(0, 38))
    held.read(100, 100, 0, (100, 100))
    assert not held.pair.is_equal
    assert not held.pair.may_be_equal


# ---- what came before the first counted byte -----------------------------------------------------


def test_a_handshake_is_what_a_socket_has_beyond_its_first_counts():
    held = Held(TLS, connects=1)
    held.exchange(1)
    assert held.pair.handshake() == (Span(500, 500), Span(4_000, 4_000))


def test_what_a_node_counted_on_earlier_connections_leaves_its_handshake_open():
    """The totals of a node outlive its connections."""
    held = Held(TLS, connects=2)
    held.exchange(3)
    used = 3 * 100 + 3 * 38
    assert held.pair.handshake() == (Span(500, 500 + used), Span(4_000, 4_000 + used))
    held.pair.has_no_past = True
    assert held.pair.handshake() == (Span(500, 500), Span(4_000, 4_000))


def test_what_was_read_before_a_socket_was_opened_is_certainly_not_its_own():
    held = Held(TLS, opened=120.0)
    held.row.take(
        node("1", 1_000, 2_000, requests=10, responses=20), held.kind, 0, (50.0, 50.0)
    )  # fmt: skip
    held.at = 130.0
    held.read(1_100, 2_100, 11, (500 + 100 + 38, 4_000 + 100 + 38))
    (out, _), (incoming, _) = held.pair.handshake()
    # V is K - B, and of B so much was there before.
    assert out == (500 + 100 + 38) - (1_100 + 11 * 38) + 1_000 + 10 * 38
    assert incoming == (4_000 + 100 + 38) - (2_100 + 11 * 38) + 2_000 + 20 * 38


def test_the_first_message_is_one_record_of_any_client():
    held = Held(TLS, kind=ClientKind.UNKNOWN, connects=1)
    held.exchange(1)
    assert held.pair.handshake()[0] == Span(500, 500)
    held = Held(TLS, kind=ClientKind.UNKNOWN, connects=1)
    held.exchange(2)
    assert held.pair.handshake()[0] == Span(500 - 2 * 40 * 38, 500)


def test_a_handshake_is_narrowed_until_the_first_record_that_nobody_counted():
    held = Held(TLS, connects=1)
    start = (538 + 100, 4_038 + 100)
    held.read(100, 100, 1, (start[0] - 10, start[1]), start)
    wide = held.pair.handshake()[0]
    assert wide.low < wide.high
    held.exchange(2)
    assert held.pair.handshake()[0].high == 500
    narrowed = held.pair.handshake()
    # A key renewal later is not part of the handshake.
    held.exchange(3, torn=38 + 5)
    assert held.pair.handshake() == narrowed


def test_a_login_later_is_not_part_of_the_handshake():
    held = Held(connects=1)
    held.read(100, 100, 1, (600, 300))
    before = held.pair.handshake()
    assert before == (Span(500, 500), Span(200, 200))
    held.read(200, 200, 2, (700 + 900, 400 + 150), may_log_in=True)
    assert not held.pair.strikes
    assert held.pair.handshake() == before


@pytest.mark.parametrize(
    "given", [{"may_log_in": True}, {"carried": 2**37}], ids=["a-login", "a-key-renewal"]
)
def test_what_may_have_come_before_anybody_looked_may_weigh_anything(given):
    held = Held(TLS, connects=1)
    size = 100 + given.pop("carried", 0)
    held.exchange(1, size=size, **given)
    out, incoming = held.pair.handshake()
    assert out.low < -(2**40)
    assert incoming.low < -(2**40)
    assert (out.high, incoming.high) == HANDSHAKE


def test_a_pair_that_was_never_read_may_have_any_handshake():
    out, incoming = Held(TLS).pair.handshake()
    assert out == incoming
    assert out.low < -(2**40)
    assert out.high > 2**40


@pytest.mark.parametrize(
    ("handshake", "is_open", "may_begin"),
    [
        ((0, 0), True, True),
        ((1, 0), True, False),
        ((0, 1), True, False),
        ((1, 1), False, True),
        ((LARGEST_HANDSHAKE, 0), False, True),
        ((LARGEST_HANDSHAKE + 1, 0), False, False),
        ((-1, 0), False, False),
        ((0, -1), False, False),
    ],
)
def test_a_socket_begins_with_no_more_than_a_handshake_and_an_open_one_with_nothing(
    handshake, is_open, may_begin
):
    held = Held(connects=1)
    held.read(100, 100, 1, (100 + handshake[0], 100 + handshake[1]))
    assert held.pair.may_begin(is_open=is_open) is may_begin


@pytest.mark.parametrize(("there", "may_begin"), [((0, 0), True), ((0, 1), False)])
def test_a_node_that_counted_nothing_has_a_socket_that_did_no_more_than_its_handshake(
    there, may_begin
):
    held = Held()
    held.socket.note(100.0, look(100.0, *there))
    assert held.pair.may_begin(is_open=True) is may_begin
    assert held.pair.may_begin(is_open=False)


def test_a_socket_with_more_than_a_handshake_is_no_node_that_counted_nothing():
    held = Held()
    held.socket.note(100.0, look(100.0, LARGEST_HANDSHAKE + 1, 0))
    assert not held.pair.may_begin(is_open=False)


# ---- rest ----------------------------------------------------------------------------------------


def test_a_pair_at_rest_is_settled_after_two_reads():
    held = Held()
    assert not held.read(100, 100, 1, (100, 100)).is_settled
    assert held.read(100, 100, 1, (100, 100)).is_settled
    assert not held.read(101, 100, 2, (101, 100), (101, 101)).is_settled


def test_a_pair_under_suspicion_is_never_settled():
    held = Held()
    held.read(100, 100, 1, (100, 100))
    held.read(200, 100, 2, (300, 100))
    assert not held.read(200, 100, 2, (200, 100)).is_settled


def test_the_distance_of_two_spans_is_the_least_difference():
    assert Span(0, 5).distance(Span(8, 9)) == Span(8, 9).distance(Span(0, 5)) == 3
    assert Span(0, 5).distance(Span(5, 9)) == 0
    assert Span(0, 9).distance(Span(2, 3)) == 0
