"""What adds up for the journal: whole numbers that only grow, by client, broker, class and cause.

The ledger keeps what a scrape shows, by client and broker; here it is kept as the rollups need it.
A connection belongs to one series at a time. Its time is added when it leaves that series or when
records are made, not at each poll: a poll in which no class changes costs nothing here.
Pure.
"""

from __future__ import annotations

__all__ = ["Accounts", "Bookkeeping"]

from collections import Counter
from typing import TYPE_CHECKING, Any

from exporter.model import ConnectionClass, Library, Role
from exporter.snapshot import ClientBroker
from exporter.totals.ledger import OTHER
from exporter.totals.series import KEEP_MICROSECONDS, Series, SeriesKey, microseconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.connections.endings import ClosedConnection
    from exporter.connections.view import View
    from exporter.snapshot import Expectation

_CLASS_OF_RULE = {
    "bootstrap": ConnectionClass.BOOTSTRAP,
    "coordinator": ConnectionClass.COORDINATOR,
    "transaction": ConnectionClass.TRANSACTION,
    "admin": ConnectionClass.ADMIN,
}


class Bookkeeping:
    """What the engine tells of connections. Nobody listens here: the journal is off."""

    def put(self, view: View, now: float) -> None:
        """Take a connection that is new, or whose class, cause or client is."""

    def expect(self, uses: Iterable[tuple[View, Expectation]], now: float) -> None:
        """Take what all clients need from now on."""

    def opened(self, cookie: int, opened_at: float) -> None:
        """Count an opening."""

    def moved(self, cookie: int, outgoing: int, incoming: int, retransmits: int) -> None:
        """Count bytes that went, and segments that went again."""

    def idled(self, cookie: int, seconds: float) -> None:
        """Take how long a connection was silent before bytes went over it again."""

    def closed(self, cookie: int, closed: ClosedConnection, now: float) -> None:
        """Count an end."""

    def came_and_went(self, client: ClientBroker, closed: ClosedConnection) -> None:
        """Count a connection that no poll ever met."""

    def excluded(self, cookie: int, now: float) -> None:
        """Leave a connection out from now on: it turned out to be no client's."""


