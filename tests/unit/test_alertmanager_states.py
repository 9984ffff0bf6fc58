"""From findings to alerts: `for`, `keep_firing_for`, re-sending, resolving; by a manual clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.alerting.states import RESOLVED_SECONDS, AlertStates, Phase
from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.alerts.render import alerts_of
from exporter.alerts.settings import AlertOverride, LinkSettings, RuleSettings, Thresholds
from exporter.snapshot import Finding, Severity

INTERVAL = 60.0
WALL = 1_767_225_600.0
ZOMBIES = "KafkaClientZombieConnections"
FROZEN = "KafkaClientFrozenPeer"
LABELS = {
    "client_id": "orders",
    "client_kind": "producer",
    "process": "java",
    "broker_id": "1",
    "broker": "10.2.0.1:9092",
}


def finding(name=ZOMBIES, value=2.0, **labels) -> Finding:
    return Finding(
        name=name,
        severity=Severity.WARNING,
        labels=LABELS | labels,
        summary="not used",
        description="producer 'orders' holds 2 connections.",
        remedy="Close them.",
        value=value,
    )


class Clock:
    """Both clocks, the states, and what they wanted to send."""

    def __init__(self, *alerts: AlertOverride, most=1000, labels=None, rule_labels=None, **rules):
        self.now = 5_000.0
        self.wall = WALL
        settings = RuleSettings(alerts=alerts, labels=rule_labels or {}, **rules)
        self.states = AlertStates(
            alerts_of(settings),
            settings,
            interval=INTERVAL,
            labels=labels or {},
            label_bytes=128,
            most=most,
        )

    def look(self, *findings, after=0.0):
        self.now += after
        self.wall += after
        return self.states.update(findings, self.now, self.wall)

    def last(self, seconds, *findings, step=2.0):
        """Look every two seconds; return all that was to be sent."""
        sent = []
        for _ in range(round(seconds / step)):
            sent += self.look(*findings, after=step)
        return sent


def short(name=ZOMBIES, **times):
    return AlertOverride(name=name, **{"fire_after": 10.0, "keep_firing_for": 20.0, **times})


def test_nothing_is_sent_before_the_time_of_the_rule_has_passed():
    clock = Clock()
    assert clock.look(finding()) == []
    assert clock.last(298, finding()) == []
    [alert] = clock.look(finding(), after=2)
    assert alert.starts_at == WALL + 300
    assert alert.ends_at == WALL + 300 + 4 * INTERVAL


@pytest.mark.parametrize(
    ("begun_before", "fires_after"),
    [pytest.param(100.0, 200.0, id="some"), pytest.param(900.0, 0.0, id="longer than the rule")],
)
def test_what_a_finding_has_waited_for_is_not_waited_for_again(begun_before, fires_after):
    clock = Clock()
    late = replace(finding(), begun_at=clock.now - begun_before)
    [alert] = [*clock.look(late), *clock.last(fires_after, late)]
    assert alert.starts_at == WALL + fires_after


def test_an_alert_is_what_the_rule_makes_of_it():
    clock = Clock(
        short(severity="critical"),
        labels={"namespace": "shop"},
        links=LinkSettings(runbooks="https://wiki/{alert}"),
    )
    clock.look(finding())
    [alert] = clock.look(finding(), after=10)
    assert alert.labels == LABELS | {
        "alertname": ZOMBIES,
        "severity": "critical",
        "namespace": "shop",
    }
    assert alert.annotations == {
        "summary": ALERTS_BY_NAME["KafkaClientZombieConnections"].summary,
        "description": "producer 'orders' holds 2 connections.",
        "remedy": "Close them.",
        "runbook_url": f"https://wiki/{ZOMBIES}",
        "dashboard_url": "/d/brokerwire-clients?var-broker=10.2.0.1%3A9092&var-broker_id=1"
        "&var-client_id=orders&var-client_kind=producer&var-namespace=shop&var-process=java&",
    }


def test_the_address_of_a_dashboard_holds_no_label_of_the_rule_and_any_client_id():
    clock = Clock(short(), rule_labels={"team": "streaming"})
    hostile = {"client_id": "a b&var-x=1#ä"}
    clock.look(finding(**hostile))
    [alert] = clock.look(finding(**hostile), after=10)
    address = alert.annotations["dashboard_url"]
    assert "&var-client_id=a+b%26var-x%3D1%23%C3%A4&" in address
    assert "team" not in address
    assert "alertname" not in address


def test_what_stops_before_its_time_was_nothing():
    clock = Clock(short())
    assert clock.last(8, finding()) == []
    assert clock.look(after=2) == []
    assert clock.states.counts()[Phase.PENDING] == 0
    assert clock.last(10, finding()) == []
    assert len(clock.look(finding(), after=2)) == 1


def test_it_is_sent_again_each_interval_as_one_episode():
    clock = Clock(short())
    sent = clock.last(10 + 5 * INTERVAL + 2, finding())
    assert len(sent) == 6
    assert {(alert.key, alert.starts_at) for alert in sent} == {(sent[0].key, sent[0].starts_at)}
    assert [alert.ends_at - sent[0].ends_at for alert in sent] == [n * INTERVAL for n in range(6)]


def test_it_goes_on_firing_for_a_while_and_is_then_resolved():
    clock = Clock(short())
    [first] = clock.last(12, finding())
    assert clock.last(20) == []
    [resolved] = clock.look(after=2)
    assert (resolved.key, resolved.starts_at) == (first.key, first.starts_at)
    assert resolved.ends_at == clock.wall
    again = clock.last(RESOLVED_SECONDS + 100)
    assert {alert.ends_at for alert in again} == {resolved.ends_at}
    assert len(again) == RESOLVED_SECONDS // INTERVAL
    assert clock.states.counts() == dict.fromkeys(Phase, 0)


def test_flapping_is_one_episode():
    clock = Clock(short())
    sent = clock.last(12, finding())
    for _ in range(10):
        sent += clock.last(18)
        sent += clock.last(2, finding())
    assert {alert.starts_at for alert in sent} == {sent[0].starts_at}
    assert all(alert.ends_at > WALL + 200 for alert in sent)


def test_what_comes_again_after_its_end_is_another_episode():
    clock = Clock(short())
    [first] = clock.last(12, finding())
    [resolved] = clock.last(22)
    assert clock.last(10, finding()) == []
    [second] = clock.last(2, finding())
    assert second.key == first.key
    assert second.starts_at > resolved.ends_at


def test_without_durations_it_fires_and_ends_at_once():
    clock = Clock(short(fire_after=0.0, keep_firing_for=0.0))
    [alert] = clock.look(finding())
    [resolved] = clock.look(after=2)
    assert (alert.starts_at, resolved.ends_at) == (WALL, WALL + 2)


def test_a_finding_that_rules_remember_over_missing_scrapes_is_remembered():
    """A frozen peer looks healthy for 15 s each time that its client connects anew."""
    clock = Clock(short(FROZEN, fire_after=100.0), short(fire_after=100.0))
    sent = []
    for _ in range(6):
        sent += clock.last(16, finding(FROZEN), finding())
        sent += clock.last(16)
    assert {alert.labels["alertname"] for alert in sent} == {FROZEN}
    sent = clock.last(Thresholds().gap + 22)
    assert sent[-1].ends_at == pytest.approx(clock.wall, abs=20)


@pytest.mark.parametrize("step", [-86_400.0, 86_400.0, -1e12, 1e15])
def test_a_step_of_the_wall_clock_ends_and_begins_nothing(step):
    clock = Clock(short())
    assert clock.last(10, finding()) == []
    clock.wall += step
    assert clock.look(finding(), after=1) == []
    [first] = clock.look(finding(), after=1)
    clock.wall -= 2 * step
    sent = clock.last(INTERVAL, finding())
    assert [alert.starts_at for alert in sent] == [first.starts_at]
    [resolved] = clock.last(22)
    assert all(alert.starts_at <= alert.ends_at for alert in (first, *sent, resolved))


def test_a_machine_that_slept_re_sends_once():
    clock = Clock(short())
    clock.last(12, finding())
    assert len(clock.look(finding(), after=86_400.0)) == 1


def test_alerts_are_bounded_and_what_is_left_out_is_counted_once():
    clock = Clock(short(), most=3)
    many = [finding(client_id=f"c{n}") for n in range(10)]
    sent = clock.last(20, *many)
    assert len({alert.key for alert in sent}) == 3
    assert clock.states.refused == 7
    assert sum(clock.states.counts().values()) == 3


def test_what_is_over_makes_room_for_what_is_new():
    clock = Clock(short(), most=2)
    clock.last(12, finding(client_id="a"), finding(client_id="b"))
    clock.last(22, finding(client_id="a"))
    assert clock.states.counts()[Phase.RESOLVED] == 1
    sent = clock.last(12, finding(client_id="a"), finding(client_id="c"))
    assert "c" in {alert.labels["client_id"] for alert in sent}
    assert clock.states.refused == 0


def test_thresholds_and_switches_of_the_rules_hold():
    few = finding(value=2.0)
    clock = Clock(short(), thresholds=Thresholds(zombie_connections=3))
    assert clock.last(20, few) == []
    assert clock.last(12, finding(value=3.0)) != []
    assert Clock(AlertOverride(name=ZOMBIES, enabled=False)).last(400, few) == []


def test_a_limit_is_a_share_and_its_finding_tells_percent():
    name = "KafkaClientNearDescriptorLimit"
    near = Thresholds(descriptor_percent=90)
    assert Clock(short(name), thresholds=near).last(20, finding(name, value=85.0)) == []
    assert Clock(short(name), thresholds=near).last(20, finding(name, value=91.0)) != []


def test_findings_with_the_same_labels_are_one_alert():
    clock = Clock(short())
    sent = clock.last(12, finding(value=1.0), finding(value=5.0))
    assert len(sent) == 1


def test_labels_are_those_of_the_alert_and_harmless():
    clock = Clock(short())
    strange = finding(client_id="a\n" + "x" * 500, process="\udcff", more="not the alert's")
    [alert] = clock.last(12, strange)
    assert set(alert.labels) == {*LABELS, "alertname", "severity"}
    assert all(v.isprintable() and len(v.encode()) <= 128 for v in alert.labels.values())


def test_what_is_no_alert_is_not_sent():
    assert Clock().last(4000, finding("SomethingElse"), step=20) == []
