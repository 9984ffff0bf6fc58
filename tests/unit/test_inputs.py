"""The clients' metrics on their way in: what the poll cannot take is lost, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import SourceDecodeError
from exporter.inputs import MOST_WAITING, Inputs
from exporter.settings import SourceSettings

NOW = 1_000.0
DOCUMENT = (
    Path(__file__).parents[1] / "golden" / "metrics" / "librdkafka-orders.json"
).read_bytes()


@pytest.fixture
def inputs():
    made = Inputs(SourceSettings(), (), lambda: None, lambda: NOW, lambda: NOW)
    yield made
    made.stop()


def status(inputs):
    [status] = inputs.statuses(NOW)
    return status


def test_nothing_is_dropped_while_the_poll_takes_what_comes(inputs):
    for _ in range(3):
        for _ in range(MOST_WAITING):
            inputs.accept_statistics(DOCUMENT)
        assert len(inputs.take()) == MOST_WAITING
    assert (status(inputs).reads, status(inputs).dropped) == (3 * MOST_WAITING, 0)


def test_what_the_poll_cannot_take_is_counted_and_the_rest_comes_in(inputs):
    for _ in range(MOST_WAITING + 7):
        inputs.accept_statistics(DOCUMENT)
    assert (status(inputs).up, status(inputs).dropped) == (True, 7)
    assert len(inputs.take()) == MOST_WAITING
    inputs.accept_statistics(DOCUMENT)
    assert len(inputs.take()) == 1
    assert status(inputs).dropped == 7


def test_what_is_no_statistics_is_an_error_and_not_dropped(inputs):
    with pytest.raises(SourceDecodeError):
        inputs.accept_statistics(b"{")
    assert (status(inputs).errors, status(inputs).dropped) == (1, 0)
