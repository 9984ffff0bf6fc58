"""Storms and low efficiency: told once they last, and never of a client that has just begun."""

from __future__ import annotations

import pytest

from exporter.alerting.states import AlertStates
from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.alerts.settings import RuleSettings, Thresholds
from exporter.connections.activity import Activity
from exporter.connections.endings import ClosedConnection
from exporter.findings.watches import (
    SETTLED_SHARE,
    STORM_PARTS,
    EfficiencyWatch,
    StormWatch,
)
from exporter.model import ClosedBy, ConnectionClass, Endpoint, TcpInfo
from exporter.snapshot import ClientBroker, Totals

DEFAULTS = Thresholds()
ONE, TWO = "10.2.0.1:9092", "10.2.0.2:9092"
NOW = 10_000.0
STORM_SECONDS = DEFAULTS.storm_window
STORM_STEP_SECONDS = STORM_SECONDS / STORM_PARTS
EFFICIENCY_SECONDS = DEFAULTS.efficiency_window
SETTLED_SECONDS = EFFICIENCY_SECONDS * SETTLED_SHARE


def pair(client="orders", broker=ONE, kind="producer"):
    return ClientBroker(client, kind, "java", "1", broker)


# Storms


def ending(at=NOW - 10, closed_by=ClosedBy.BROKER, broker=ONE, *, talked=True):
    closed = ClosedConnection(
        at=at,
        local=Endpoint("10.1.0.7", 40000),
        remote=Endpoint("10.2.0.1", 9092),
        closed_by=closed_by,
        lifetime_seconds=1.0,
        tracked=None,
        info=TcpInfo(data_segments_in=3 if talked else 0),
        rest=Activity(at, 0, 0, 0, 0),
    )
    return pair(broker=broker), closed


def storms(endings, *held, thresholds=DEFAULTS):
    """Look as often as there are numbers of held connections, the last time now."""
    watch = StormWatch(thresholds)
    found = []
    for number, count in enumerate(held):
        counts = {pair(): {ConnectionClass.DATA: count, ConnectionClass.CONNECTING: 99}}
        found = watch.find(counts, endings, NOW - (len(held) - 1 - number) * STORM_STEP_SECONDS)
    return found


def test_a_broker_that_drops_all_its_connections_again_and_again_is_a_storm():
    [finding] = storms([ending() for _ in range(31)], 10)
    assert finding.name == "KafkaClientReconnectStorm"
    assert (finding.labels, finding.value) == ({"broker": ONE}, 31.0)
    assert "31 connections" in finding.description


@pytest.mark.parametrize("count", [10, 20, 30])
def test_restarts_are_none_though_the_clients_are_not_back_yet(count):
    """One costs every connection once; three are the most that the rule allows."""
    assert storms([ending() for _ in range(count)], 10, 0, 0) == []


def test_few_are_none_whatever_their_ratio():
    assert storms([ending() for _ in range(19)], 1) == []
    assert len(storms([ending() for _ in range(20)], 1)) == 1


def test_what_was_held_before_the_window_is_forgotten_and_so_is_what_ended():
    late = [ending() for _ in range(31)]
    steps = int(STORM_SECONDS / STORM_STEP_SECONDS) + 3
    assert len(storms(late, 100, *[1] * steps)) == 1
    old = [ending(NOW - STORM_SECONDS - 1) for _ in range(31)]
    assert storms(old, 1) == []


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(ending(closed_by=ClosedBy.CLIENT), id="closed by the client"),
        pytest.param(ending(closed_by=ClosedBy.ABORT, talked=False), id="a probe that resets"),
        pytest.param(ending(closed_by=ClosedBy.REFUSED), id="refused"),
        pytest.param(ending(closed_by=ClosedBy.UNKNOWN), id="not known"),
    ],
)
def test_other_ends_are_no_storm(quiet):
    assert storms([quiet] * 300, 2) == []


