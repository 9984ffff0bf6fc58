"""Pushed readings take turns: no sender holds up a poll, or another sender."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from exporter.clients.turns import Turns


def reading(number, sender=1, source="http"):
    return SimpleNamespace(source=source, sender_pid=sender, number=number)


@pytest.fixture
def poll():
    """Join readings that cost so much each; return those that were joined, by sender and number."""
    now = SimpleNamespace(wall=0.0, cpu=0.0)
    turns = Turns(1.0, clock=lambda: now.wall, cpu_clock=lambda: now.cpu)

    def join(*readings, seconds, after=1.0):
        joined = []

        def join_one(each):
            cost = seconds[each.sender_pid] if isinstance(seconds, dict) else seconds
            now.cpu += cost
            now.wall += cost
            joined.append((each.sender_pid, each.number))

        begun = now.wall
        left = turns.join(readings, join_one)
        now.wall = max(now.wall, begun + after)
        assert sorted(joined + [(each.sender_pid, each.number) for each in left]) == sorted(
            (each.sender_pid, each.number) for each in readings
        )
        return joined

    return join


def test_what_is_cheap_is_joined_whole_at_every_poll(poll):
    for _ in range(5):
        assert len(poll(*map(reading, range(50)), seconds=0.005)) == 50


def test_senders_take_turns(poll):
    readings = [*(reading(n, sender=1) for n in range(100)), reading(0, sender=2)]
    joined = poll(*readings, seconds=0.1)
    assert joined[:2] == [(1, 0), (2, 0)]
    assert len(joined) < 6


def test_one_whose_joins_are_dear_waits_until_that_is_paid(poll):
    joined = sum(len(poll(reading(n), seconds=0.5)) for n in range(12))
    assert 5 <= joined <= 8  # a quarter of twelve seconds, and what may add up


def test_a_process_has_one_share_whichever_way_it_sends(poll):
    joined = 0
    for number in range(12):
        ways = [reading(number, source=each) for each in ("http", "socket")]
        joined += len(poll(*ways, seconds=0.5))
    assert 5 <= joined <= 8


def test_it_does_not_get_around_that_by_silence(poll):
    turns = [len(poll(*([reading(n)] if n % 2 else []), seconds=1.0)) for n in range(12)]
    assert sum(turns) <= 5


def test_others_are_joined_meanwhile(poll):
    for number in range(6):
        joined = poll(
            reading(number, sender=1), reading(number, sender=2), seconds={1: 2.0, 2: 0.001}
        )
        assert (2, number) in joined
