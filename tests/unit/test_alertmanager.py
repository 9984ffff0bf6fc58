"""The queue, the one who sends, and the sink that feeds them: by hand, with no thread."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest

from exporter.alerting.alertmanager import AlertmanagerSink
from exporter.alerting.delivery import (
    LEAST_BETWEEN_TRIES,
    LONGEST_PAUSE,
    MOST_AT_ONCE,
    Delivery,
    alerts_document,
    pause_after,
)
from exporter.alerting.queue import AlertQueue
from exporter.alerting.states import Alert
from exporter.alerts.settings import AlertOverride, RuleSettings
from exporter.config.files import settings_from_text
from exporter.config.settings import LimitSettings
from exporter.errors import ConfigError, SourceUnavailableError
from exporter.metrics.catalogue import SPECS
from exporter.snapshot import Finding, Severity
from tests.unit.snapshots import snapshot

WALL = 1_767_225_600.25


def alert(name="a", ends_at=WALL + 240) -> Alert:
    return Alert(
        labels={"alertname": name}, annotations={"summary": "s"}, starts_at=WALL, ends_at=ends_at
    )


def names(alerts):
    return [each.labels["alertname"] for each in alerts]


class Alertmanager:
    """Takes bodies, or refuses them."""

    def __init__(self):
        self.bodies: list = []
        self.error: Exception | None = None

    def __call__(self, body: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.bodies.append(json.loads(body))


def delivery(send, **changes) -> Delivery:
    values = {"most": 1000, "generator_url": None, "wall_clock": lambda: WALL}
    return Delivery("http://am:9093", send, **(values | changes))


# The queue


def test_a_newer_word_takes_the_place_of_the_older():
    queue = AlertQueue(10)
    queue.put([alert("a"), alert("b")])
    queue.put([alert("a", ends_at=WALL + 999)])
    taken = queue.take(5)
    assert names(taken) == ["a", "b"]
    assert taken[0].ends_at == WALL + 999
    assert len(queue) == queue.dropped == 0


def test_a_full_queue_drops_the_oldest_and_counts():
    queue = AlertQueue(3)
    queue.put([alert(str(n)) for n in range(5)])
    assert queue.dropped == 2
    assert names(queue.take(9)) == ["2", "3", "4"]


def test_what_could_not_be_sent_goes_to_the_front_unless_there_is_newer_word():
    queue = AlertQueue(4)
    queue.put([alert(n) for n in "abcd"])
    taken = queue.take(3)
    queue.put([alert("b", ends_at=1.0), alert("e")])
    queue.put_back(taken)
    assert queue.dropped == 1
    rest = queue.take(9)
    assert names(rest) == ["c", "d", "b", "e"]
    assert rest[2].ends_at == 1.0


# Who sends


def test_the_body_is_what_alertmanager_reads():
    [told] = json.loads(alerts_document([alert()], "https://page.example/"))
    assert told == {
        "labels": {"alertname": "a"},
        "annotations": {"summary": "s"},
        "startsAt": "2026-01-01T00:00:00.250+00:00",
        "endsAt": "2026-01-01T00:04:00.250+00:00",
        "generatorURL": "https://page.example/",
    }


@pytest.mark.parametrize("wall", [-1e18, 1e18])
def test_a_clock_that_is_not_set_breaks_no_body(wall):
    [told] = json.loads(alerts_document([replace(alert(), starts_at=wall, ends_at=wall)], None))
    assert told["startsAt"][:4] in {"1970", "9999"}
    assert "generatorURL" not in told


def test_what_is_sent_is_counted_and_the_next_request_waits():
    manager = Alertmanager()
    one = delivery(manager)
    one.put([alert(str(n)) for n in range(MOST_AT_ONCE + 1)])
    assert one.send_once() == LEAST_BETWEEN_TRIES
    assert one.send_once() == LEAST_BETWEEN_TRIES
    assert one.send_once() == 0.0
    assert [len(body) for body in manager.bodies] == [MOST_AT_ONCE, 1]
    assert (one.figures.sent, one.figures.last_success) == (MOST_AT_ONCE + 1, WALL)


def test_one_that_is_away_is_tried_again_with_patience_and_nothing_is_lost(caplog):
    manager = Alertmanager()
    one = delivery(manager)
    one.put([alert()])
    manager.error = SourceUnavailableError("cannot read http://am:9093: Connection refused")
    rests = [one.send_once() for _ in range(12)]
    assert all(LEAST_BETWEEN_TRIES <= rest <= LONGEST_PAUSE for rest in rests)
    assert rests[-1] >= LONGEST_PAUSE / 2
    assert one.figures.failures == 12
    assert len(caplog.records) == 1
    manager.error = None
    assert one.send_once() == LEAST_BETWEEN_TRIES
    assert names([alert()]) == [manager.bodies[0][0]["labels"]["alertname"]]


def test_a_bug_costs_one_batch_and_not_the_thread(caplog):
    manager = Alertmanager()
    manager.error = RuntimeError("token-like text must not be shown")
    one = delivery(manager)
    one.put([alert()])
    assert one.send_once() >= LEAST_BETWEEN_TRIES
    assert (len(one.queue), one.figures.lost) == (0, 1)
    assert "bug" in caplog.text


def test_pauses_grow_are_spread_and_bounded():
    assert pause_after(1, 0.0) == 1.0
    assert pause_after(1, 1.0) == 2.0
    assert pause_after(3, 0.0) < pause_after(3, 1.0)
    assert pause_after(10_000, 1.0) == LONGEST_PAUSE


# The sink

RULES = RuleSettings(
    alerts=(
        AlertOverride(name="KafkaClientZombieConnections", fire_after=10.0),
        AlertOverride(name="BrokerwirePollTooOld", fire_after=10.0),
    )
)
ZOMBIE = Finding(
    name="KafkaClientZombieConnections",
    severity=Severity.WARNING,
    labels={"client_id": "orders", "broker": "10.2.0.1:9092"},
    summary="",
    description="d",
    remedy="r",
    value=1.0,
)


class Stage:
    def __init__(self, text="alertmanager: {targets: [{url: 'http://a:9093'}]}"):
        self.now = 100.0
        self.snapshot = replace(snapshot(), at=100.0, findings=(ZOMBIE,))
        self.networks = [{}]
        self.managers = {}
        settings = settings_from_text(text, "file").alertmanager
        self.sink = AlertmanagerSink(
            settings,
            RULES,
            LimitSettings(),
            lambda: [(labels, self.snapshot) for labels in self.networks],
            lambda target: self.managers.setdefault(target.url, Alertmanager()),
            clock=lambda: self.now,
            wall_clock=lambda: WALL + self.now,
        )

    def last(self, seconds, *, polls=True):
        for _ in range(seconds // 2):
            self.now += 2
            if polls and self.snapshot is not None:
                self.snapshot = replace(self.snapshot, at=self.now)
            self.sink.look_once()

    def deliver(self):
        for each in self.sink._deliveries:
            each.send_once()

    def readings(self):
        return {(name, *labels): value for name, labels, value in self.sink.readings()}


TWO = """
alertmanager:
  targets: [{url: 'http://a:9093'}, {url: 'http://b:9093/prefix/'}]
  external_url: https://brokerwire.example/shop
