"""The types of alerts and recording rules."""

from __future__ import annotations

__all__ = ["AlertSpec", "RecordingSpec", "Timing"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.model import ConnectionClass
    from exporter.snapshot import Severity


class Timing(NamedTuple):
    """A duration in seconds, and why it is that long."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSpec:
    """One alert, for Prometheus and for the agent alike.

    `expression` is PromQL with `$threshold` where a field of `Thresholds` is meant; `reasons` says
    of each of these why its default is what it is. `labels` are those that the alert carries by
    itself; the scrape's own (`namespace`, `pod`, `job`, `instance`) come with the series. The
    findings of an alert about a broker name the client, too: the agent sends the first of them.
    `description` is a Prometheus template; `remedy` follows it. `given` names a threshold without
    a default, which the agents know; where an operator gives it, `expression_if_given` is taken.
    A finding of the same name has the severity, the summary and the remedy from here, too.
    """

    name: str
    group: str
    severity: Severity
    expression: str
    reasons: Mapping[str, str]
    fire_after: Timing
    keep_firing_for: Timing
    labels: tuple[str, ...]
    summary: str
    description: str
    remedy: str
    dashboard: str
    given: str = ""
    expression_if_given: str = ""
    connection_class: ConnectionClass | None = None
    """The class of connection that is this finding by itself."""
    least: str = ""
    """The threshold that a finding's value must reach to be an alert; "" where any value is one."""
    counts_connections: bool = True
    """Whether a finding's value is a number of connections, and not a percentage or an age."""
    reads_findings: bool = False
    """Whether the rule reads what the agent found within `gap`, and not the figures themselves."""

    @property
    def waits_for_each_pod(self) -> bool:
        """Whether the expression itself waits for `fire_after`, so that the rule has no `for`."""
        return "$steps" in self.expression

    @property
    def runbook(self) -> str:
        """The name of its page in docs/runbooks/, without the suffix."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSpec:
    """One recording rule; `why` becomes its comment where it has one."""

    group: str
    name: str
    expression: str
    why: str = ""
