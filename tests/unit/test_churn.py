"""Churn: patterns by their cause, that begin with the fourth time and end when they stop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.connections.activity import Activity
from exporter.connections.endings import ClosedConnection
from exporter.connections.tracker import TrackedConnection
from exporter.findings.churn import WINDOW_SECONDS, find_churn
from exporter.model import ClosedBy, Endpoint
from exporter.snapshot import ClientBroker
from tests.unit.sockets import BROKER, JVM, figures, reading

NOTHING = Activity(0.0, 0, 0, 0, 0)
REFRESH = figures(99, 1029, data_segments_out=2, data_segments_in=2)
WORK = figures(900, 4000, data_segments_out=30, data_segments_in=30)
SILENT = figures(bytes_acked=2, bytes_received=1)


def ending(at, life=10.0, *, by=ClosedBy.CLIENT, info=REFRESH, client_id="p", seen=True, owner=JVM):
    """One end of a connection of a client's."""
    socket = reading(info=info)
    tracked = TrackedConnection(
        reading=socket,
        owner=owner,
        opened_at=at - life,
        age_is_exact=True,
        first_for_owner=False,
        last_activity_at=at - life,
    )
    kind = "producer" if client_id else "unknown"
    key = ClientBroker(client_id, kind, owner.name, "", str(BROKER))
    closed = ClosedConnection(
        at, socket.local, socket.remote, by, life, tracked if seen else None, info, NOTHING
    )
    return key, closed


def causes(endings, now):
    return sorted(finding.labels["cause"] for finding in find_churn(endings, now))


def every(period, count=5, begin=1_000.0, **changes):
    return [ending(begin + period * n, **changes) for n in range(count)]


def test_metadata_refreshes_against_idle_closing():
    [finding] = find_churn(every(10.0), 1_045.0)
    assert finding.labels == {
        "client_id": "p",
        "client_kind": "producer",
        "process": "java",
        "cause": "metadata refresh",
    }
    assert "one every 10 s" in finding.description
    assert "metadata.max.age.ms" in finding.remedy


def test_a_broker_that_closes_what_the_client_wants_to_keep():
    assert causes(every(10.0, by=ClosedBy.BROKER), 1_045.0) == ["broker idle limit"]


def by_each(*by):
    return [ending(1_000 + 10.0 * n, by=each) for n, each in enumerate(by)]


def test_endings_of_which_nobody_knows_whose_they_were_leave_it_to_the_others():
    broker, unknown, client = ClosedBy.BROKER, ClosedBy.UNKNOWN, ClosedBy.CLIENT
    assert causes(by_each(broker, unknown, unknown, broker, unknown), 1_045.0) == [
        "broker idle limit"
    ]
    assert causes(by_each(*[unknown] * 5), 1_045.0) == ["metadata refresh"]
    assert causes(by_each(broker, unknown, client, client, unknown), 1_045.0) == [
        "metadata refresh"
    ]


def test_timing_noise_hides_no_pattern():
    endings = [ending(1_000 + 10 * n + (-1) ** n, life=10 + 0.9 * (-1) ** n) for n in range(6)]
    assert causes(endings, 1_055.0) == ["metadata refresh"]


def test_a_client_for_every_request_is_mostly_not_seen_by_any_poll():
    endings = [
        ending(1_000 + 0.5 * n, life=0.2, client_id="", seen=False, info=WORK) for n in range(20)
    ]
    assert causes(endings, 1_010.0) == ["client per request"]


def test_clients_that_are_seen_show_by_their_many_names_or_processes():
    named = [ending(1_000 + 20.0 * n, client_id=f"job-{n}", info=WORK) for n in range(5)]
    assert causes(named, 1_085.0) == ["client per request"]
    jobs = [
        ending(1_000 + 20.0 * n, client_id="", info=WORK, owner=replace(JVM, key=f"{n}:1"))
        for n in range(5)
    ]
    assert causes(jobs, 1_085.0) == ["client per request"]


def test_one_name_for_all_shows_by_the_many_that_end_at_once():
    endings = [
        ending(1_000 + 5.0 * n + 0.1 * m, life=3.0, info=WORK) for n in range(5) for m in range(3)
    ]
    assert causes(endings, 1_022.0) == ["client per request"]


def test_clients_without_metrics_leave_the_cause_open():
    """Small, alike and closed by the client: a refresh, or a client for one small request."""
    assert causes(every(10.0, client_id=""), 1_045.0) == ["unclear"]


def test_a_restart_is_one_moment_and_no_churn():
    endings = [ending(1_000.2, by=ClosedBy.BROKER, client_id=f"p-{n}") for n in range(40)]
    assert causes(endings, 1_001.0) == []


def test_three_times_are_no_pattern_yet():
    assert causes(every(10.0, count=3), 1_025.0) == []


@pytest.mark.parametrize(("later", "still"), [(29.0, True), (31.0, False)])
def test_a_pattern_ends_when_it_misses_three_of_its_periods(later, still):
    assert bool(find_churn(every(10.0), 1_040.0 + later)) is still


def test_a_pattern_that_is_long_past_is_forgotten():
    assert find_churn(every(300.0), 2_200.0 + WINDOW_SECONDS) == []


def test_probes_are_nobodys_and_have_their_broker():
    endings = every(1.0, info=SILENT, client_id="", seen=False, life=0.0)
    [finding] = find_churn(endings, 1_004.5)
    assert finding.labels == {"broker": str(BROKER), "cause": "probe"}
    assert "one every 1 s" in finding.description


def test_refused_attempts_are_a_broker_that_cannot_be_reached():
    endings = every(1.0, by=ClosedBy.REFUSED, info=SILENT, client_id="", seen=False, life=0.0)
    [finding] = find_churn(endings, 1_004.5)
    assert (finding.name, finding.labels) == (
        "KafkaClientBrokerUnreachable",
        {"broker": str(BROKER)},
    )


def test_lives_of_every_length_are_an_applications_own():
    endings = [ending(1_000 + 20 * n, life=5.0 * 3**n, info=WORK) for n in range(6)]
    assert causes(endings, 1_105.0) == []


def test_many_clients_with_one_trouble_are_one_finding():
    endings = [e for n in range(8) for e in every(10.0, client_id=f"p-{n}", begin=1_000 + n)]
    [finding] = find_churn(endings, 1_050.0)
    assert "client_id" not in finding.labels
    assert finding.description.startswith(
        "8 clients in java: 40 connections closed, each one every"
    )


def test_the_order_of_endings_does_not_matter():
    endings = every(10.0) + every(1.0, info=SILENT, client_id="", life=0.0, begin=1_036.0)
    there = {(f.name, f.description) for f in find_churn(endings, 1_041.0)}
    back = {(f.name, f.description) for f in find_churn(endings[::-1], 1_041.0)}
    assert there == back
    assert len(there) == 2


def test_other_brokers_are_other_probes():
    elsewhere = str(Endpoint("10.2.0.2", 9092))
    endings = [
        (key._replace(broker=broker), closed)
        for key, closed in every(1.0, info=SILENT, client_id="", life=0.0)
        for broker in (str(BROKER), elsewhere)
    ]
    assert {f.labels["broker"] for f in find_churn(endings, 1_005.0)} == {str(BROKER), elsewhere}