def test_an_operator_says_in_how_long_a_storm_is_looked_for():
    shorter = Thresholds(storm_window=60.0)
    [finding] = storms([ending() for _ in range(31)], 10, thresholds=shorter)
    assert "in 60 s;" in finding.description
    late = [ending(at=NOW - 61) for _ in range(31)]
    assert storms(late, 10, thresholds=shorter) == []
    assert len(storms(late, 10)) == 1


def test_a_neighbour_of_the_storm_is_silent():
    endings = [ending() for _ in range(40)] + [ending(broker=TWO) for _ in range(19)]
    assert [each.labels for each in storms(endings, 5)] == [{"broker": ONE}]


# Efficiency


def lived(seconds, *, data=3, zombies=0, whose=None):
    """What a client has cost after so many seconds of so many connections."""
    whose = whose or pair()
    spent = {
        (whose, ConnectionClass.DATA): data * seconds,
        (whose, ConnectionClass.ZOMBIE): zombies * seconds,
        (whose, ConnectionClass.UNKNOWN): 50.0 * seconds,
    }
    return Totals(connection_seconds=spent, useful_seconds={whose: data * seconds})


def watched(life, hours=2.0, step=60.0, thresholds=DEFAULTS):
    """Return each look's findings, with its time; `life` gives the totals after some seconds."""
    watch = EfficiencyWatch(thresholds)
    looks = int(hours * EFFICIENCY_SECONDS / step)
    return [(n * step, watch.find(life(n * step), NOW + n * step)) for n in range(looks + 1)]


def test_a_client_that_wastes_most_is_told_once_it_has_settled():
    told = watched(lambda seconds: lived(seconds, data=3, zombies=4))
    first, [finding] = next((at, found) for at, found in told if found)
    assert first == SETTLED_SECONDS
    assert finding.name == "KafkaClientLowEfficiency"
    assert finding.labels == {"client_id": "orders", "client_kind": "producer", "process": "java"}
    assert "43%" in told[-1][1][0].description
    assert told[-1][1][0].value == pytest.approx(4.0)


def test_a_finding_that_is_told_late_says_since_when_its_rule_is_true():
    """Four wasted connections are one on average of an hour after a quarter of it."""
    told = watched(lambda seconds: lived(seconds, data=3, zombies=4))
    assert {each.begun_at for _, found in told for each in found} == {NOW + EFFICIENCY_SECONDS / 4}

    def in_turns(seconds):
        """It wastes for an hour, works for two, and wastes again."""
        quiet = min(max(0.0, seconds - 3600.0), 7200.0)
        return wasted(seconds - quiet, quiet)

    begun = {each.begun_at for _, found in watched(in_turns, hours=6.0) for each in found}
    assert len(begun) == 2
    assert max(begun) > NOW + 3 * 3600.0


def wasted(wasted_for, used_for):
    whose = pair()
    spent = {
        (whose, ConnectionClass.ZOMBIE): 4 * wasted_for,
        (whose, ConnectionClass.DATA): 3 * used_for,
    }
    return Totals(connection_seconds=spent, useful_seconds={whose: 3 * used_for})


def test_the_agents_own_alert_of_it_fires_when_that_of_prometheus_does():
    """The rule is true after a quarter of an hour, and its `for` is half of one."""
    rules = RuleSettings()
    specs = [ALERTS_BY_NAME["KafkaClientLowEfficiency"]]
    states = AlertStates(specs, rules, interval=60.0, labels={}, label_bytes=128, most=9)
    told = watched(lambda seconds: lived(seconds, data=3, zombies=4))
    fired = [at for at, found in told if states.update(found, NOW + at, at)]
    assert fired[0] == EFFICIENCY_SECONDS / 4 + specs[0].fire_after.seconds


