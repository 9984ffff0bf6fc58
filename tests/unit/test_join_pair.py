"""Each law of one pair, with the numbers of real connections."""

from __future__ import annotations

import pytest

from exporter.core.join_laws import NOTHING, PLAIN, Bracket, Counts, Law, Shape, bracket_of
from exporter.core.join_pair import PairHistory

BOTH = Shape(exact_out=True, exact_in=True)
PRODUCER = Shape(exact_out=False, exact_in=True)
CONSUMER = Shape(exact_out=True, exact_in=False)
TLS13 = Law(38, 38)
TLS12_JAVA_21 = Law(29, 29, 2)


def quiet(out, incoming):
    return Bracket(out, out, incoming, incoming)


def pair_of(law, shape, *reads, bases=(NOTHING,)):
    pair = PairHistory(law, shape, bases)
    for bracket, counts in reads:
        pair.observe(bracket, counts)
    return pair


def test_plain_totals_are_equal():
    pair = pair_of(PLAIN, BOTH, (quiet(129, 1028), Counts(129, 1028, 3, 3)))
    assert pair.is_exact


def test_plain_totals_after_a_reconnect_are_equal_less_what_was_before():
    base = Counts(500, 4000, 9, 9)
    pair = pair_of(PLAIN, BOTH, (quiet(129, 1028), Counts(629, 5028, 12, 12)), bases=(base,))
    assert pair.is_exact


def test_a_node_that_counted_nothing_since_is_not_the_new_socket():
    base = Counts(500, 4000, 9, 9)
    pair = pair_of(PLAIN, BOTH, (quiet(0, 0), base), bases=(base,))
    assert not pair.is_exact


@pytest.mark.parametrize(
    ("law", "out", "incoming", "counts", "handshake"),
    [
        pytest.param(TLS13, 779, 5354, Counts(129, 1028, 3, 3), (536, 4212), id="full"),
        pytest.param(TLS13, 2702, 3309, Counts(86, 985, 2, 2), (2540, 2248), id="resumed"),
        pytest.param(TLS12_JAVA_21, 460, 4603, Counts(26, 468, 1, 1), (376, 4106), id="java-2.1"),
        pytest.param(
            Law(22, 38), 5512, 7332, Counts(3380, 2212, 24, 24), (1604, 4208), id="librdkafka"
        ),
    ],
)
def test_what_remains_under_tls_is_the_handshake(law, out, incoming, counts, handshake):
    pair = pair_of(law, BOTH, (quiet(out, incoming), counts))
    assert pair.offsets() == [handshake]


def test_equal_growth_counts():
    pair = pair_of(
        TLS13,
        BOTH,
        (quiet(1000, 5000), Counts(100, 500, 2, 2)),
        (quiet(1147, 5052), Counts(209, 514, 3, 3)),
        (quiet(1294, 5104), Counts(318, 528, 4, 4)),
    )
    assert (pair.growths, pair.is_settled) == (2, True)


@pytest.mark.parametrize("records", [1, 3, 5, 41])
def test_a_produce_request_may_take_more_records(records):
    pair = pair_of(
        TLS13,
        PRODUCER,
        (quiet(1000, 5000), Counts(100, 500, 2, 2)),
        (quiet(1100 + 38 * records, 5082), Counts(200, 544, 3, 3)),
    )
    assert pair.growths == 1


@pytest.mark.parametrize("extra", [1, 37, 39])
def test_bytes_that_are_no_whole_records_break_the_law(extra):
    pair = pair_of(
        TLS13,
        PRODUCER,
        (quiet(1000, 5000), Counts(100, 500, 2, 2)),
        (quiet(1138 + extra + 100, 5082), Counts(200, 544, 3, 3)),
    )
    assert (pair.growths, pair.is_settled) == (0, False)


def test_a_fetch_response_with_data_may_take_more_records():
    pair = pair_of(
        TLS13,
        CONSUMER,
        (quiet(1000, 5000), Counts(100, 500, 2, 2)),
        (quiet(1097, 5000 + 111 + 3 * 38), Counts(159, 611, 3, 3)),
    )
    assert pair.growths == 1


def test_one_strike_is_chance_and_two_are_none():
    pair = pair_of(PLAIN, BOTH, (quiet(100, 100), Counts(100, 100, 1, 1)))
    assert pair.observe(quiet(140, 120), Counts(100, 100, 1, 1))
    assert not pair.is_exact
    assert not pair.observe(quiet(180, 140), Counts(100, 100, 1, 1))


def test_growth_in_step_forgives_a_strike():
    pair = pair_of(PLAIN, BOTH, (quiet(100, 100), Counts(100, 100, 1, 1)))
    assert pair.observe(quiet(143, 143), Counts(100, 100, 1, 1))
    for step in (1, 2):
        at = 143 + 10 * step
        assert pair.observe(quiet(at, at), Counts(100 + 10 * step, 100 + 10 * step, 2, 2))
    assert pair.observe(quiet(200, 200), Counts(120, 120, 3, 3))


@pytest.mark.parametrize("times", [1, 2])
def test_a_login_with_plain_in_between_is_no_contradiction(times):
    name = len("orders-3.9.2")
    out, incoming = times * (57 + 2 * name), times * 58
    pair = pair_of(
        PLAIN,
        BOTH,
        (quiet(1000, 2000), Counts(893, 1478, 9, 9)),
        (quiet(1100 + out, 2040 + incoming), Counts(993, 1518, 11, 11)),
    )
    assert pair.is_settled
    assert pair.offsets() == [(107, 522)]


def test_an_idle_node_does_not_log_in():
    counts = Counts(893, 1478, 9, 9)
    pair = pair_of(PLAIN, BOTH, (quiet(1000, 2000), counts), (quiet(1081, 2058), counts))
    assert not pair.is_settled


def test_the_end_that_the_client_has_not_read_is_left_out():
    counts = Counts(129, 1028, 3, 3)
    pair = pair_of(TLS13, BOTH, (quiet(779, 5354), counts))
    # The kernel received 41 bytes more, and they are in Recv-Q.
    assert pair.observe(quiet(779, 5354 + 41 - 41), counts)
    assert pair.is_settled


def test_a_busy_socket_holds_the_totals_between_its_bounds():
    pair = PairHistory(PLAIN, BOTH)
    for read in range(1, 4):
        at = 1000 * read
        assert pair.observe(Bracket(at, at + 90, at, at + 90), Counts(at + 50, at + 30, read, read))
    assert pair.may_have(0, 0)
    assert not pair.may_have(100, 0)


def test_totals_that_decrease_never_agree():
    pair = pair_of(PLAIN, BOTH, (quiet(100, 100), Counts(100, 100, 1, 1)))
    pair.observe(quiet(100, 100), Counts(50, 50, 1, 1))
    assert not pair.is_settled


def test_a_socket_without_byte_counts_has_no_bracket():
    assert bracket_of(None, None) is None
