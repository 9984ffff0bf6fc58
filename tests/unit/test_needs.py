"""What clients need: as the open connections show, and for a minute what a broker took away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from exporter.connections.needs import MISSED_SECONDS, Need, Needs
from exporter.model import ClientKey, ClientKind, ClosedBy
from exporter.snapshot import ClientBroker, Expectation

NOW = 1_000.0


def need(client="orders", broker="10.2.0.1:9092", count=1):
    view = SimpleNamespace(
        key=ClientBroker(client, "producer", "java", "1", broker),
        attribution=SimpleNamespace(client=ClientKey("page", ClientKind.PRODUCER, client)),
    )
    return Need(view, Expectation(count, (("java.data", "why"),) * count))


def told(needs, *present, at=NOW):
    """How many connections are needed, by client and broker."""
    return {
        (each.view.key.client_id, each.view.key.broker): each.expectation.count
        for each in needs.update(present, at)
    }


ORDERS = ("orders", "10.2.0.1:9092")


@pytest.mark.parametrize(
    ("by", "kept"),
    [
        (ClosedBy.BROKER, True),
        (ClosedBy.UNKNOWN, True),
        (ClosedBy.CLIENT, False),
        (ClosedBy.ABORT, True),
        (ClosedBy.REFUSED, False),
    ],
)
def test_what_a_broker_ended_is_missed_for_a_minute_and_what_a_client_ended_is_not(by, kept):
    needs = Needs()
    lost = need()
    assert told(needs, lost) == {ORDERS: 1}
    needs.lose(lost.view, by, NOW + 1)
    assert told(needs, at=NOW + 2) == ({ORDERS: 1} if kept else {})
    assert not needs.is_due(NOW + MISSED_SECONDS)
    assert needs.is_due(NOW + 1 + MISSED_SECONDS) is kept
    assert told(needs, at=NOW + 1 + MISSED_SECONDS) == {}
    assert not needs.is_due(NOW + 2 + MISSED_SECONDS)


def test_who_comes_back_is_counted_once_and_missed_no_more():
    needs = Needs()
    both = need(count=2)
    told(needs, both)
    needs.lose(both.view, ClosedBy.BROKER, NOW + 1)
    # Its data connection is back, its coordinator's not yet.
    assert told(needs, need(count=1), at=NOW + 2) == {ORDERS: 2}
    assert told(needs, both, at=NOW + 3) == {ORDERS: 2}
    assert told(needs, need(count=1), at=NOW + 4) == {ORDERS: 1}


def test_a_client_that_closes_what_is_left_needs_nothing_more():
    needs = Needs()
    lost = need()
    told(needs, lost)
    needs.lose(lost.view, ClosedBy.BROKER, NOW + 1)
    needs.lose(lost.view, ClosedBy.CLIENT, NOW + 2)
    assert told(needs, at=NOW + 3) == {}


def test_the_others_are_as_the_connections_show():
    needs = Needs()
    lost, steady = need(), need("billing", "10.2.0.2:9092", 2)
    told(needs, lost, steady)
    needs.lose(lost.view, ClosedBy.BROKER, NOW + 1)
    assert told(needs, steady, at=NOW + 2) == {ORDERS: 1, ("billing", "10.2.0.2:9092"): 2}
    assert told(needs, at=NOW + 3) == {ORDERS: 1}


def test_what_was_never_expected_is_not_missed():
    needs = Needs()
    needs.lose(need().view, ClosedBy.BROKER, NOW)
    assert told(needs) == {}
    assert not needs.is_due(NOW + MISSED_SECONDS)
