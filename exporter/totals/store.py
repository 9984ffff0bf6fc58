"""All series: whole numbers that only grow, by client, broker, library, class, role and cause.

Metrics (`metric_totals`) and the journal (`journal_series`) show the same numbers, each summed in
its own way and each from some value on: metrics since a client was last away for long, the journal
since its boot began. Nothing here is moved or taken back for either (decisions/0018).
A connection is in one series at a time. Its time is added when it leaves that series, or when
somebody asks: a poll in which no class changes costs nothing here.
Pure.
"""

from __future__ import annotations

__all__ = ["Store"]

from collections import Counter
from typing import TYPE_CHECKING

from exporter.model import ConnectionClass, Library, Role
from exporter.totals.series import (
    OPENED,
    OTHER,
    RECEIVED,
    RETRANSMITS,
    SENT,
    Series,
    SeriesKey,
    microseconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exporter.connections.endings import ClosedConnection
    from exporter.connections.needs import Need
    from exporter.connections.view import View
    from exporter.snapshot import ClientBroker
    from exporter.totals.journal_series import JournalTotals
    from exporter.totals.series import Frozen

# Beyond this, versions of libraries are not told apart: what a client says of itself must not eat
# the agent's memory. All else in a key is a closed set, or bounded by the number of clients.
MOST_SERIES = 20_000

_CLASS_OF_RULE = {
    "bootstrap": ConnectionClass.BOOTSTRAP,
    "coordinator": ConnectionClass.COORDINATOR,
    "transaction": ConnectionClass.TRANSACTION,
    "admin": ConnectionClass.ADMIN,
}


class Store:
    """Every series, by key and by client. `journal`: None where it is off."""

    def __init__(self, journal: JournalTotals | None = None, most: int = MOST_SERIES) -> None:
        self._most = most
        self._journal = journal
        self._series: dict[SeriesKey, Series] = {}
        self._by_client: dict[ClientBroker, list[Series]] = {}
        self._open: dict[int, Series] = {}
        self._expecting: dict[Series, int] = {}
        self._now = 0
        self._opened_count = 0
        self._closed_count = 0

    # ---- what happens -------------------------------------------------------------------------

    def put(self, view: View, now: float) -> None:
        """Take a connection that is new, or whose class, cause or client is."""
        at = self._at(now)
        self._leave(view.cookie, at)
        verdict = view.verdict
        series = self._of(
            _key(view, verdict.connection_class, verdict.role)._replace(cause=verdict.cause)
        )
        self._change_held(series, 1, at)
        series.is_useful = verdict.useful
        series.counts_bytes |= view.reading.info is not None
        self._open[view.cookie] = series

    def expect(self, needs: Iterable[Need], now: float) -> None:
        """Take what all clients need from now on."""
        at = self._at(now)
        wanted: Counter[Series] = Counter()
        for view, expectation in needs:
            rules = [rule for rule, _reason in expectation.rules]
            if len(rules) != expectation.count:  # so many of one kind, as configured
                rules = rules[:1] * expectation.count
            for rule in rules:
                needed = _CLASS_OF_RULE.get(rule.rpartition(".")[2], ConnectionClass.DATA)
                wanted[self._of(_key(view, needed, Role(needed.value)))] += 1
        for series in self._expecting.keys() | wanted.keys():
            count = wanted[series]
            if count != series.expected:
                self._touch(series)
                series.settle(at)
                series.expected = count
        self._expecting = wanted

    def opened(self, cookie: int, opened_at: float) -> None:
        """Count an opening."""
        series = self._open.get(cookie)
        if series is not None:
            self._opened(series, opened_at)

    def moved(self, cookie: int, outgoing: int, incoming: int, retransmits: int) -> None:
        """Count bytes that went, and segments that were sent again."""
        series = self._open.get(cookie)
        if series is not None:
            self._moved(series, outgoing, incoming, retransmits)

    def idled(self, cookie: int, seconds: float) -> None:
        """Take how long a connection was silent before bytes went over it again."""
        series = self._open.get(cookie)
        if series is not None and series.journal is not None:
            series.journal.observe_idle(seconds)

    def closed(self, cookie: int, closed: ClosedConnection, now: float) -> None:
        """Count an end."""
        series = self._leave(cookie, self._at(now))
        if series is None:
            return
        self._end(series, closed)
        if series.journal is not None and closed.tracked is not None and closed.info is not None:
            series.journal.observe_idle(closed.at - closed.tracked.last_activity_at)

    def came_and_went(self, client: ClientBroker, closed: ClosedConnection) -> None:
        """Count a connection that no poll met."""
        role = Role.UNKNOWN
        if closed.had_conversation:
            connection_class = ConnectionClass.UNKNOWN
        elif closed.hung_up:
            connection_class, role = ConnectionClass.PROBE, Role.PROBE
        else:
            connection_class = ConnectionClass.CONNECTING
        series = self._of(SeriesKey(client, None, None, connection_class, role, None))
        self._opened(series, closed.at - closed.lifetime_seconds)
        self._moved(series, closed.rest.outgoing_bytes, closed.rest.incoming_bytes, 0)
        series.counts_bytes |= closed.info is not None
        self._end(series, closed)

    def excluded(self, cookie: int, now: float) -> None:
        """Leave a connection out from now on: it turned out to be no client's."""
        self._leave(cookie, self._at(now))

    # ---- what others ask ----------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._series)

    @property
    def opened_and_closed(self) -> tuple[int, int]:
        """How many connections have opened and closed, over all series that there were."""
        return self._opened_count, self._closed_count

    def freeze(self) -> Sequence[Frozen]:
        """Return all series as they are now."""
        return tuple([series.frozen or series.freeze() for series in self._series.values()])

    def clients(self) -> Sequence[ClientBroker]:
        """Return every client and broker that has a series."""
        return tuple(self._by_client)

    def of_client(self, client: ClientBroker) -> Sequence[Series]:
        """Return the series of a client at a broker."""
        return self._by_client.get(client, ())

    def with_series(self, views: Iterable[View]) -> Iterator[tuple[View, Series]]:
        """Pair connections with the series that they are in."""
        for view in views:
            series = self._open.get(view.cookie)
            if series is not None:
                yield view, series

    def drop(self, client: ClientBroker) -> None:
        """Forget what a client has counted, once metrics have folded it and the journal is done."""
        kept = []
        for series in self._by_client.get(client, ()):
            waits = self._journal is not None and not self._journal.release(series)
            if series.is_in_use or waits:
                kept.append(series)
            else:
                del self._series[series.key]
        if kept:
            self._by_client[client] = kept
        else:
            self._by_client.pop(client, None)

    # ---- inside -------------------------------------------------------------------------------

    def _at(self, now: float) -> int:
        # Time never goes back here: what joins and descriptors show comes with the poll's own time.
        self._now = max(self._now, microseconds(now))
        return self._now

    def _of(self, key: SeriesKey) -> Series:
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= self._most and key.library_version is not None:
                return self._of(key._replace(library_version=None))
            series = self._series[key] = Series(key, self._now)
            self._by_client.setdefault(key.client, []).append(series)
        return series

    def _touch(self, series: Series) -> None:
        """Note that a series is about to change."""
        series.frozen = None
        if self._journal is not None:
            (series.journal or self._journal.adopt(series)).has_grown = True

    def _change_held(self, series: Series, change: int, at: int) -> None:
        self._touch(series)
        series.settle(at)
        series.held += change
        if series.journal is not None:
            series.journal.change_held(change, at)

    def _leave(self, cookie: int, at: int) -> Series | None:
        series = self._open.pop(cookie, None)
        if series is not None:
            self._change_held(series, -1, at)
        return series

    def _opened(self, series: Series, opened_at: float) -> None:
        self._touch(series)
        series.numbers[OPENED] += 1
        self._opened_count += 1
        if series.journal is not None:
            series.journal.observe_opening(opened_at)

    def _end(self, series: Series, closed: ClosedConnection) -> None:
        series.end(closed)
        self._closed_count += 1

    def _moved(self, series: Series, outgoing: int, incoming: int, retransmits: int) -> None:
        self._touch(series)
        numbers = series.numbers
        numbers[SENT] += outgoing
        numbers[RECEIVED] += incoming
        numbers[RETRANSMITS] += retransmits


def _key(view: View, connection_class: ConnectionClass, role: Role) -> SeriesKey:
    """Return the series without a cause of a connection's client."""
    is_folded = view.key.client_kind == OTHER
    library = None if view.library is Library.UNKNOWN else view.library.value
    return SeriesKey(
        client=view.key,
        library=OTHER if is_folded else library,
        library_version=None if is_folded else view.library_version,
        connection_class=connection_class,
        role=role,
        cause=None,
    )
