"""Findings over time: reconnect storms and sustained low efficiency.

They look at the same windows by the same thresholds as the alerts of their names: five minutes and
an hour, where the operator says nothing else.
Pure: the time comes in, and what is remembered is bounded.
"""

from __future__ import annotations

__all__ = ["EfficiencyWatch", "StormWatch"]

from collections import Counter, defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from exporter.findings.findings import finding_of_alert
from exporter.findings.limits import held_by_broker
from exporter.model import UNDECIDED, ClosedBy
from exporter.text import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exporter.alerts.settings import Thresholds
    from exporter.connections.endings import ClosedConnection
    from exporter.model import ConnectionClass
    from exporter.snapshot import ClientBroker, Finding, Totals

# What is remembered of a window: the most that were held in each part of it, by default 15 s, and
# what each client had cost at the end of each part, by default a minute.
STORM_PARTS = 20
EFFICIENCY_PARTS = 60

# Half a window, by default the alert's `for`: a client's bootstrap connections are of no use to it
# for nine minutes, and weigh less from then on. What has been so meanwhile counts for the alert.
SETTLED_SHARE = 0.5

# The kind of clients that are summed: their totals jump when a client is gone (decisions/0006).
_SUMMED = "other"

Client = tuple[str, str, str]


class StormWatch:
    """Finds brokers that drop all their clients' connections again and again."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._window = thresholds.storm_window
        self._step = self._window / STORM_PARTS
        self._held: deque[tuple[float, Counter[str]]] = deque()

    def find(
        self,
        counts: Mapping[ClientBroker, Mapping[ConnectionClass, int]],
        closed_lately: Sequence[tuple[ClientBroker, ClosedConnection]],
        now: float,
    ) -> list[Finding]:
        """Return a finding for each broker that has dropped more than it ever had, several times.

        Without what a health check resets, which the alert cannot distinguish.
        """
        self._remember(held_by_broker(counts), now)
        most: Counter[str] = Counter()
        for _at, held in self._held:
            most |= held
        return [
            finding_of_alert(
                "KafkaClientReconnectStorm",
                {"broker": broker},
                f"{broker} ended {count} connections in {duration(self._window)}; it never"
                f" held more than {most[broker]} at once.",
                float(count),
            )
            for broker, count in _lost(closed_lately, now - self._window).items()
            if count >= self._thresholds.storm_connections
            and count > self._thresholds.storm_rounds * most[broker]
        ]

    def _remember(self, held: Counter[str], now: float) -> None:
        """Keep the most that there were in each step of the window."""
        if self._held and now - self._held[-1][0] < self._step:
            begun, most = self._held[-1]
            self._held[-1] = (begun, most | held)
        else:
            self._held.append((now, held))
        while self._held[0][0] < now - self._window - self._step:
            self._held.popleft()


def _lost(
    closed_lately: Sequence[tuple[ClientBroker, ClosedConnection]], since: float
) -> Counter[str]:
    """Count the connections by broker that the broker ended, or that broke in a conversation."""
    lost: Counter[str] = Counter()
    for key, ended in closed_lately:
        if ended.at >= since and (
            ended.closed_by is ClosedBy.BROKER
            or (ended.closed_by is ClosedBy.ABORT and ended.had_conversation)
        ):
            lost[key.broker] += 1
    return lost


class _Seconds(NamedTuple):
    """Connection-seconds of one client since the agent's start, all and the useful ones."""

    spent: float = 0.0
    useful: float = 0.0


class EfficiencyWatch:
    """Finds clients that made no use of most of what they held in the last window."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._window = thresholds.efficiency_window
        self._past: deque[tuple[float, Mapping[Client, _Seconds]]] = deque()
        self._due = float("-inf")
        self._wasting_since: dict[Client, float] = {}
        self._findings: list[Finding] = []

    def find(self, totals: Totals, now: float) -> list[Finding]:
        """Return a finding for each client that has been there for long and wastes too much.

        Before the agent is as old as a window the window has begun with nothing: what is wasted
        must be as much as in a whole one.
        """
        if now < self._due:
            return self._findings
        self._due = now + self._window / EFFICIENCY_PARTS
        current = _by_client(totals)
        self._past.append((now, current))
        while len(self._past) > 1 and self._past[1][0] <= now - self._window:
            self._past.popleft()
        begun, then = self._past[0]
        if begun > now - self._window:
            then = {}
        settled_at = now - self._window * SETTLED_SHARE
        settled = next((past for at, past in reversed(self._past) if at <= settled_at), {})
        wasting = {
            client: finding
            for client, seconds in current.items()
            if (finding := self._judged(client, _grown(then.get(client), seconds), now - begun))
        }
        self._wasting_since = {client: self._wasting_since.get(client, now) for client in wasting}
        self._findings = [
            replace(finding, begun_at=self._wasting_since[client])
            for client, finding in wasting.items()
            if client in settled
        ]
        return self._findings

    def _judged(self, client: Client, lately: _Seconds, since: float) -> Finding | None:
        # Looks come seconds apart: what is remembered may be that much longer than the window.
        wasted = (lately.spent - lately.useful) / max(self._window, since)
        if lately.spent <= 0 or wasted < self._thresholds.wasted_connections:
            return None
        percent = 100 * lately.useful / lately.spent
        if percent >= self._thresholds.efficiency_percent:
            return None
        client_id, client_kind, process = client
        text = (
            f"{client_kind} {client_id!r} in {process or 'unknown process'} used {percent:.0f}% of"
            f" its connection-seconds in the last {duration(self._window)}:"
            f" {wasted:.1f} connections wasted on average."
        )
        labels = {"client_id": client_id, "client_kind": client_kind, "process": process}
        return finding_of_alert("KafkaClientLowEfficiency", labels, text, wasted)


def _by_client(totals: Totals) -> dict[Client, _Seconds]:
    """Add up over brokers and classes, of clients whose own metrics are known."""
    spent: dict[Client, float] = defaultdict(float)
    for (pair, connection_class), seconds in totals.connection_seconds.items():
        if pair.client_id and pair.client_kind != _SUMMED and connection_class not in UNDECIDED:
            spent[pair[:3]] += seconds
    useful: dict[Client, float] = defaultdict(float)
    for pair, seconds in totals.useful_seconds.items():
        useful[pair[:3]] += seconds
    return {client: _Seconds(seconds, useful[client]) for client, seconds in spent.items()}


def _grown(before: _Seconds | None, now: _Seconds) -> _Seconds:
    """Return what was added; a client that was gone for long starts again at nothing."""
    if before is None or now.spent < before.spent:
        return now
    return _Seconds(now.spent - before.spent, now.useful - before.useful)
