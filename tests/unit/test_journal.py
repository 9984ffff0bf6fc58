"""The journal's records: what adds up, when it is cut, and what a clock may do."""

from __future__ import annotations

import pytest

from exporter.model import Endpoint
from exporter.snapshot import Finding, Severity
from exporter.totals.journal_series import KEEP_MICROSECONDS
from tests.unit.journals import ELEVEN, LABELS, Bench, check, owned, socket
from tests.unit.sockets import end, figures, reading

MINUTE_MS = 60_000


def test_a_minute_of_two_connections_is_two_minutes_of_connections():
    bench = Bench()
    one, two = socket(1), socket(2)
    bench.poll(one, two, seconds=0)
    for _ in range(61):
        bench.poll(one, two)
    check(bench.batches)
    (batch,) = bench.batches
    assert batch.at_ms == int(ELEVEN * 1000) + MINUTE_MS
    assert bench.total("connection_ms") == 2 * MINUTE_MS
    assert bench.total("connections") == 2
    assert batch.records[0]["covered_ms"] == MINUTE_MS


def test_records_are_cut_at_the_whole_minute_not_at_the_poll_after_it():
    bench = Bench(wall=ELEVEN + 10.4)
    bench.poll(socket(1), seconds=0)
    for _ in range(120):
        bench.poll(socket(1), seconds=1.001)
    assert [batch.at_ms % MINUTE_MS for batch in bench.batches] == [0, 0]
    assert [each["connection_ms"] for each in bench.records()] == [49_600, 109_600]


def test_without_any_client_there_is_a_record_of_the_agent_each_minute():
    bench = Bench()
    for _ in range(181):
        bench.poll()
    check(bench.batches)
    assert [len(batch.records) for batch in bench.batches] == [1, 1, 1]
    assert [each["covered_ms"] for each in bench.records("agent")] == [59_000, 119_000, 179_000]


def test_time_around_a_poll_that_failed_is_not_covered():
    bench = Bench()
    bench.poll(seconds=0)
    bench.poll(seconds=10)
    bench.figures = bench.figures._replace(failed_polls=1)
    bench.poll(seconds=20)
    bench.poll(seconds=30.5)
    (record,) = bench.records("agent")
    assert record["covered_ms"] == 40_000
    assert record["failed_polls"] == 1


def test_openings_ends_and_lives_are_counted():
    bench = Bench()
    bench.poll(seconds=0)
    open_now = socket(1, into=0, out=0)
    bench.poll(open_now)
    for _ in range(15):
        bench.poll(open_now)
    bench.poll(closed=[end(open_now, bench.now + 1, figures(300, 400))])
    bench.finish(1)
    check(bench.batches)
    assert bench.total("opened") == 1
    ends = ("closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown")
    assert sum(bench.total(name) for name in ends) == 1
    assert bench.total("bytes_out") == 300
    assert bench.total("bytes_in") == 400
    lives = [sum(each["lifetime_buckets"]) for each in bench.latest().values()]
    assert sum(lives) == 1
    assert 15_000 <= bench.total("lifetime_ms_sum") <= 17_000
    assert bench.total("connection_ms") == 16_000
    assert bench.total("connections") == 0


def test_what_was_open_before_the_agent_was_not_opened():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.poll(socket(1), seconds=61)
    assert bench.total("opened") == 0
    assert bench.total("connections") == 1


def test_a_connection_that_no_poll_met_is_counted():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    unseen = socket(7)
    bench.poll(socket(1), closed=[end(unseen, bench.now + 0.5, figures(10, 20))])
    bench.finish(1)
    check(bench.batches)
    assert bench.total("opened") == 1
    assert bench.total("bytes_out") == 10


def test_unknown_bytes_and_expectations_are_null():
    bench = Bench()
    bench.poll(reading(1, info=None), seconds=0)
    bench.poll(reading(1, info=None), seconds=61)
    (record,) = bench.records()
    assert record["bytes_out"] is record["bytes_in"] is record["retransmits"] is None
    assert record["expected_ms"] is record["expected"] is record["instances"] is None
    assert record["idle_max_ms"] is None
    assert record["broker_max_connections"] == 1000
    assert record["broker_max_connections_per_ip"] is None


