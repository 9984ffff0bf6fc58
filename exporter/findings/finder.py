"""Evaluates all findings when something has changed, and keeps them until then.

Pure.
"""

from __future__ import annotations

__all__ = ["Finder"]

from typing import TYPE_CHECKING

from exporter.alerts.settings import Thresholds
from exporter.findings.churn import find_churn
from exporter.findings.findings import Held, find
from exporter.findings.limits import find_near_limits
from exporter.findings.watches import EfficiencyWatch, StormWatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exporter.config.settings import ClassSettings
    from exporter.engine.engine import Engine
    from exporter.snapshot import BrokerLimits, Finding, OpenFiles, SourceStatus, Totals

# Findings are made again when a count changed, at most and at least so often.
FINDINGS_SECONDS = (2.0, 15.0)


class Finder:
    """Makes the findings of a snapshot."""

    def __init__(
        self, settings: ClassSettings, limits: BrokerLimits, thresholds: Thresholds | None = None
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._thresholds = thresholds or Thresholds()
        self._storms = StormWatch(self._thresholds)
        self._efficiency = EfficiencyWatch(self._thresholds)
        self._findings: tuple[Finding, ...] = ()
        self._at = float("-inf")
        self._changes = 0

    def find(
        self,
        engine: Engine,
        totals: Totals,
        sources: Iterable[SourceStatus],
        open_files: Mapping[str, OpenFiles],
        now: float,
    ) -> tuple[Finding, ...]:
        """Return everything that somebody should change, as of the last look."""
        least, most = FINDINGS_SECONDS
        since = now - self._at
        if since >= most or (since >= least and engine.changes != self._changes):
            self._at, self._changes = now, engine.changes
            closed = engine.closed_lately
            more = (
                *find_churn(closed, now, self._thresholds.failed_connects),
                *find_near_limits(
                    engine.counts.by_class, self._limits, open_files, self._thresholds
                ),
                *self._storms.find(engine.counts.by_class, closed, now),
                *self._efficiency.find(totals, now),
            )
            held = Held(
                processes=engine.processes,
                threads=engine.groups.threads,
                expected=engine.counts.expected,
            )
            self._findings = find(
                engine.connections,
                sources,
                self._settings,
                more,
                held=held,
                thresholds=self._thresholds,
            )
        return self._findings