"""


def test_every_alertmanager_hears_of_it_whatever_becomes_of_the_others():
    stage = Stage(TWO)
    stage.managers["http://a:9093"].error = SourceUnavailableError("away")
    stage.last(12)
    stage.deliver()
    [[told]] = stage.managers["http://b:9093/prefix/"].bodies
    assert told["labels"]["alertname"] == ZOMBIE.name
    assert told["generatorURL"] == "https://brokerwire.example/shop"
    readings = stage.readings()
    assert readings["brokerwire_alerts", "firing"] == 1
    assert readings["brokerwire_alerts_sent_total", "http://b:9093/prefix/"] == 1
    assert readings["brokerwire_alerts_queued", "http://a:9093"] == 1
    assert readings["brokerwire_alert_request_failures_total", "http://a:9093"] == 1
    assert ("brokerwire_alerts_last_success_timestamp_seconds", "http://a:9093") not in readings
    assert {name for name, *_ in readings} <= set(SPECS)


def test_findings_of_an_old_poll_end_and_the_poll_itself_is_told():
    stage = Stage()
    stage.last(12)
    stage.last(180 + 900 + 20, polls=False)
    stage.deliver()
    told = {each["labels"]["alertname"]: each for each in stage.managers["http://a:9093"].bodies[0]}
    assert set(told) == {ZOMBIE.name, "BrokerwirePollTooOld"}
    # What was found last holds for `gap`, and then for `keep_firing_for`.
    ended = datetime.fromisoformat(told[ZOMBIE.name]["endsAt"]).timestamp() - WALL
    assert ended == pytest.approx(100 + 12 + 180 + 900, abs=4)
    assert stage.readings()["brokerwire_alerts", "resolved"] == 1
    assert stage.readings()["brokerwire_alerts", "firing"] == 1


def test_an_agent_that_never_could_poll_says_so():
    stage = Stage()
    stage.snapshot = None
    stage.last(320)
    assert stage.readings()["brokerwire_alerts", "firing"] == 1


def test_networks_of_a_machine_are_told_apart_and_end_each_for_itself():
    stage = Stage()
    places = [{"network": "1", "namespace": "shop", "pod": "orders-0"}, {"network": "2"}]
    stage.networks = [*places]
    stage.last(12)
    stage.deliver()
    (told,) = stage.managers["http://a:9093"].bodies
    known = ("network", "namespace", "pod")
    names = [{k: v for k, v in each["labels"].items() if k in known} for each in told]
    assert names == places
    assert {each["labels"]["client_id"] for each in told} == {"orders"}
    stage.networks = [places[1]]
    stage.last(900 + 10)
    counts = stage.readings()
    assert counts["brokerwire_alerts", "resolved"] == 1
    assert counts["brokerwire_alerts", "firing"] == 1


# The configuration


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{targets: []}", "must name 1 to 8"),
        ("{}", "needs `targets`"),
        ("{targets: [{url: 'http://a'}, {url: 'http://a/'}]}", "more than once"),
        ("{targets: [{url: 'http://user:geheim@a'}]}", "URL without user"),
        ("{targets: [{url: 'http://a?token=geheim'}]}", "must not have a query"),
        ("{targets: [{url: 'http://a', username: u}]}", "needs `password_file`"),
        ("{targets: [{url: 'http://a', key_file: k}]}", "needs `cert_file`"),
        ("{targets: [{url: 'http://a'}], interval: 10ms}", "1s or more"),
        ("{targets: [{url: 'http://a'}], labels: {severity: x}}", "'severity'"),
        ("{targets: [{url: 'http://a'}], labels: {a-b: x}}", "'a-b'"),
        ("{targets: [{url: 'http://a'}], external_url: 'javascript:x'}", "http:// or https://"),
    ],
)
def test_mistakes_are_named(section, words):
    with pytest.raises(ConfigError) as told:
        settings_from_text(f"alertmanager: {section}", "file")
    assert words in str(told.value)
    assert "geheim" not in str(told.value)


def test_no_section_means_no_alerts():
    assert settings_from_text("alertmanager:\n", "file").alertmanager is None
