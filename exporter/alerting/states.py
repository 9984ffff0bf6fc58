"""From findings to alerts: pending, firing, resolved, by the durations of the rules.

Pure: findings and two times in, alerts out. How long something has lasted is measured by
the monotonic time alone; the wall clock's is only written into the alerts.
"""

from __future__ import annotations

__all__ = ["RESOLVED_SECONDS", "Alert", "AlertKey", "AlertStates", "Phase"]

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from exporter.alerts.links import dashboard_url, runbook_url
from exporter.metrics.labels import safe_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exporter.alerts.settings import RuleSettings
    from exporter.alerts.spec import AlertSpec
    from exporter.snapshot import Finding

AlertKey = tuple[tuple[str, str], ...]

# Alertmanager forgets an alert that ended; one that was restarted meanwhile has to hear of it.
# Prometheus re-sends for as long.
RESOLVED_SECONDS = 900.0

# An alert ends by itself when nobody has sent it again for so many intervals, as Prometheus has it.
INTERVALS_AHEAD = 4

# What each rule adds to the labels of its series.
_OF_EVERY_RULE = ("alertname", "severity")

# What distinguishes the networks of a machine (`NetworkView.labels`), where there are several.
_OF_NETWORK = ("network", "namespace", "pod")

# Longer than any text that a finding is made of.
LONGEST_TEXT = 2048


class Phase(StrEnum):
    """Where an alert is in its life (the values of the label `state`)."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What an Alertmanager is to know now; the times are the wall clock's.

    One episode keeps its labels and `starts_at`.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: float
    ends_at: float

    @property
    def key(self) -> AlertKey:
        """The identity of an alert, as Alertmanager has it."""
        return tuple(sorted(self.labels.items()))


@dataclass(slots=True)
class _Episode:
    """One alert's life; all times are monotonic but `started_wall` and `ended_wall`."""

    spec: AlertSpec
    labels: Mapping[str, str]
    finding: Finding
    since: float
    seen: float
    phase: Phase = Phase.PENDING
    false_since: float | None = None
    started_wall: float = 0.0
    ended: float = 0.0
    ended_wall: float = 0.0
    sent: float = float("-inf")


