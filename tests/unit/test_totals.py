"""The store of series and what metrics show of it: only growth, whatever clients come and go."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.connections.activity import Activity
from exporter.connections.endings import ClosedConnection
from exporter.connections.needs import Need
from exporter.model import Cause, ClosedBy, ConnectionClass, Endpoint, Library, Role
from exporter.snapshot import LIFETIME_BUCKETS, ClientBroker, Expectation
from exporter.totals.journal_series import KEEP_MICROSECONDS, JournalTotals
from exporter.totals.metric_totals import KEEP_SECONDS, MetricTotals
from exporter.totals.series import OTHER, microseconds
from exporter.totals.store import Store

DATA, ZOMBIE = ConnectionClass.DATA, ConnectionClass.ZOMBIE
ONE, TWO = "10.2.0.1:9092", "10.2.0.2:9092"
NOBODY = ClientBroker(OTHER, OTHER, OTHER, OTHER, OTHER)


def pair(client="p", broker=ONE):
    return ClientBroker(client, "producer", "java", "1", broker)


def others(broker=ONE):
    return ClientBroker(OTHER, OTHER, OTHER, "1", broker)


class Bench:
    """A store with both of its projections, on a clock of the test's own."""

    def __init__(self, most_clients=10, most_series=100):
        self.journal = JournalTotals(most_series)
        self.store = Store(self.journal)
        self.metrics = MetricTotals(most_clients)
        self.now = 0.0
        self.latest = {}

    def hold(self, cookie, client="p", broker=ONE, connection_class=DATA, version="4.0"):
        verdict = SimpleNamespace(
            connection_class=connection_class,
            role=Role.DATA,
            cause=Cause.IDLE_CLOSING_FAILED if connection_class is ZOMBIE else None,
            useful=connection_class is DATA,
        )
        view = SimpleNamespace(
            cookie=cookie,
            key=self.metrics.key(pair(client, broker), self.now),
            verdict=verdict,
            library=Library.JAVA,
            library_version=version,
            reading=SimpleNamespace(info=object()),
        )
        self.store.put(view, self.now)
        return view

    def close(self, cookie, by=ClosedBy.CLIENT, life=5.0):
        self.store.closed(cookie, ending(self.now, by, life), self.now)

    def wait(self, seconds):
        self.now += seconds
        self.metrics.fold_old(self.store, self.now)

    def cut(self, *, everything=False):
        """Write the journal's records; return how far each series has come."""
        self.journal.turn(microseconds(self.now), 0)
        for record in self.journal.records(microseconds(self.now), (), everything=everything):
            self.latest[record["series"]] = record
        return self.latest

    @property
    def totals(self):
        return self.metrics.totals(self.store, self.now)


def ending(at, by=ClosedBy.CLIENT, life=5.0, out=0, incoming=0):
    return ClosedConnection(
        at=at,
        local=Endpoint("10.0.0.1", 1),
        remote=Endpoint("10.2.0.1", 9092),
        closed_by=by,
        lifetime_seconds=life,
        tracked=None,
        info=None,
        rest=Activity(at, out, incoming, 0, 0),
    )


@pytest.fixture
def bench():
    return Bench()


def test_seconds_add_up_by_client_and_class(bench):
    for cookie in (1, 2, 3):
        bench.hold(cookie)
    bench.now = 2.0
    bench.close(2)
    bench.close(3)
    bench.hold(1, connection_class=ZOMBIE)
    bench.now = 3.5
    assert bench.totals.connection_seconds == {(pair(), DATA): 6.0, (pair(), ZOMBIE): 1.5}
    assert bench.totals.useful_seconds == {pair(): 6.0}


def test_a_refused_attempt_is_a_failure_and_no_life(bench):
    for cookie, by in ((1, ClosedBy.REFUSED), (2, ClosedBy.CLIENT)):
        bench.hold(cookie)
        bench.close(cookie, by, life=540.0)
    totals = bench.totals
    assert totals.connect_failures == {pair(): 1}
    assert sum(totals.lifetimes[pair()].counts) == 1
    assert totals.lifetimes[pair()].sum == 540.0
    assert totals.closed == {(pair(), ClosedBy.REFUSED): 1, (pair(), ClosedBy.CLIENT): 1}


def test_a_life_falls_into_the_bucket_that_it_reaches(bench):
    for life in (0.05, 540.0, 540.1, 1e6):
        bench.hold(1)
        bench.close(1, life=life)
    counts = bench.totals.lifetimes[pair()].counts
    assert len(counts) == len(LIFETIME_BUCKETS) + 1
    assert counts[0] == 1
    assert counts[LIFETIME_BUCKETS.index(540.0)] == 1
    assert counts[LIFETIME_BUCKETS.index(600.0)] == 1
    assert counts[-1] == 1


