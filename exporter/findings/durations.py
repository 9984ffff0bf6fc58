"""How long each finding has been active, for the journal.

Pure.
"""

from __future__ import annotations

__all__ = ["FindingAccounts"]

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from exporter.totals.journal_series import KEEP_MICROSECONDS
from exporter.totals.series import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exporter.snapshot import Finding

_LABELS = ("process", "client_id", "client_kind", "broker_id", "broker")


class _Key(NamedTuple):
    finding: str
    cause: str | None
    severity: str
    labels: tuple[str, ...]


class _Found:
    """One finding over time."""

    def __init__(self, number: int, since_ms: int, now: int) -> None:
        self.number = number
        self.since_ms = since_ms
        self.active_us = 0
        self.begun = 0
        self.value: float | None = None
        self.value_now = 0.0
        self.held: int | None = None
        self.active = False
        self.grown = True
        self.active_at = now


class FindingAccounts:
    """All findings of one boot; `next_number` numbers them together with the other series."""

    def __init__(self, most: int, next_number: Callable[[], int]) -> None:
        self._most = most
        self._next_number = next_number
        self._found: dict[_Key, _Found] = {}
        self._latest: Iterable[Finding] = ()
        self._settled_at = 0

    def __len__(self) -> int:
        return len(self._found)

    def update(self, findings: Iterable[Finding], now: int, wall_ms: int) -> None:
        """Take what is found from now on; the same findings again cost nothing."""
        if findings is self._latest:
            return
        self._latest = findings
        self.settle(now)
        values: dict[_Key, float] = {}
        held: dict[_Key, int] = {}
        for finding in findings:
            key = self._key(finding)
            if key not in self._found:
                self._found[key] = _Found(self._next_number(), wall_ms, now)
            values[key] = values.get(key, 0.0) + finding.value
            held[key] = held.get(key, 0) + len(finding.cookies)
        for key, found in self._found.items():
            if key not in values:
                found.active, found.held = False, None
        for key, value in values.items():
            found = self._found[key]
            found.begun += not found.active
            found.active, found.grown = True, True
            found.value_now, found.held = value, held[key] or None
            found.value = max(value, found.value or 0.0)

    def settle(self, now: int) -> None:
        """Add the time since the last change."""
        elapsed, self._settled_at = now - self._settled_at, now
        for found in self._found.values():
            if found.active:
                found.active_us += elapsed
                found.grown = True

    def records(self, now: int, *, everything: bool) -> list[dict[str, Any]]:
        """Return those that have something to say, and begin a new interval."""
        self.settle(now)
        records = []
        for key, found in list(self._found.items()):
            if found.grown:
                found.active_at = now
            elif not everything:
                continue
            elif now - found.active_at > KEEP_MICROSECONDS:
                del self._found[key]
            records.append(_record(key, found))
            found.grown = False
            found.value = found.value_now if found.active else None
        return records

    def begin_anew(self, now: int, wall_ms: int) -> None:
        """Begin all counters at 0 with what is found now."""
        latest, self._latest = self._latest, ()
        self._found.clear()
        self._settled_at = now
        self.update(latest, now, wall_ms)

    def _key(self, finding: Finding) -> _Key:
        labels = finding.labels
        key = _Key(
            finding.name,
            labels.get("cause"),
            finding.severity.value,
            tuple(labels.get(name, "") for name in _LABELS),
        )
        if key not in self._found and len(self._found) >= self._most:
            return key._replace(labels=(OTHER, OTHER, OTHER, "", OTHER))
        return key


def _record(key: _Key, found: _Found) -> dict[str, Any]:
    labels = {name: value or None for name, value in zip(_LABELS, key.labels, strict=True)}
    broker_id = labels["broker_id"]
    return {
        "series": found.number,
        "since_ms": found.since_ms,
        **labels,
        "broker_id": None if broker_id is None else int(broker_id),
        "finding": key.finding,
        "cause": key.cause,
        "severity": key.severity,
        "active_ms": found.active_us // 1000,
        "begun": found.begun,
        "value_max": None if found.value is None else max(0, math.ceil(found.value)),
        "active": found.active,
        "held": found.held,
    }