class Accounts(Bookkeeping):
    """All series of one boot of the journal."""

    def __init__(self, most_series: int) -> None:
        self._most = most_series
        self._series: dict[SeriesKey, Series] = {}
        self._number = 0
        self._open: dict[int, Series] = {}
        self._expecting: dict[SeriesKey, tuple[Series, int]] = {}
        self._now = 0
        self._wall_ms = 0

    def __len__(self) -> int:
        return len(self._series)

    @property
    def held(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    def next_number(self) -> int:
        """Return a number that no series of this boot has."""
        self._number += 1
        return self._number - 1

    # ---- what the engine tells ----------------------------------------------------------------

    def put(self, view: View, now: float) -> None:
        """Take a connection that is new, or whose class, cause or client is."""
        at = self._at(now)
        self._leave(view.cookie, at)
        verdict = view.verdict
        series = self._of(
            SeriesKey(
                view.key,
                _library(view),
                view.library_version if view.key.client_kind != OTHER else None,
                verdict.connection_class,
                verdict.role,
                verdict.cause,
            )
        )
        series.settle(at)
        series.held += 1
        # Of one class and cause all connections are useful, or none is.
        series.is_useful = verdict.useful
        if view.reading.info is not None:
            series.counts_bytes = True
        self._open[view.cookie] = series

    def expect(self, uses: Iterable[tuple[View, Expectation]], now: float) -> None:
        """Take what all clients need from now on."""
        at = self._at(now)
        wanted: Counter[SeriesKey] = Counter()
        for view, expectation in uses:
            rules = [rule for rule, _reason in expectation.rules]
            if len(rules) != expectation.count:  # so many of one kind, because somebody says so
                rules = rules[:1] * expectation.count
            for rule in rules:
                wanted[_needed(view, rule)] += 1
        for key in self._expecting.keys() | wanted.keys():
            self._expect(key, wanted[key], at)

    def opened(self, cookie: int, opened_at: float) -> None:
        """Count an opening."""
        series = self._open.get(cookie)
        if series is not None:
            series.open(opened_at)

    def moved(self, cookie: int, outgoing: int, incoming: int, retransmits: int) -> None:
        """Count bytes that went, and segments that went again."""
        series = self._open.get(cookie)
        if series is not None:
            series.move(outgoing, incoming, retransmits)

    def idled(self, cookie: int, seconds: float) -> None:
        """Take how long a connection was silent before bytes went over it again."""
        series = self._open.get(cookie)
        if series is not None:
            series.be_idle(seconds)

    def closed(self, cookie: int, closed: ClosedConnection, now: float) -> None:
        """Count an end."""
        series = self._leave(cookie, self._at(now))
        if series is not None:
            series.end(closed)
            if closed.tracked is not None and closed.info is not None:
                series.be_idle(closed.at - closed.tracked.last_activity_at)

    def came_and_went(self, client: ClientBroker, closed: ClosedConnection) -> None:
        """Count a connection that no poll ever met."""
        role = Role.UNKNOWN
        if closed.had_conversation:
            connection_class = ConnectionClass.UNKNOWN
        elif closed.hung_up:
            connection_class, role = ConnectionClass.PROBE, Role.PROBE
        else:
            connection_class = ConnectionClass.CONNECTING
        series = self._of(SeriesKey(client, None, None, connection_class, role, None))
        series.open(closed.at - closed.lifetime_seconds)
        rest = closed.rest
        series.move(rest.outgoing_bytes, rest.incoming_bytes, 0)
        series.counts_bytes |= closed.info is not None
        series.end(closed)

    def excluded(self, cookie: int, now: float) -> None:
        """Leave a connection out from now on: it turned out to be no client's."""
        self._leave(cookie, self._at(now))

    # ---- what the journal asks ----------------------------------------------------------------

    def turn(self, now: int, wall_ms: int) -> None:
        """Take the time of a poll before what it has seen: a new series begins then."""
        self._now, self._wall_ms = now, wall_ms

    def records(self, now: int, views: Iterable[View], *, everything: bool) -> list[dict[str, Any]]:
        """Return the series that have something to say at a moment, and begin a new interval.

        `everything` has those that rest, too; who has rested for long is forgotten after that.
        """
        self._look_at(views, now)
        records = []
        for key, series in list(self._series.items()):
            series.settle(now)
            if series.rests():
                if not everything:
                    continue
                if now - series.active_at > KEEP_MICROSECONDS:
                    del self._series[key]
            else:
                series.active_at = now
            records.append(series.record())
            series.begin_interval()
        return records

    def begin_anew(self, now: int, wall_ms: int) -> None:
        """Begin all counters at 0 with what is open and expected now."""
        self._now, self._wall_ms = now, wall_ms
        before = self._open
        self._series, self._open, self._number = {}, {}, 0
        for cookie, old in before.items():
            series = self._open[cookie] = self._of(old.key)
            series.held += 1
            series.is_useful = old.is_useful
            series.counts_bytes = old.counts_bytes
        expecting, self._expecting = self._expecting, {}
        for key, (_old, count) in expecting.items():
            self._expect(key, count, now)

    # ---- inside -------------------------------------------------------------------------------

    def _look_at(self, views: Iterable[View], now: int) -> None:
        for view in views:
            series = self._open.get(view.cookie)
            if series is None:
                continue
            if view.reading.info is not None:
                series.be_idle(now / 1e6 - view.last_activity_at)
            if view.attribution is not None:
                series.clients.add(view.attribution.client)

    def _at(self, now: float) -> int:
        # A poll's look at descriptors, and metrics that came, are told with the poll's own time.
        self._now = max(self._now, microseconds(now))
        return self._now

    def _leave(self, cookie: int, at: int) -> Series | None:
        series = self._open.pop(cookie, None)
        if series is not None:
            series.settle(at)
            series.held -= 1
        return series

    def _expect(self, key: SeriesKey, count: int, at: int) -> None:
        series, before = self._expecting.get(key) or (self._of(key), 0)
        if count != before:
            series.settle(at)
            series.expected += count - before
        if count:
            self._expecting[key] = (series, count)
        else:
            self._expecting.pop(key, None)

    def _of(self, wanted: SeriesKey) -> Series:
        series = self._series.get(wanted)
        if series is None:
            series = self._made(wanted)
        return series

    def _made(self, wanted: SeriesKey) -> Series:
        """Return a new series, or a bucket where there are too many of them."""
        client = wanted.client
        others = ClientBroker(OTHER, OTHER, OTHER, client.broker_id, client.broker)
        keys = (
            wanted,
            wanted._replace(client=others, library=OTHER, library_version=None),
            SeriesKey(
                ClientBroker(OTHER, OTHER, OTHER, "", OTHER),
                OTHER,
                None,
                wanted.connection_class,
                wanted.role,
                wanted.cause,
            ),
        )
        # The buckets by broker have as much room again; those that remain are a closed set.
        for key, most in zip(keys, (self._most, 2 * self._most, None), strict=True):
            known = self._series.get(key)
            if known is not None:
                return known
            if most is None or len(self._series) < most:
                break
        number = self.next_number()
        series = self._series[key] = Series(number, key, self._wall_ms, self._now)
        return series


def _library(view: View) -> str | None:
    if view.key.client_kind == OTHER:
        return OTHER
    return None if view.library is Library.UNKNOWN else view.library.value


def _needed(view: View, rule: str) -> SeriesKey:
    """Return the series that carries what a rule expects: of the class that the rule is about."""
    connection_class = _CLASS_OF_RULE.get(rule.rpartition(".")[2], ConnectionClass.DATA)
    is_folded = view.key.client_kind == OTHER
    version = None if is_folded else view.library_version
    role = Role(connection_class.value)
    return SeriesKey(view.key, _library(view), version, connection_class, role, None)