def test_what_is_expected_adds_up_in_the_journal_for_as_long_as_it_is(bench):
    view = bench.hold(1)
    both = Expectation(2, (("java.data", ""), ("java.coordinator", "")))
    bench.store.expect([Need(view, both)], 0.0)
    bench.now = 3.0
    bench.store.expect([Need(view, Expectation(1, (("java.data", ""),)))], 3.0)
    bench.now = 10.0
    told = {each["class"]: each for each in bench.cut().values()}
    assert told["data"]["expected_ms"] == 10_000
    assert told["coordinator"]["expected_ms"] == 3_000
    assert (told["data"]["expected"], told["coordinator"]["expected"]) == (1, 0)


def test_more_clients_than_the_limit_are_other():
    metrics = MetricTotals(1)
    assert metrics.key(pair("a"), 0.0) == pair("a")
    assert metrics.key(pair("b"), 0.0).client_id == OTHER
    # Another broker of a client that has its series is no other client.
    assert metrics.key(pair("a", TWO), 0.0).client_id == "a"
    assert metrics.folded_clients == 1


def test_a_client_beyond_the_limit_gets_a_name_when_there_is_room_and_then_counts_no_more():
    bench = Bench(most_clients=1)
    bench.hold(1, "a")
    bench.close(1)
    bench.hold(2, "b")
    bench.now = KEEP_SECONDS
    bench.hold(3, "c")
    bench.wait(1)
    assert bench.metrics.folded_clients == 1
    assert bench.metrics.key(pair("c"), bench.now) == pair("c")
    bench.wait(1)
    assert bench.metrics.folded_clients == 0


def test_only_other_jumps_when_a_client_is_folded(bench):
    """decisions/0006: so a rate without `other` is right, and the sum over all does not move."""
    bench.hold(1, "gone")
    bench.hold(2, "there")
    bench.wait(500.0)
    bench.close(1)
    bench.wait(KEEP_SECONDS)
    before = bench.totals.connection_seconds
    assert before == {(pair("gone"), DATA): 500.0, (pair("there"), DATA): 1400.0}
    bench.metrics.fold_old(bench.store, bench.now + 1)
    after = bench.totals.connection_seconds
    assert after == {(NOBODY, DATA): 500.0, (pair("there"), DATA): 1400.0}
    # What somebody holds is not changed by it.
    assert before == {(pair("gone"), DATA): 500.0, (pair("there"), DATA): 1400.0}


def test_a_client_that_is_gone_for_long_is_folded_and_the_sums_stay(bench):
    bench.hold(1)
    bench.store.opened(1, 0.0)
    bench.store.moved(1, 10, 20, 1)
    bench.wait(5.0)
    bench.close(1)
    bench.wait(KEEP_SECONDS)
    assert bench.totals.opened == {pair(): 1}
    bench.wait(1)
    totals = bench.totals
    assert totals.opened == {others(): 1}
    assert totals.connection_seconds == {(NOBODY, DATA): 5.0}
    assert totals.closed == {(others(), ClosedBy.CLIENT): 1}
    assert (totals.outgoing_bytes, totals.incoming_bytes) == ({others(): 10}, {others(): 20})
    assert totals.lifetimes[NOBODY].sum == 5.0
    assert bench.metrics.folded_clients == 0


def test_a_client_that_left_one_broker_keeps_its_own_sums_and_the_broker_keeps_its(bench):
    """A sum that went back would look like a restart, and a rate would count it all again."""
    for cookie, broker in ((1, ONE), (2, TWO)):
        bench.hold(cookie, broker=broker)
        bench.store.moved(cookie, 10, 20, 1)
    bench.wait(5.0)
    for cookie in (1, 2):
        bench.close(cookie, ClosedBy.BROKER)
    bench.hold(3, broker=TWO)
    bench.wait(KEEP_SECONDS + 1)
    totals = bench.totals
    assert {each[:3] for each, _ in totals.connection_seconds} == {pair()[:3]}
    assert sum(totals.connection_seconds.values()) == 10.0 + KEEP_SECONDS + 1
    assert {each[:3] for each in totals.lifetimes} == {pair()[:3]}
    assert totals.outgoing_bytes == {others(): 10, pair(broker=TWO): 10}
    assert totals.closed == {(others(), ClosedBy.BROKER): 1, (pair(broker=TWO), ClosedBy.BROKER): 1}


def test_a_client_whose_connections_are_idle_for_hours_is_not_gone(bench):
    """Nothing happens to a zombie, so nobody describes it; its seconds go on."""
    bench.hold(1)
    for _ in range(5):
        bench.wait(3600.0)
    assert bench.totals.connection_seconds == {(pair(), DATA): 5 * 3600.0}


