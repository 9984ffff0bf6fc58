"""Where a report ends: at the last whole hour, whoever is ahead of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_rollups.report.period import Seen, choose

BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOUR_MS = 3_600_000


def hour(at, agents=100, minutes=60, at_end=None):
    """An hour of a fleet whose agents were all heard for so many minutes."""
    seen = agents * minutes
    heard_last = (agents if minutes == 60 else 0) if at_end is None else at_end
    begin = BEGIN + timedelta(hours=at)
    return Seen(begin, agents, heard_last, seen * 60_000, seen, seen)


def end_of(hours, **changes):
    period = choose(hours, 7, None)._replace(**changes)
    return (period.end - BEGIN) / timedelta(hours=1), period.whole, period.hours_of_day


@pytest.mark.parametrize(
    ("hours", "end", "hours_of_day"),
    [
        pytest.param([hour(0), hour(1)], 2, 2, id="the tables end with a whole hour"),
        pytest.param([hour(0), hour(1, minutes=10)], 1, 1 + 1 / 6, id="ten minutes past"),
        pytest.param([hour(0), hour(1, minutes=58)], 1, 1 + 58 / 60, id="two minutes to"),
        pytest.param([hour(0), hour(1), hour(2, agents=1, minutes=1)], 2, 2 + 1 / 6000, id="a new hour's first journal"),
        pytest.param([hour(0), hour(1, minutes=10, at_end=1), hour(2, agents=1)], 1, 1 + 1 / 6 + 1 / 100, id="one agent an hour ahead"),
        pytest.param([hour(0), hour(1, at_end=40), hour(2, agents=60, minutes=5)], 2, 2 + 0.05, id="the last minute's journals were lost"),
        pytest.param([hour(0), hour(1, agents=200, minutes=30, at_end=100)], 2, 2, id="everything was deployed anew"),
        pytest.param([hour(0), hour(2, minutes=30)], 1, 1.5, id="a gap, and then a part"),
        pytest.param([hour(0, agents=2), hour(1, agents=2, minutes=10, at_end=0), hour(2, agents=1, minutes=10)], 1, 1 + 1 / 6 + 1 / 12, id="one of two is ahead"),
    ],
)  # fmt: skip
def test_the_last_whole_hour_is_the_last_one_that_most_agents_have_told_of(
    hours, end, hours_of_day
):
    assert end_of(hours) == (end, True, pytest.approx(hours_of_day))


def test_before_the_first_whole_hour_the_part_is_told_for_what_it_is():
    assert end_of([hour(0, minutes=10)]) == (1, False, pytest.approx(1 / 6))
    assert choose([], 7, None) is None


def test_days_are_counted_back_from_the_end_and_until_looks_back():
    hours = [hour(number) for number in range(24 * 20)]
    period = choose(hours, 14, None)
    assert (period.begin, period.end) == (BEGIN + timedelta(days=6), BEGIN + timedelta(days=20))
    assert len(period.hours) == 14 * 24
    midnight = BEGIN.replace(hour=0) + timedelta(days=2)
    back = choose(hours, 1, midnight)
    assert (back.begin, back.end) == (midnight - timedelta(days=1), midnight)
    assert back.hours_of_day == 24
    assert choose(hours, 7, BEGIN) is None
