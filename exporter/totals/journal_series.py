"""The store as the journal shows it: a record for each series, beyond a limit one for many.

A series of the journal begins at 0 with its boot, or when a client comes back after it was away
for long. What only makes sense of an interval (peaks, silences) is kept here, beside the store.
Pure.
"""

from __future__ import annotations

__all__ = ["KEEP_MICROSECONDS", "JournalSeries", "JournalTotals"]

from typing import TYPE_CHECKING, Any

from exporter.model import ClientKind, ClosedBy, Library
from exporter.snapshot import ClientBroker
from exporter.totals.series import (
    CLOSED,
    CONNECTION_US,
    EXPECTED_US,
    LIFETIME_US,
    LIFETIMES,
    NUMBERS,
    OPENED,
    OTHER,
    RECEIVED,
    RETRANSMITS,
    SENT,
    USEFUL_US,
    SeriesKey,
    microseconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exporter.connections.view import View
    from exporter.model import ClientKey
    from exporter.totals.series import Series

# A series that has not grown for so long is forgotten; a client is away less for a deployment.
KEEP_MICROSECONDS = 3600 * 1_000_000

_ZEROS = (0,) * NUMBERS

_FIELD_OF_END = {
    ClosedBy.CLIENT: "closed_by_client",
    ClosedBy.BROKER: "closed_by_broker",
    ClosedBy.ABORT: "closed_by_reset",
    ClosedBy.UNKNOWN: "closed_unknown",
    ClosedBy.REFUSED: "connect_failures",
}


class JournalSeries:
    """One series of the journal, and the series of the store that it sums; mostly it is one."""

    __slots__ = (
        "_clients",
        "_counts_bytes",
        "_idle_us",
        "_number",
        "_offset",
        "_openings",
        "_peak",
        "_settled_at",
        "_since_ms",
        "active_at",
        "has_grown",
        "held",
        "key",
        "members",
    )

    def __init__(self, number: int, key: SeriesKey, since_ms: int, now: int) -> None:
        self.key = key
        self.active_at = now
        self.members: set[Series] = set()
        self.held = 0
        self.has_grown = True
        self._number = number
        self._since_ms = since_ms
        # Less what members had counted before they came, plus what those had that have left.
        self._offset: Sequence[int] = _ZEROS
        self._counts_bytes = False
        self._settled_at = now
        self._idle_us: int | None = None
        self._peak = 0
        self._openings: dict[int, int] = {}
        self._clients: frozenset[ClientKey] = frozenset()

    @property
    def is_bucket(self) -> bool:
        """Whether it sums many clients."""
        return self.key.client.client_kind == OTHER

    # ---- members ------------------------------------------------------------------------------

    def add(self, series: Series) -> None:
        """Sum a series of the store from now on."""
        self._shift(series, -1)
        self.members.add(series)
        self.held += series.held
        series.journal = self

    def remove(self, series: Series) -> None:
        """Sum a series no longer; what it has counted stays."""
        self._shift(series, 1)
        self._counts_bytes |= series.counts_bytes
        self.members.discard(series)
        self.held -= series.held
        series.journal = None

    def _shift(self, series: Series, sign: int) -> None:
        if any(series.numbers):
            self._offset = [
                before + sign * number
                for before, number in zip(self._offset, series.numbers, strict=True)
            ]

    # ---- what happens in an interval ----------------------------------------------------------

    def change_held(self, change: int, at: int) -> None:
        """Hold more or fewer connections from now on."""
        self._settle_peak(at)
        self.held += change

    def observe_opening(self, opened_at: float) -> None:
        """Take an opening at this second of the monotonic clock."""
        second = int(opened_at)
        self._openings[second] = self._openings.get(second, 0) + 1

    def observe_idle(self, seconds: float) -> None:
        """Take the silence of one connection."""
        self._idle_us = max(self._idle_us or 0, microseconds(seconds))

    def observe_client(self, client: ClientKey) -> None:
        """Take which client holds one of the connections."""
        if client not in self._clients:
            self._clients |= {client}

    def _settle_peak(self, at: int) -> None:
        if at > self._settled_at:
            self._settled_at = at
            self._peak = max(self._peak, self.held)

    # ---- records ------------------------------------------------------------------------------

    def settle(self, now: int) -> None:
        """Add the time since the last change."""
        self._settle_peak(now)
        for series in self.members:
            series.settle(now)

    def rests(self) -> bool:
        """Whether there is nothing new to write."""
        return not (self.has_grown or any(series.is_in_use for series in self.members))

    def begin_interval(self) -> None:
        """Forget what belongs to the interval that has ended."""
        self._idle_us = None
        self._peak = self.held
        self._openings = {}
        self.has_grown = False
        self._clients = frozenset()

    def record(self) -> dict[str, Any]:
        """Return the fields that are the series' own."""
        key, client = self.key, self.key.client
        numbers = [sum(each) for each in zip(self._offset, *self._numbers(), strict=True)]
        self._counts_bytes |= any(series.counts_bytes for series in self.members)
        bytes_of = (lambda at: numbers[at]) if self._counts_bytes else (lambda _at: None)
        # Without a client's metrics or groups nobody knows what it needs.
        known = bool(client.client_id) or client.client_kind != ClientKind.UNKNOWN.value
        return {
            "series": self._number,
            "since_ms": self._since_ms,
            "process": client.process or None,
            "client_id": client.client_id or None,
            "client_kind": _known(client.client_kind),
            "library": key.library,
            "library_version": key.library_version,
            "broker_id": int(client.broker_id) if client.broker_id else None,
            "broker": client.broker or None,
            "folded": self.is_bucket,
            "class": key.connection_class.value,
            "role": key.role.value,
            "cause": None if key.cause is None else key.cause.value,
            "connection_ms": numbers[CONNECTION_US] // 1000,
            "useful_ms": numbers[USEFUL_US] // 1000,
            "expected_ms": numbers[EXPECTED_US] // 1000 if known else None,
            "opened": numbers[OPENED],
            **{name: numbers[CLOSED[end]] for end, name in _FIELD_OF_END.items()},
            "bytes_out": bytes_of(SENT),
            "bytes_in": bytes_of(RECEIVED),
            "retransmits": bytes_of(RETRANSMITS),
            "lifetime_ms_sum": numbers[LIFETIME_US] // 1000,
            "lifetime_buckets": numbers[LIFETIMES],
            "idle_max_ms": None if self._idle_us is None else self._idle_us // 1000,
            "peak_connections": max(self._peak, self.held),
            "peak_opened": max(self._openings.values(), default=0),
            "connections": self.held,
            "expected": sum(each.expected for each in self.members) if known else None,
            "instances": len(self._clients) if known else None,
        }

    def _numbers(self) -> Iterable[list[int]]:
        return (series.numbers for series in self.members)


class JournalTotals:
    """All series of one boot of the journal; the store hands it each series that grows."""

    def __init__(self, most_series: int) -> None:
        self._most = most_series
        self._series: dict[SeriesKey, JournalSeries] = {}
        self._number = 0
        self._now = 0
        self._wall_ms = 0

    def __len__(self) -> int:
        return len(self._series)

    @property
    def held(self) -> int:
        """How many connections are open now."""
        return sum(series.held for series in self._series.values())

    def next_number(self) -> int:
        """Return a number that no series of this boot has."""
        self._number += 1
        return self._number - 1

    # ---- what the store asks ------------------------------------------------------------------

    def adopt(self, series: Series) -> JournalSeries:
        """Return the series of the journal that a series of the store is written in."""
        adopter = self._of(series.key)
        adopter.add(series)
        return adopter

    def release(self, series: Series) -> bool:
        """Give up a series that the store no longer needs; return whether it may go.

        One of its own is kept for as long as its last record is repeated.
        """
        if series.journal is not None and series.journal.is_bucket and not series.is_in_use:
            series.journal.remove(series)
        return series.journal is None

    # ---- what the journal asks ----------------------------------------------------------------

    def turn(self, now: int, wall_ms: int) -> None:
        """Take the time of a poll before what it has seen: a new series begins then."""
        self._now, self._wall_ms = now, wall_ms

    def records(
        self, now: int, held: Iterable[tuple[View, Series]], *, everything: bool
    ) -> list[dict[str, Any]]:
        """Return the series that have something new at a moment, and begin a new interval.

        `held` are the connections with their series. `everything` has the series at rest, too;
        those that have rested for long are forgotten after that.
        """
        for view, series in held:
            if series.journal is None:
                continue
            if view.reading.info is not None:
                series.journal.observe_idle(now / 1e6 - view.last_activity_at)
            if view.attribution is not None:
                series.journal.observe_client(view.attribution.client)
        records = []
        for key, each in list(self._series.items()):
            each.settle(now)
            rests = each.rests()
            if rests and not everything:
                continue
            records.append(each.record())
            each.begin_interval()
            if not rests:
                each.active_at = now
            elif now - each.active_at > KEEP_MICROSECONDS:
                self._forget(key)
        return records

    def begin_anew(self, now: int, wall_ms: int) -> None:
        """Begin all counters at 0 with what is open and expected now."""
        self._now, self._wall_ms, self._number = now, wall_ms, 0
        members = [series for each in self._series.values() for series in each.members]
        for key in list(self._series):
            self._forget(key)
        for series in members:
            series.settle(now)
            if series.is_in_use:
                self.adopt(series)

    # ---- inside -------------------------------------------------------------------------------

    def _forget(self, key: SeriesKey) -> None:
        for series in self._series.pop(key).members:
            series.journal = None

    def _of(self, wanted: SeriesKey) -> JournalSeries:
        """Return the series of a key, or a bucket where there are too many."""
        known = self._series.get(wanted)
        if known is not None:
            return known
        client = wanted.client
        others = ClientBroker(OTHER, OTHER, OTHER, client.broker_id, client.broker)
        at_broker = wanted._replace(client=others, library=OTHER, library_version=None)
        all_others = ClientBroker(OTHER, OTHER, OTHER, "", OTHER)
        keys = (wanted, at_broker, at_broker._replace(client=all_others))
        # The buckets by broker have as much room again; the keys of the last are a closed set.
        for key, most in zip(keys, (self._most, 2 * self._most, None), strict=True):
            known = self._series.get(key)
            if known is not None:
                return known
            if most is None or len(self._series) < most:
                break
        known = JournalSeries(self.next_number(), key, self._wall_ms, self._now)
        self._series[key] = known
        return known


def _known(name: str) -> str | None:
    return None if name in {"", Library.UNKNOWN.value} else name