def test_peaks_are_of_the_interval():
    bench = Bench()
    bench.poll(seconds=0)
    many = [socket(cookie) for cookie in range(1, 6)]
    bench.poll(*many, seconds=5)
    bench.poll(many[0], seconds=20)
    bench.poll(many[0], seconds=60)
    bench.poll(many[0], seconds=60)
    by_moment = {}
    for record in bench.records():
        peak = by_moment.get(record["at_ms"], 0)
        by_moment[record["at_ms"]] = max(peak, record["peak_connections"])
    assert list(by_moment.values()) == [5, 1]


def test_a_resting_series_is_written_at_whole_hours_only():
    bench = Bench(wall=ELEVEN - 600)
    bench.poll(socket(1), seconds=0)
    bench.poll(seconds=30)
    while bench.wall < ELEVEN + 300:
        bench.poll(seconds=30)
    moments = {(each["at_ms"] / 1000 - ELEVEN) / 60 for each in bench.records()}
    assert moments == {-9.0, 0.0}


def test_a_hour_whose_edge_was_missed_is_told_with_the_next_batch():
    bench = Bench(wall=ELEVEN - 600)
    bench.poll(socket(1), seconds=0)
    bench.poll(seconds=30)
    bench.poll(seconds=60)
    bench.poll(seconds=700)
    assert [each["at_ms"] / 1000 - ELEVEN for each in bench.records()] == [-540.0, 180.0]


def test_a_client_that_is_gone_for_long_gets_a_new_series_when_it_comes_back():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.poll(seconds=30)
    gone_for = KEEP_MICROSECONDS / 1e6 + 2 * 3600
    until = bench.now + gone_for
    while bench.now < until:
        bench.poll(seconds=30)
    assert len(bench.journal.totals) == 0
    bench.poll(socket(2), seconds=30)
    bench.finish(10)
    check(bench.batches)
    numbers = [each["series"] for each in bench.records()]
    assert len(set(numbers)) == 2
    assert bench.records()[-1]["connection_ms"] == 10_000


def test_a_client_that_comes_back_soon_goes_on():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.poll(seconds=30)
    bench.poll(socket(2), seconds=600)
    bench.poll(socket(2), seconds=30)
    bench.finish()
    check(bench.batches)
    assert {each["series"] for each in bench.records()} == {0}
    assert bench.total("connection_ms") == 60_000


def test_more_series_than_the_limit_add_up_as_other():
    bench = Bench(most_series=3)
    sockets = [socket(cookie) for cookie in range(1, 11)]
    owners = {each.cookie: owned(f"p{each.cookie}") for each in sockets}
    bench.poll(*sockets, owners=owners, seconds=0)
    bench.poll(*sockets, owners=owners, seconds=61)
    check(bench.batches)
    records = bench.records()
    assert len(records) == 4
    assert [each["folded"] for each in records].count(True) == 1
    assert sum(each["connections"] for each in records) == 10
    assert bench.total("connection_ms") == 600_000


def test_the_number_of_brokers_is_bounded_too():
    bench = Bench(most_series=3)
    sockets = [socket(c, remote=Endpoint(f"10.9.0.{c}", 9092)) for c in range(1, 101)]
    bench.poll(*sockets, seconds=0)
    bench.poll(*sockets, seconds=61)
    check(bench.batches)
    assert len(bench.records()) == 7
    assert {each["broker"] for each in bench.records()} >= {"other"}
    assert bench.total("connections") == 100


# ---- clocks -----------------------------------------------------------------------------------


def test_a_clock_that_goes_forward_leaves_minutes_out():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.poll(socket(1), seconds=30)
    bench.poll(socket(1), seconds=1, step=7200)
    bench.poll(socket(1), seconds=60)
    check(bench.batches)
    assert [batch.at_ms / 1000 - ELEVEN for batch in bench.batches] == [7200.0, 7260.0]
    # At the leap the clock stood at 12:00:31: the minute before is what was until the last poll.
    assert [each["connection_ms"] for each in bench.records()] == [30_000, 60_000]
    assert len({each["boot_id"] for each in bench.records()}) == 1