def test_totals_are_of_their_moment(bench):
    bench.hold(1)
    bench.now = 1.0
    before = bench.totals
    bench.store.opened(1, 0.0)
    bench.now = 9.0
    bench.close(1)
    assert before.opened == {}
    assert before.connection_seconds == {(pair(), DATA): 1.0}


def test_a_folded_client_that_comes_back_begins_at_0_in_metrics_and_goes_on_in_the_journal(bench):
    bench.hold(1)
    bench.wait(5.0)
    bench.close(1)
    bench.cut()
    bench.wait(KEEP_SECONDS + 1)
    bench.hold(2)
    bench.wait(2.0)
    assert bench.totals.connection_seconds == {(NOBODY, DATA): 5.0, (pair(), DATA): 2.0}
    assert {n: each["connection_ms"] for n, each in bench.cut().items()} == {0: 7_000}


def test_the_store_forgets_a_client_that_neither_metrics_nor_journal_shows(bench):
    bench.hold(1)
    bench.wait(5.0)
    bench.close(1)
    bench.cut()
    bench.wait(KEEP_SECONDS + 1)
    assert len(bench.store) == 1
    bench.wait(KEEP_MICROSECONDS / 1e6)
    bench.cut(everything=True)
    bench.wait(1.0)
    assert (len(bench.store), len(bench.journal)) == (0, 0)
    assert bench.totals.connection_seconds == {(NOBODY, DATA): 5.0}


def test_a_bucket_of_the_journal_does_not_remember_the_clients_that_it_sums():
    bench = Bench(most_clients=1, most_series=1)
    bench.hold(0, "there")
    for cookie in range(1, 30):
        bench.hold(cookie, f"p{cookie}")
        bench.wait(1.0)
        bench.close(cookie)
        bench.cut()
    bench.wait(KEEP_SECONDS + 1)
    assert len(bench.store) == 1
    assert sum(each["connection_ms"] for each in bench.cut().values()) == 1000 * (
        29 + 29 + KEEP_SECONDS + 1
    )


def test_versions_without_end_are_not_told_apart(bench):
    bench.store = Store(most=3)
    for number in range(20):
        bench.hold(number, version=f"4.{number}")
    bench.now = 1.0
    assert len(bench.store) == 4
    assert bench.totals.connection_seconds == {(pair(), DATA): 20.0}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.sampled_from([ONE, TWO]),
        st.sampled_from([DATA, ZOMBIE]),
        st.booleans(),  # whether one that is open closes
        st.floats(0, 2000),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(EVENTS, st.integers(1, 4), st.integers(1, 8))
def test_no_series_falls_and_metrics_and_journal_agree(events, most_clients, most_series):
    """Folding takes series away and moves what they had to `other`; it loses nothing."""
    bench = Bench(most_clients, most_series)
    before, written = {}, {}
    ended = 0
    for cookie, (client, broker, connection_class, closes, pause) in enumerate(events, 1):
        bench.hold(cookie, client, broker, connection_class)
        bench.store.opened(cookie, bench.now)
        bench.store.moved(cookie, 10, 20, 1)
        if closes:
            ended += 1
            bench.close(cookie)
        bench.wait(pause)
        after = shown(bench.totals)
        assert {key: value for key, value in after.items() if value < before.get(key, 0)} == {}
        before = after
        for number, record in bench.cut(everything=cookie % 7 == 0).items():
            for field in ("connection_ms", "useful_ms", "opened", "closed_by_client", "bytes_out"):
                assert record[field] >= written.get((number, field), 0)
                written[number, field] = record[field]
    records = bench.cut(everything=True).values()
    totals = bench.totals
    assert sum(totals.opened.values()) == sum(each["opened"] for each in records) == len(events)
    assert sum(totals.closed.values()) == sum(each["closed_by_client"] for each in records) == ended
    assert sum(each["connection_ms"] for each in records) == pytest.approx(
        1000 * sum(totals.connection_seconds.values()), abs=len(records)
    )
    assert sum(sum(each["lifetime_buckets"]) for each in records) == ended
    assert bench.store.opened_and_closed == (len(events), ended)


def shown(totals):
    """Every series of the counters, by the labels that metrics show it with (decisions/0012)."""
    series = Counter()
    for (whose, connection_class), seconds in totals.connection_seconds.items():
        series["seconds", *whose[:3], connection_class] += round(seconds * 1e6)
    for whose, seconds in totals.useful_seconds.items():
        series["useful", *whose[:3]] += round(seconds * 1e6)
    for whose, lifetimes in totals.lifetimes.items():
        series["lifetimes", *whose[:3]] += sum(lifetimes.counts)
    for whose, sent in totals.outgoing_bytes.items():
        series["sent", whose.broker] += sent
    for whose, count in totals.opened.items():
        series["opened", *whose] += count
    for (whose, side), count in totals.closed.items():
        series["closed", *whose, side] += count
    return series
