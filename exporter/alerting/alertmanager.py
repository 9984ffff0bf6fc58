"""Alerts without a Prometheus: findings become alerts, which are sent to every Alertmanager.

One thread reads the last snapshot and decides what has to be sent; each Alertmanager has a queue
and a thread of its own, so that one that does not answer does not delay the others.
What the alerts are called, how long they wait and what they say is in `exporter.alerts`, for the
rule files and for this alike.
"""

from __future__ import annotations

__all__ = ["AlertmanagerSink"]

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.alerting.delivery import Delivery
from exporter.alerting.states import AlertStates
from exporter.alerts.render import alerts_of
from exporter.findings.findings import finding_of_alert
from exporter.text import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exporter.alerts.settings import RuleSettings
    from exporter.config.alertmanager import AlertmanagerTarget
    from exporter.config.settings import AlertmanagerSettings, LimitSettings
    from exporter.metrics.families import Reading
    from exporter.snapshot import Finding, Snapshot

    MakeSend = Callable[[AlertmanagerTarget], Callable[[bytes], None]]
    # Each with its distinguishing labels; None: it could not be read yet.
    Looked = Iterable[tuple[Mapping[str, str], Snapshot | None]]

log = logging.getLogger("brokerwire.alertmanager")

# The agent makes its findings again every two seconds at most.
LOOK_SECONDS = 2.0
STOP_SECONDS = 0.3
API_PATH = "/api/v2/alerts"


class AlertmanagerSink:
    """Follows the findings from `start` to `stop`.

    `look` gives the last snapshot of every network that is watched: one, or those of a machine.
    `make_send` gives the way to post a body to a target; it raises SourceError where that fails.
    """

    def __init__(  # noqa: PLR0913  (the clocks have defaults)
        self,
        settings: AlertmanagerSettings,
        rules: RuleSettings,
        limits: LimitSettings,
        look: Callable[[], Looked],
        make_send: MakeSend,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._rules = rules
        self._look = look
        self._clock = clock
        self._wall_clock = wall_clock
        self._started = clock()
        self._states = AlertStates(
            alerts_of(rules),
            rules,
            interval=settings.interval,
            labels=settings.labels,
            label_bytes=limits.label_bytes,
            most=settings.max_alerts,
        )
        self._deliveries = [
            Delivery(
                target.url,
                make_send(target),
                most=settings.max_alerts,
                generator_url=settings.external_url,
                wall_clock=wall_clock,
            )
            for target in settings.targets
        ]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerwire-alerts", daemon=True)

    def start(self) -> None:
        """Start all threads."""
        for delivery in self._deliveries:
            delivery.start()
        self._thread.start()

    def stop(self) -> None:
        """End soon; alerts that fire now end by themselves, or go on with the next agent."""
        self._stopping.set()
        until = time.monotonic() + STOP_SECONDS
        for delivery in self._deliveries:
            delivery.stop()
        for delivery in self._deliveries:
            delivery.join(until - time.monotonic())

    def look_once(self) -> None:
        """Take the last snapshots' findings and put what has to be sent into every queue."""
        now = self._clock()
        found = [
            replace(finding, labels={**finding.labels, **labels}) if labels else finding
            for labels, snapshot in self._look()
            for finding in self._findings(snapshot, now)
        ]
        due = self._states.update(found, now, self._wall_clock())
        for delivery in self._deliveries:
            delivery.put(due)

    def readings(self) -> list[Reading]:
        """Return how many alerts there are, and how each Alertmanager takes them."""
        readings: list[Reading] = [
            ("brokerwire_alerts", (str(phase),), count)
            for phase, count in self._states.counts().items()
        ]
        for delivery in self._deliveries:
            who = (delivery.name,)
            figures, queue = delivery.figures, delivery.queue
            dropped = figures.lost + queue.dropped + self._states.refused
            readings += [
                ("brokerwire_alerts_sent_total", who, figures.sent),
                ("brokerwire_alert_request_failures_total", who, figures.failures),
                ("brokerwire_alerts_dropped_total", who, dropped),
                ("brokerwire_alerts_queued", who, len(queue)),
            ]
            if figures.last_success is not None:
                readings.append(
                    (
                        "brokerwire_alerts_last_success_timestamp_seconds",
                        who,
                        figures.last_success,
                    )
                )
        return readings

    def _findings(self, snapshot: Snapshot | None, now: float) -> tuple[Finding, ...]:
        """Return what is found; of an old poll as long as the rules keep the last scrape."""
        read_at = self._started if snapshot is None else snapshot.at
        age = now - read_at
        found: tuple[Finding, ...] = ()
        if snapshot is not None and age <= self._rules.thresholds.gap:
            found = snapshot.findings
        if age > self._rules.thresholds.poll_age:
            found = (*found, _poll_too_old(age))
        return found

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self.look_once()
            except Exception:
                # One finding that nobody thought of must not end all alerts.
                log.exception("bug while following the findings")


def _poll_too_old(age: float) -> Finding:
    text = f"The socket table was last read {duration(age)} ago."
    return finding_of_alert("BrokerwirePollTooOld", {}, text, 1.0)
