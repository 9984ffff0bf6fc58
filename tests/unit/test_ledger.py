"""The ledger: counters that only grow, whatever clients come, go and call themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.model import ClosedBy, ConnectionClass
from exporter.snapshot import LIFETIME_BUCKETS, ClientBroker
from exporter.totals.ledger import KEEP_SECONDS, OTHER, Ledger

DATA = ConnectionClass.DATA
NOBODY = ClientBroker(OTHER, OTHER, OTHER, OTHER, OTHER)


def key(client="p", broker="10.2.0.1:9092"):
    return ClientBroker(client, "producer", "java", "1", broker)


def hold(ledger, whose, seconds, count=1):
    ledger.integrate({whose: {DATA: count}}, {whose: count}, seconds)


def test_seconds_add_up_by_client_and_class():
    ledger = Ledger(10)
    whose = ledger.key(key(), 0.0)
    hold(ledger, whose, 2.0, count=3)
    hold(ledger, whose, 1.5)
    totals = ledger.totals()
    assert totals.connection_seconds == {(whose, DATA): 7.5}
    assert totals.useful_seconds == {whose: 7.5}


def test_a_refused_attempt_is_a_failure_and_no_life():
    ledger = Ledger(10)
    ledger.closed(key(), ClosedBy.REFUSED, 0.0)
    ledger.closed(key(), ClosedBy.CLIENT, 540.0)
    totals = ledger.totals()
    assert totals.connect_failures == {key(): 1}
    assert sum(totals.lifetimes[key()].counts) == 1
    assert totals.lifetimes[key()].sum == 540.0
    assert totals.closed == {(key(), ClosedBy.REFUSED): 1, (key(), ClosedBy.CLIENT): 1}


def test_a_life_falls_into_the_bucket_that_it_reaches():
    ledger = Ledger(10)
    for life in (0.05, 540.0, 540.1, 1e6):
        ledger.closed(key(), ClosedBy.CLIENT, life)
    counts = ledger.totals().lifetimes[key()].counts
    assert len(counts) == len(LIFETIME_BUCKETS) + 1
    assert counts[0] == 1
    assert counts[LIFETIME_BUCKETS.index(540.0)] == 1
    assert counts[LIFETIME_BUCKETS.index(600.0)] == 1
    assert counts[-1] == 1


def test_more_clients_than_the_limit_are_other():
    ledger = Ledger(1)
    assert ledger.key(key("a"), 0.0) == key("a")
    assert ledger.key(key("b"), 0.0).client_id == OTHER
    # Another broker of a client that has its series is no other client.
    assert ledger.key(key("a", "10.2.0.2:9092"), 0.0).client_id == "a"
    assert ledger.folded_clients == 1


def test_a_client_beyond_the_limit_gets_a_name_when_there_is_room_and_then_counts_no_more():
    ledger = Ledger(1)
    ledger.key(key("a"), 0.0)
    ledger.key(key("b"), 0.0)
    ledger.key(key("c"), KEEP_SECONDS)
    ledger.fold_old(KEEP_SECONDS + 1)
    assert ledger.folded_clients == 1
    assert ledger.key(key("c"), KEEP_SECONDS + 2) == key("c")
    ledger.fold_old(KEEP_SECONDS + 2)
    assert ledger.folded_clients == 0


def test_only_other_jumps_when_a_client_is_folded():
    """decisions/0006: so a rate without `other` is right, and the sum over all does not move."""
    ledger = Ledger(10)
    gone, there = ledger.key(key("gone"), 0.0), ledger.key(key("there"), 0.0)
    for whose, seconds in ((gone, 500.0), (there, 30.0)):
        hold(ledger, whose, seconds)
    before = ledger.totals().connection_seconds
    ledger.fold_old(KEEP_SECONDS + 1)
    after = ledger.totals().connection_seconds
    assert sum(after.values()) == sum(before.values())
    assert after == {(there, DATA): 30.0, (NOBODY, DATA): 500.0}


def test_a_client_that_is_gone_for_long_is_folded_and_the_sums_stay():
    ledger = Ledger(10)
    whose = ledger.key(key(), 0.0)
    hold(ledger, whose, 5.0)
    ledger.opened(whose)
    ledger.moved(whose, 10, 20, 1)
    ledger.closed(whose, ClosedBy.CLIENT, 5.0)
    ledger.integrate({}, {}, 1.0)
    ledger.fold_old(KEEP_SECONDS - 1)
    assert ledger.totals().opened == {whose: 1}
    ledger.fold_old(KEEP_SECONDS + 1)
    totals = ledger.totals()
    other = whose._replace(client_id=OTHER, client_kind=OTHER, process=OTHER)
    assert totals.opened == {other: 1}
    assert totals.connection_seconds == {(NOBODY, DATA): 5.0}
    assert totals.closed == {(other, ClosedBy.CLIENT): 1}
    assert (totals.outgoing_bytes, totals.incoming_bytes) == ({other: 10}, {other: 20})
    assert totals.lifetimes[NOBODY].sum == 5.0
    assert ledger.folded_clients == 0


def test_a_client_that_left_one_broker_keeps_its_own_sums_and_the_broker_keeps_its():
    """A sum that went back would look like a restart, and a rate would count it all again."""
    ledger = Ledger(10)
    left = ledger.key(key(broker="10.2.0.1:9092"), 0.0)
    for whose in (left, ledger.key(key(broker="10.2.0.2:9092"), 0.0)):
        hold(ledger, whose, 5.0)
        ledger.closed(whose, ClosedBy.BROKER, 5.0)
        ledger.moved(whose, 10, 20, 1)
    stays = key(broker="10.2.0.2:9092")
    ledger.integrate({stays: {DATA: 1}}, {}, 0.0)
    ledger.fold_old(KEEP_SECONDS + 1)
    totals = ledger.totals()
    assert {pair[:3] for pair, _ in totals.connection_seconds} == {left[:3]}
    assert sum(totals.connection_seconds.values()) == 10.0
    assert {pair[:3] for pair in totals.lifetimes} == {left[:3]}
    gone = left._replace(client_id=OTHER, client_kind=OTHER, process=OTHER)
    assert totals.outgoing_bytes == {gone: 10, stays: 10}
    assert totals.closed == {(gone, ClosedBy.BROKER): 1, (stays, ClosedBy.BROKER): 1}


def test_a_client_whose_connections_are_idle_for_hours_is_not_gone():
    """Nothing happens to a zombie, so nobody looks at it; its seconds go on."""
    ledger = Ledger(10)
    whose = ledger.key(key(), 0.0)
    for hour in range(1, 6):
        hold(ledger, whose, 3600.0)
        ledger.fold_old(hour * 3600.0)
    assert ledger.totals().connection_seconds == {(whose, DATA): 5 * 3600.0}


def test_totals_are_a_copy():
    ledger = Ledger(10)
    before = ledger.totals()
    ledger.opened(key())
    assert before.opened == {}


moves = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.floats(0, 2000)), max_size=40
)


@given(moves)
def test_sums_never_shrink(steps):
    """By broker, over all clients: folding moves figures, it loses none."""
    ledger = Ledger(3)
    now = 0.0
    before = 0.0
    for client, count, pause in steps:
        now += pause
        whose = ledger.key(key(client), now)
        hold(ledger, whose, pause, count)
        ledger.opened(whose)
        ledger.fold_old(now)
        totals = ledger.totals()
        held = sum(totals.connection_seconds.values()) + sum(totals.opened.values())
        assert held >= before * (1 - 1e-9)
        before = held
