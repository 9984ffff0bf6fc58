"""Largest matchings, and what else they could have been."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from exporter.core.join_matching import matched

A, B, C = "abc"
ROWS = list("abcde")


def test_a_forced_pair_is_certain():
    picks = matched({1: [A, B], 2: [A]})
    assert {cookie: pick.row for cookie, pick in picks.items()} == {1: B, 2: A}
    assert all(pick.is_certain for pick in picks.values())


def test_twins_name_each_other():
    picks = matched({1: [A, B], 2: [A, B]})
    assert picks[1].equals == (B,)
    assert picks[2].equals == (A,)


def test_a_row_left_over_is_an_alternative():
    assert matched({1: [A, B]})[1].equals == (B,)


def test_a_row_that_two_sockets_want_is_contested():
    picks = matched({1: [A], 2: [A]})
    assert list(picks) == [1]
    assert picks[1].contested


def test_a_contest_does_not_reach_others():
    picks = matched({1: [A], 2: [A], 3: [B]})
    assert picks[3].is_certain


def _best(edges):
    """All largest matchings, by trying each."""
    found = [{}]
    for cookie, rows in edges.items():
        found += [
            {**known, cookie: row} for known in found for row in rows if row not in known.values()
        ]
    size = max(len(each) for each in found)
    return [each for each in found if len(each) == size]


edges = st.dictionaries(
    st.integers(1, 6), st.lists(st.sampled_from(ROWS), unique=True, min_size=1), max_size=5
)


@given(edges)
def test_equals_are_exactly_what_other_largest_matchings_give(edges):
    best = _best(edges)
    picks = matched(edges)
    assert len(picks) == len(best[0])
    for cookie, pick in picks.items():
        given = {each[cookie] for each in best if cookie in each}
        assert {pick.row, *pick.equals} == given
        assert pick.contested == any(cookie not in each for each in best)


@given(edges, st.randoms(use_true_random=False))
def test_what_is_certain_does_not_depend_on_the_order(edges, chance):
    shuffled = list(edges.items())
    chance.shuffle(shuffled)
    turned = matched({cookie: rows[::-1] for cookie, rows in shuffled})
    certain = {cookie: pick for cookie, pick in matched(edges).items() if pick.is_certain}
    assert certain == {cookie: pick for cookie, pick in turned.items() if pick.is_certain}


def test_every_order_of_three_is_matched_whole():
    for order in permutations([A, B, C]):
        assert len(matched({1: order[:1], 2: order[:2], 3: order})) == 3