@pytest.mark.parametrize(
    ("data", "zombies"),
    [
        pytest.param(3, 0, id="no waste"),
        pytest.param(3, 3, id="just half"),
        pytest.param(0, 0.9, id="little waste, whatever its share"),
    ],
)
def test_a_client_just_below_is_never_told(data, zombies):
    told = watched(lambda seconds: lived(seconds, data=data, zombies=zombies))
    assert [found for _, found in told if found] == []


def test_bootstrap_connections_of_the_first_nine_minutes_are_no_finding():
    """Seven of them beside three that are used: 30 % in those minutes."""

    def life(seconds):
        whose = pair()
        spent = {
            (whose, ConnectionClass.DATA): 3 * seconds,
            (whose, ConnectionClass.BOOTSTRAP): 7 * min(seconds, 540.0),
        }
        return Totals(connection_seconds=spent, useful_seconds={whose: 3 * seconds})

    assert [found for _, found in watched(life) if found] == []


def test_a_client_that_stopped_wasting_is_told_no_longer_than_an_hour():
    def life(seconds):
        whose = pair()
        spent = {
            (whose, ConnectionClass.DATA): 3 * seconds,
            (whose, ConnectionClass.ZOMBIE): 9 * min(seconds, 3600.0),
        }
        return Totals(connection_seconds=spent, useful_seconds={whose: 3 * seconds})

    told = dict(watched(life, hours=3.0))
    assert told[3600.0]
    assert told[2 * 3600.0] == []


def test_an_operator_says_over_how_long_a_client_is_judged():
    def life(seconds):
        whose = pair()
        spent = {
            (whose, ConnectionClass.DATA): 1 * seconds,
            (whose, ConnectionClass.ZOMBIE): 2 * min(seconds, 60.0),
        }
        return Totals(connection_seconds=spent, useful_seconds={whose: 1 * seconds})

    minute = Thresholds(efficiency_window=60.0)
    told = watched(life, hours=0.1, step=1.0, thresholds=minute)
    seconds = [at for at, found in told if found]
    assert (seconds[0], seconds[-1]) == (30.0, 89.0)
    [finding] = dict(told)[60.0]
    assert "in the last 60 s: 2.0 connections" in finding.description


def test_looks_that_are_far_apart_make_no_waste_greater():
    shorter = Thresholds(efficiency_window=20.0)
    told = watched(lambda seconds: lived(seconds, zombies=4), 0.1, 15.0, shorter)
    values = [found[0].value for _, found in told if found]
    # The first look is within the window, which began with nothing.
    assert values == [3.0] + [pytest.approx(4.0)] * (len(values) - 1)
    assert len(values) > 20


@pytest.mark.parametrize(
    "whose", [pair(client=""), pair("other", kind="other")], ids=["unknown", "summed"]
)
def test_who_is_not_known_is_not_judged(whose):
    told = watched(lambda seconds: lived(seconds, data=0, zombies=9, whose=whose))
    assert [found for _, found in told if found] == []


def test_a_client_that_begins_anew_is_judged_by_its_new_life():
    def life(seconds):
        if seconds < 3600.0:
            return lived(seconds, data=0, zombies=9)
        return lived(seconds - 3600.0, data=3, zombies=0)

    told = dict(watched(life))
    assert told[3540.0]
    assert told[3660.0] == []


def test_what_it_remembers_is_bounded():
    watch = EfficiencyWatch(DEFAULTS)
    for second in range(0, 20_000, 10):
        watch.find(lived(float(second)), NOW + second)
    assert len(watch._past) <= EFFICIENCY_SECONDS / 60.0 + 2


def test_the_findings_are_as_severe_as_their_alerts_and_have_their_labels():
    found = [
        *storms([ending() for _ in range(31)], 10),
        *watched(lambda seconds: lived(seconds, zombies=9))[-1][1],
    ]
    assert len(found) == 2
    for each in found:
        alert = ALERTS_BY_NAME[each.name]
        assert (each.severity, each.summary, each.remedy) == (
            alert.severity,
            alert.summary,
            alert.remedy,
        )
        assert set(each.labels) == set(alert.labels)
