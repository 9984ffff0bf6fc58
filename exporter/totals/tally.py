"""What comes, goes and moves, counted in the store once its client is known.

Pure.
"""

from __future__ import annotations

__all__ = ["Tally"]

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from exporter.model import ClientKind, ClosedBy
from exporter.snapshot import ClientBroker
from exporter.totals.metric_totals import MetricTotals
from exporter.totals.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping

    from exporter.config.settings import Settings
    from exporter.connections.endings import ClosedConnection
    from exporter.connections.needs import Need
    from exporter.connections.tracked import TrackedConnection
    from exporter.connections.view import View
    from exporter.model import Endpoint
    from exporter.totals.journal_series import JournalTotals

# Endings that findings look back on: 25 minutes of one a second.
REMEMBERED_ENDINGS = 2000


class Tally:
    """Counts each event once.

    `endpoints_at` gives the brokers that are known at an address.
    """

    def __init__(
        self,
        settings: Settings,
        journal: JournalTotals | None,
        endpoints_at: Callable[[str], Collection[Endpoint]],
    ) -> None:
        self._classes = settings.classes
        self._endpoints_at = endpoints_at
        self.store = Store(journal)
        self.metrics = MetricTotals(settings.limits.clients)
        self._pending_opened: dict[int, float] = {}
        self._unseen_keys: dict[tuple[Endpoint, bool], ClientBroker] = {}
        self._remotes: dict[str, set[Endpoint]] = defaultdict(set)
        self.unattributed_closed = 0
        self.closed_lately: deque[tuple[ClientBroker, ClosedConnection]] = deque(
            maxlen=REMEMBERED_ENDINGS
        )

    def begin_poll(self) -> None:
        """Forget what was found out for the last poll only."""
        self._unseen_keys.clear()

    def note_opened(self, tracked: TrackedConnection, now: float) -> None:
        """Take a connection that is new; its opening is counted once its client is known."""
        remote = tracked.reading.remote
        self._remotes[remote.address].add(remote)
        if tracked.seen_opening:
            # What was open before the agent was did not open at the agent's start.
            self._pending_opened[tracked.cookie] = now

    def labelled(self, view: View, now: float) -> View:
        """Return a view under the labels of its series: `other` beyond the limit of clients."""
        key = self.metrics.key(view.key, now)
        return view if key is view.key else view._replace(key=key)

    def described(self, before: View | None, view: View, now: float) -> None:
        """Take a new view, and the one before it."""
        if before is not None and before.last_activity_at < view.last_activity_at:
            self.store.idled(view.cookie, view.last_activity_at - before.last_activity_at)
        if before is None or _series_of(before) != _series_of(view):
            self.store.put(view, now)

    def expect(self, needs: Iterable[Need], now: float) -> None:
        """Take what all clients need from now on."""
        self.store.expect(needs, now)
        self.metrics.fold_old(self.store, now)

    def moved(self, view: View, outgoing: int, incoming: int, retransmits: int = 0) -> None:
        """Count bytes that went, and segments that were sent again."""
        self.store.moved(view.cookie, outgoing, incoming, retransmits)

    def excluded(self, cookie: int, now: float) -> None:
        """Forget a connection that turned out to be no client's."""
        self._pending_opened.pop(cookie, None)
        self.store.excluded(cookie, now)

    def settle_opened(
        self, views: Mapping[int, View], attributed: Container[int], now: float
    ) -> None:
        """Count openings whose client is known, or has had the time to become known."""
        settle = self._classes.settle_after
        done = [
            cookie
            for cookie, opened_at in self._pending_opened.items()
            if now - opened_at >= settle or cookie in attributed
        ]
        for cookie in done:
            view = views.get(cookie)
            if view is None:
                del self._pending_opened[cookie]
            else:
                self._opened(view)

    def closed(self, view: View, closed: ClosedConnection, now: float) -> None:
        """Count the end of a connection that a poll has met."""
        rest = closed.rest
        self.moved(view, rest.outgoing_bytes, rest.incoming_bytes)
        self._opened(view)
        if closed.lifetime_seconds <= self._classes.probe_within and closed.hung_up:
            closed = self._probed(str(closed.remote), closed)
        self.store.closed(view.cookie, closed, now)
        self.closed_lately.append((view.key, closed))

    def came_and_went(self, closed: ClosedConnection, views: Collection[View], now: float) -> None:
        """Count a connection that no poll met: it opened and closed between two of them."""
        talked = closed.had_conversation
        key = self._unseen_keys.get((closed.remote, talked))
        if key is None:
            remote = self._remote_of(closed)
            if remote is None:
                self.unattributed_closed += 1
                return
            process = _lone_process(views) if talked else ""
            key = ClientBroker("", ClientKind.UNKNOWN.value, process, "", remote)
            key = self._unseen_keys[closed.remote, talked] = self.metrics.key(key, now)
        if closed.hung_up:
            closed = self._probed(key.broker, closed)
        self.store.came_and_went(key, closed)
        self.closed_lately.append((key, closed))

    def _opened(self, view: View) -> None:
        if self._pending_opened.pop(view.cookie, None) is not None:
            self.store.opened(view.cookie, view.opened_at)

    def _probed(self, broker: str, closed: ClosedConnection) -> ClosedConnection:
        """Count a health check. One that ends with a reset was ended by its client."""
        self.metrics.probed(broker)
        if closed.closed_by is ClosedBy.ABORT:
            return closed._replace(closed_by=ClosedBy.CLIENT)
        return closed

    def _remote_of(self, closed: ClosedConnection) -> str | None:
        """Name the broker of a short connection; the kernel forgets the port of some."""
        if closed.remote.port != 0:
            return str(closed.remote)
        address = closed.remote.address
        known = self._remotes.get(address) or self._endpoints_at(address)
        if not known:
            return None
        return str(next(iter(known))) if len(known) == 1 else address


def _lone_process(views: Iterable[View]) -> str:
    """Name the process that has connections here, if it is the only one."""
    names = {view.owner.name for view in views}
    return next(iter(names)) if len(names) == 1 else ""


def _series_of(view: View) -> tuple[object, ...]:
    """Return what of a view names its series in the journal."""
    verdict = view.verdict
    return (
        view.key,
        view.library,
        view.library_version,
        verdict.connection_class,
        verdict.role,
        verdict.cause,
    )
