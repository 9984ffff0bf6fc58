"""A share of one processor, in a time that the test makes."""

from __future__ import annotations

import pytest

from exporter.processor_share import ProcessorShare


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def worked(share, clock, piece, seconds):
    """Work in pieces whenever it is allowed to; return how much that was."""
    end, done = clock.now + seconds, 0.0
    while clock.now < end:
        clock.now += share.rest() + piece
        share.spend(piece)
        done += piece
    return done


@pytest.mark.parametrize("piece", [0.0001, 0.01, 1.0])
def test_work_of_any_size_stays_within_the_share(piece):
    clock = Clock()
    share = ProcessorShare(1 / 3, clock=clock)
    assert worked(share, clock, piece, 30.0) == pytest.approx(10.0, abs=2 * piece + 0.001)


def test_unused_time_adds_up_to_a_burst_and_no_further():
    clock = Clock()
    share = ProcessorShare(0.5, burst_seconds=0.5, clock=clock)
    clock.now += 1000.0
    share.spend(0.4)
    assert share.rest() == 0.0
    share.spend(0.4)
    assert share.rest() == pytest.approx(0.2)
