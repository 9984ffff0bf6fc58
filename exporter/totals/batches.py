"""When the journal's records are made, and what a batch of them says.

At each poll `turn` is told both clocks before the engine hears of the poll: what is open was open
until a moment between the polls, and that is the whole minute. Durations come from the monotonic
clock, the minutes from the wall clock, whose leaps are handled here.
Pure.
"""

from __future__ import annotations

__all__ = ["Journal"]

from typing import TYPE_CHECKING, Any

from exporter.findings.durations import FindingAccounts
from exporter.snapshot import BrokerLimits
from exporter.totals.journal_series import JournalTotals
from exporter.totals.journal_values import SCHEMA_VERSION, AgentFigures, Batch
from exporter.totals.series import microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exporter.connections.view import View
    from exporter.snapshot import Finding
    from exporter.totals.journal_values import Place
    from exporter.totals.series import Series

    Held = Iterable[tuple[View, Series]]

HOUR_MS = 3_600_000

# A wall clock that goes back less repeats minutes: those are left out. One that goes back further
# would leave out too much, so the counters begin anew.
MOST_REPEATED_MS = 60_000


class Journal:
    """The journal of an agent's life, cut into batches.

    `new_boot_id` gives 32 hexadecimal digits that were never given before.
    """

    def __init__(
        self,
        place: Place,
        *,
        interval: float,
        most_series: int,
        limits: BrokerLimits | None = None,
        new_boot_id: Callable[[], str],
    ) -> None:
        self.totals = JournalTotals(most_series)
        self._findings = FindingAccounts(most_series, self.totals.next_number)
        self._place = place
        self._interval_ms = round(interval * 1000)
        self._limits = limits or BrokerLimits()
        self._new_boot_id = new_boot_id
        self._boot_id = ""
        self._boot_reason = "start"
        self._since_ms = 0
        self._seq = 0
        self._at_ms = 0
        self._now = 0
        self._wall_ms = 0
        self._base = AgentFigures()
        self._figures = AgentFigures()
        self._covered_us = 0
        self._own_us = 0

    def turn(self, now: float, wall_time: float, figures: AgentFigures, held: Held) -> list[Batch]:
        """Take the time of a poll that worked, before its news; return what is to be written.

        `figures` and `held`, the connections with their series, are as of the poll before.
        """
        at, wall_us = microseconds(now), microseconds(wall_time)
        wall_ms = wall_us // 1000
        batches = []
        if not self._boot_id:
            self._begin(at, wall_ms, "start")
        elif wall_ms < self._at_ms - MOST_REPEATED_MS:
            batches.append(self._final(at, figures, held))
            self._begin(at, wall_ms, "clock_step")
        else:
            at_ms = wall_ms - wall_ms % self._interval_ms
            if at_ms > self._at_ms:
                # Where the clock leapt, the whole minute may seem to be before the last poll.
                moment = max(self._now, at - (wall_us - at_ms * 1000))
                batches.append(self._cut(moment, at_ms, figures, held))
            self._cover(at, figures)
        self._now, self._wall_ms, self._figures = at, wall_ms, figures
        self.totals.turn(at, max(wall_ms, self._at_ms))
        return batches

    def found(self, findings: Iterable[Finding]) -> None:
        """Take what the poll of the last turn has found."""
        self._findings.update(findings, self._now, max(self._wall_ms, self._at_ms))

    def finish(self, now: float, figures: AgentFigures, held: Held) -> list[Batch]:
        """Return the last batch; none where there was no turn."""
        return [self._final(microseconds(now), figures, held)] if self._boot_id else []

    # ---- inside -------------------------------------------------------------------------------

    def _begin(self, at: int, wall_ms: int, reason: str) -> None:
        self._boot_id, self._boot_reason = self._new_boot_id(), reason
        self._since_ms = self._at_ms = self._wall_ms = wall_ms
        self._seq = 0
        self._now = at
        self._covered_us = self._own_us = 0
        # What was counted before the first boot began belongs to it.
        self._base = AgentFigures() if reason == "start" else self._figures
        self.totals.begin_anew(at, wall_ms)
        self._findings.begin_anew(at, wall_ms)

    def _final(self, at: int, figures: AgentFigures, held: Held) -> Batch:
        at = max(at, self._now)
        # By the clock as it was: a step must not show here.
        at_ms = max(self._at_ms + 1, self._wall_ms + (at - self._now) // 1000)
        batch = self._cut(at, at_ms, figures, held, final=True)
        self._figures = figures
        return batch

    def _cover(self, until: int, figures: AgentFigures) -> None:
        """Add the time since the last poll or cut, unless a poll has failed meanwhile."""
        elapsed, self._now = until - self._now, until
        if figures.failed_polls == self._figures.failed_polls:
            self._covered_us += elapsed
        self._own_us += elapsed * figures.own_connections

    def _cut(
        self,
        at: int,
        at_ms: int,
        figures: AgentFigures,
        held: Held,
        *,
        final: bool = False,
    ) -> Batch:
        self._cover(at, figures)
        everything = final or at_ms // HOUR_MS > self._at_ms // HOUR_MS
        self._at_ms = at_ms
        self._seq += 1
        connections = self.totals.records(at, held, everything=everything)
        limits = self._limits._asdict()
        for record in connections:
            record |= {f"broker_{name}": value for name, value in limits.items()}
        findings = self._findings.records(at, everything=everything)
        kinds = [
            ("agent", self._agent(figures)),
            *(("connections", record) for record in connections),
            *(("finding", record) for record in findings),
        ]
        return Batch(
            at_ms=at_ms,
            final=final,
            records=tuple(
                self._envelope(kind, index, len(kinds), final=final) | fields
                for index, (kind, fields) in enumerate(kinds)
            ),
        )

    def _envelope(self, kind: str, index: int, count: int, *, final: bool) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": kind,
            "agent_id": self._place.agent_id,
            "boot_id": self._boot_id,
            "seq": self._seq,
            "index": index,
            "records": count,
            "at_ms": self._at_ms,
            "interval_ms": self._interval_ms,
            "final": final,
            **self._place.labels,
        }

    def _agent(self, figures: AgentFigures) -> dict[str, Any]:
        base = self._base
        return {
            "since_ms": self._since_ms,
            "agent_version": self._place.agent_version,
            "boot_reason": self._boot_reason,
            "read_method": figures.read_method,
            "covered_ms": self._covered_us // 1000,
            "polls": figures.polls - base.polls,
            "failed_polls": figures.failed_polls - base.failed_polls,
            "events_lost": figures.events_lost - base.events_lost,
            "unattributed_closed": figures.unattributed_closed - base.unattributed_closed,
            "records_dropped": figures.records_dropped - base.records_dropped,
            "own_connection_ms": self._own_us // 1000,
            "own_opened": figures.own_opened - base.own_opened,
            "own_connections": figures.own_connections,
            "connections": self.totals.held,
            "series_kept": len(self.totals) + len(self._findings),
            "folded_clients": figures.folded_clients,
        }