def test_a_clock_that_goes_back_a_little_costs_the_minutes_that_it_repeats():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.poll(socket(1), seconds=65)
    bench.poll(socket(1), seconds=1, step=-50)
    for _ in range(20):
        bench.poll(socket(1), seconds=10)
    check(bench.batches)
    assert len({each["boot_id"] for each in bench.records()}) == 1
    assert [each["connection_ms"] for each in bench.records()][:2] == [60_000, 170_000]


def test_a_clock_that_goes_back_far_begins_the_counters_anew():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.poll(socket(1), seconds=65)
    bench.poll(socket(1), seconds=1, step=-3600)
    bench.poll(socket(1), seconds=60)
    bench.finish(1)
    check(bench.batches)
    agents = bench.records("agent")
    assert [each["boot_reason"] for each in agents] == [
        "start",
        "start",
        "clock_step",
        "clock_step",
    ]
    assert [each["final"] for each in agents] == [False, True, False, True]
    # The last of the old boot is by the old clock; nothing is lost or counted twice.
    assert agents[1]["at_ms"] == int(ELEVEN * 1000) + 66_000
    assert bench.total("connection_ms") == 127_000
    assert [each["polls"] for each in bench.latest("agent").values()] == [2, 2]


def test_a_clock_that_stands_still_writes_nothing_twice():
    bench = Bench()
    bench.poll(seconds=0)
    for _ in range(10):
        bench.poll(seconds=60, step=-60)
    assert bench.batches == []
    bench.poll(seconds=60)
    check(bench.batches)


def test_the_last_batch_is_of_the_very_moment():
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.poll(socket(1), seconds=12)
    bench.finish(0.345)
    check(bench.batches)
    (batch,) = bench.batches
    assert batch.final
    assert batch.at_ms == int(ELEVEN * 1000) + 12_345
    assert bench.total("connection_ms") == 12_345


def test_without_a_poll_there_is_nothing_to_finish():
    assert Bench().journal.finish(1.0, Bench().figures, ()) == []


# ---- findings ---------------------------------------------------------------------------------


def finding(name="KafkaClientConnectionChurn", value=4.2, cookies=(1, 2), **labels):
    return Finding(
        name=name,
        severity=Severity.INFO,
        labels=labels,
        summary="",
        description="",
        remedy="",
        value=value,
        cookies=cookies,
    )


def test_how_long_a_finding_was_true_adds_up():
    bench = Bench()
    found = (finding(cause="client per request", process="java", broker_id="3"),)
    for seconds, findings in ((0, ()), (10, found), (20, found), (10, ()), (5, found), (16, found)):
        bench.poll(seconds=seconds)
        bench.journal.found(findings)
    check(bench.batches)
    (record,) = bench.records("finding")
    assert record["active_ms"] == 45_000
    assert record["begun"] == 2
    assert record["value_max"] == 5
    assert record["held"] == 2
    assert record["active"] is True
    assert (record["cause"], record["process"]) == ("client per request", "java")
    assert (record["broker_id"], record["client_id"]) == (3, None)


def test_findings_are_bounded():
    bench = Bench(most_series=5)
    bench.poll(seconds=0)
    bench.journal.found(tuple(finding(process=f"p{number}") for number in range(50)))
    bench.finish(10)
    check(bench.batches)
    records = bench.records("finding")
    assert len(records) == 6
    assert records[-1]["process"] == "other"
    assert sum(each["held"] for each in records) == 100


def test_a_finding_outlives_a_clock_step():
    bench = Bench()
    bench.poll(seconds=0)
    found = (finding(),)
    bench.journal.found(found)
    bench.poll(seconds=30)
    bench.poll(seconds=1, step=-3600)
    bench.finish(10)
    check(bench.batches)
    assert [each["active_ms"] for each in bench.records("finding")] == [31_000, 10_000]


@pytest.mark.parametrize("kind", ["agent", "connections"])
def test_labels_stand_in_every_record(kind):
    bench = Bench()
    bench.poll(socket(1), seconds=0)
    bench.finish(1)
    assert all(LABELS.keys() <= record.keys() for record in bench.records(kind))