class AlertStates:
    """All alerts of one agent, at most `most` of them."""

    def __init__(
        self,
        specs: Iterable[AlertSpec],
        rules: RuleSettings,
        *,
        interval: float,
        labels: Mapping[str, str],
        label_bytes: int,
        most: int,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._rules = rules
        self._least = {spec.name: _least(spec, rules) for spec in self._specs.values()}
        self._interval = interval
        self._labels = {**rules.labels, **labels}
        self._label_bytes = label_bytes
        self._most = most
        self._episodes: dict[AlertKey, _Episode] = {}
        self._refused: set[AlertKey] = set()
        self.refused = 0
        """Alerts for which there was no room, since the start."""

    def counts(self) -> dict[Phase, int]:
        """Return how many alerts there are of each phase."""
        counted = Counter(episode.phase for episode in tuple(self._episodes.values()))
        return {phase: counted[phase] for phase in Phase}

    def update(self, findings: Iterable[Finding], now: float, wall: float) -> list[Alert]:
        """Take what is found now; return the alerts that have to be sent now."""
        present = self._by_labels(findings)
        self._admit(present, now)
        due = []
        for key, episode in tuple(self._episodes.items()):
            finding = present.get(key)
            if finding is not None:
                episode.finding = finding[1]
                episode.seen = now
            self._advance(episode, now, wall, is_true=self._is_true(episode, now))
            if self._is_over(episode, now):
                del self._episodes[key]
            elif episode.phase is not Phase.PENDING and now - episode.sent >= self._interval:
                episode.sent = now
                due.append(self._alert(episode, wall))
        return due

    def _by_labels(
        self, findings: Iterable[Finding]
    ) -> dict[AlertKey, tuple[Mapping[str, str], Finding]]:
        """Give each finding the labels of its alert; of several with the same, the first speaks."""
        known: dict[AlertKey, tuple[Mapping[str, str], Finding]] = {}
        for finding in findings:
            spec = self._specs.get(finding.name)
            if spec is not None and finding.value >= self._least[spec.name]:
                labels = self._labels_of(spec, finding)
                known.setdefault(tuple(sorted(labels.items())), (labels, finding))
        return known

    def _labels_of(self, spec: AlertSpec, finding: Finding) -> dict[str, str]:
        own = {name: finding.labels.get(name, "") for name in (*spec.labels, *_OF_NETWORK)}
        labels = {
            **own,
            **self._labels,
            "alertname": spec.name,
            "severity": str(spec.severity),
        }
        return {
            name: safe_label(value, self._label_bytes) for name, value in labels.items() if value
        }

    def _admit(
        self, present: Mapping[AlertKey, tuple[Mapping[str, str], Finding]], now: float
    ) -> None:
        """Begin an episode for what is new, in the place of what is over where there is no room."""
        over = [key for key, each in self._episodes.items() if each.phase is Phase.RESOLVED]
        over.reverse()
        refused = set()
        for key, (labels, finding) in present.items():
            known = self._episodes.get(key)
            if known is not None and known.phase is not Phase.RESOLVED:
                continue
            if known is None and len(self._episodes) >= self._most:
                while over and over[-1] in present:
                    over.pop()
                if not over:
                    refused.add(key)
                    continue
                del self._episodes[over.pop()]
            # A finding may be reported late, so as not to alarm too soon: the rule waits only once.
            since = now if finding.begun_at is None else min(now, finding.begun_at)
            self._episodes[key] = _Episode(self._specs[finding.name], labels, finding, since, now)
        self.refused += len(refused - self._refused)
        self._refused = refused

    def _is_true(self, episode: _Episode, now: float) -> bool:
        if episode.seen == now:
            return True
        # A frozen peer is none for 15 s each time that its client connects again.
        return episode.spec.reads_findings and now - episode.seen < self._rules.thresholds.gap

    def _advance(self, episode: _Episode, now: float, wall: float, *, is_true: bool) -> None:
        spec = episode.spec
        if is_true:
            episode.false_since = None
        elif episode.false_since is None:
            episode.false_since = now
        if episode.phase is Phase.PENDING:
            if is_true and now - episode.since >= spec.fire_after.seconds:
                episode.phase = Phase.FIRING
                episode.started_wall = wall
        elif (
            episode.phase is Phase.FIRING
            and episode.false_since is not None
            and now - episode.false_since >= spec.keep_firing_for.seconds
        ):
            episode.phase = Phase.RESOLVED
            episode.ended, episode.ended_wall = now, wall
            episode.sent = float("-inf")

    @staticmethod
    def _is_over(episode: _Episode, now: float) -> bool:
        if episode.phase is Phase.PENDING:
            return episode.false_since is not None
        return episode.phase is Phase.RESOLVED and now - episode.ended > RESOLVED_SECONDS

    def _alert(self, episode: _Episode, wall: float) -> Alert:
        starts = episode.started_wall
        if episode.phase is Phase.RESOLVED:
            ends = episode.ended_wall
            # Where the wall clock was set back meanwhile: an end before the start is refused.
            starts = min(starts, ends)
        else:
            ends = max(wall, starts) + INTERVALS_AHEAD * self._interval
        return Alert(
            labels=episode.labels,
            annotations=self._annotations(episode),
            starts_at=starts,
            ends_at=ends,
        )

    def _annotations(self, episode: _Episode) -> dict[str, str]:
        spec, finding, links = episode.spec, episode.finding, self._rules.links
        texts = {
            "summary": spec.summary,
            "description": finding.description,
            "remedy": finding.remedy,
            "runbook_url": runbook_url(spec, links),
            "dashboard_url": dashboard_url(spec, links, self._variables(episode.labels)),
        }
        return {name: safe_label(text, LONGEST_TEXT) for name, text in texts.items()}

    def _variables(self, labels: Mapping[str, str]) -> str:
        """Write the labels of the alert's series as the rules' template does (`OF_LABELS`)."""
        of_rule = {*_OF_EVERY_RULE, *self._rules.labels}
        return "".join(
            f"var-{name}={quote_plus(value)}&"
            for name, value in sorted(labels.items())
            if name not in of_rule
        )


def _least(spec: AlertSpec, rules: RuleSettings) -> int:
    """Return the value from which on a finding is this alert."""
    least: int = getattr(rules.thresholds, spec.least) if spec.least else 0
    return least
