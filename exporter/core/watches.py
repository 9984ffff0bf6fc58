"""Findings that need a memory: a storm of reconnects, and an hour of low efficiency.

They look at the same windows by the same thresholds as the alerts of their names.
Pure: the time comes in, and what is remembered is bounded.
"""

from __future__ import annotations

__all__ = ["EfficiencyWatch", "StormWatch"]

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.limits import finding_of_alert, held_by_broker
from exporter.model import ClosedBy, ConnectionClass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exporter.alerts.settings import Thresholds
    from exporter.core.endings import ClosedConnection
    from exporter.snapshot import ClientBroker, Finding, Totals

STORM_SECONDS = 300.0
STORM_STEP_SECONDS = 15.0

EFFICIENCY_SECONDS = 3600.0
EFFICIENCY_STEP_SECONDS = 60.0

# The alert's `for`: a client's bootstrap connections are of no use to it for nine minutes, and
# weigh less from then on.
SETTLED_SECONDS = 1800.0

# Nobody knows yet what these are for, as the alert has it.
_UNDECIDED = frozenset({ConnectionClass.UNKNOWN, ConnectionClass.CONNECTING})
# The kind of clients that are summed: their totals jump when a client is gone (decisions/0006).
_SUMMED = "other"

Client = tuple[str, str, str]


class StormWatch:
    """Tells brokers that drop all their clients' connections again and again."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._held: deque[tuple[float, Counter[str]]] = deque()

    def find(
        self,
        counts: Mapping[ClientBroker, Mapping[ConnectionClass, int]],
        closed_lately: Sequence[tuple[ClientBroker, ClosedConnection]],
        now: float,
    ) -> list[Finding]:
        """Return a finding for each broker that has dropped more than it ever had, several times.

        Without what a health check resets, which the alert cannot tell apart.
        """
        self._remember(held_by_broker(counts), now)
        most: Counter[str] = Counter()
        for _at, held in self._held:
            most |= held
        return [
            finding_of_alert(
                "KafkaClientReconnectStorm",
                {"broker": broker},
                f"{broker} ended {count} connections in five minutes; there were never more than"
                f" {most[broker]} at once.",
                float(count),
            )
            for broker, count in _lost(closed_lately, now - STORM_SECONDS).items()
            if count >= self._thresholds.storm_connections
            and count > self._thresholds.storm_rounds * most[broker]
        ]

    def _remember(self, held: Counter[str], now: float) -> None:
        """Keep the most that there were in each step of the window."""
        if self._held and now - self._held[-1][0] < STORM_STEP_SECONDS:
            begun, most = self._held[-1]
            self._held[-1] = (begun, most | held)
        else:
            self._held.append((now, held))
        while self._held[0][0] < now - STORM_SECONDS - STORM_STEP_SECONDS:
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
    """What one client's connections cost since the agent's start, and how much was of use."""

    spent: float = 0.0
    useful: float = 0.0


class EfficiencyWatch:
    """Tells clients that have had no use for most of what they held in the last hour."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._past: deque[tuple[float, Mapping[Client, _Seconds]]] = deque()
        self._due = float("-inf")
        self._findings: list[Finding] = []

    def find(self, totals: Totals, now: float) -> list[Finding]:
        """Return a finding for each client that has been there for long and wastes too much.

        Before the agent is an hour old the hour has begun with nothing: what is wasted must be as
        much as in a whole one.
        """
        if now < self._due:
            return self._findings
        self._due = now + EFFICIENCY_STEP_SECONDS
        current = _by_client(totals)
        self._past.append((now, current))
        while len(self._past) > 1 and self._past[1][0] <= now - EFFICIENCY_SECONDS:
            self._past.popleft()
        begun, hour_ago = self._past[0]
        if begun > now - EFFICIENCY_SECONDS:
            hour_ago = {}
        settled = next(
            (past for at, past in reversed(self._past) if at <= now - SETTLED_SECONDS), {}
        )
        self._findings = [
            finding
            for client, seconds in current.items()
            if client in settled
            for finding in self._judged(client, _grown(hour_ago.get(client), seconds))
        ]
        return self._findings

    def _judged(self, client: Client, hour: _Seconds) -> list[Finding]:
        wasted = (hour.spent - hour.useful) / EFFICIENCY_SECONDS
        if hour.spent <= 0 or wasted < self._thresholds.wasted_connections:
            return []
        percent = 100 * hour.useful / hour.spent
        if percent >= self._thresholds.efficiency_percent:
            return []
        client_id, client_kind, process = client
        text = (
            f"{client_kind} {client_id!r} in {process or 'an unknown process'} had use for"
            f" {percent:.0f} % of its connection-seconds of the last hour:"
            f" {wasted:.1f} connections on average were of none."
        )
        labels = {"client_id": client_id, "client_kind": client_kind, "process": process}
        labels = {name: value for name, value in labels.items() if value}
        return [finding_of_alert("KafkaClientLowEfficiency", labels, text, wasted)]


def _by_client(totals: Totals) -> dict[Client, _Seconds]:
    """Add up over brokers and classes, of clients whose own metrics are known."""
    spent: dict[Client, float] = defaultdict(float)
    for (pair, connection_class), seconds in totals.connection_seconds.items():
        if pair.client_id and pair.client_kind != _SUMMED and connection_class not in _UNDECIDED:
            spent[pair[:3]] += seconds
    useful: dict[Client, float] = defaultdict(float)
    for pair, seconds in totals.useful_seconds.items():
        useful[pair[:3]] += seconds
    return {client: _Seconds(seconds, useful[client]) for client, seconds in spent.items()}


def _grown(before: _Seconds | None, now: _Seconds) -> _Seconds:
    """Return what was added; a client that was gone for long begins anew at nothing."""
    if before is None or now.spent < before.spent:
        return now
    return _Seconds(now.spent - before.spent, now.useful - before.useful)
