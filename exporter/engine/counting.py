"""What comes, goes and moves, counted for the ledger and for the journal's accounts.

Pure.
"""

from __future__ import annotations

__all__ = ["Counting"]

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from exporter.model import ClientKind, ClosedBy
from exporter.snapshot import ClientBroker
from exporter.totals.counts import Counts

if TYPE_CHECKING:
    from exporter.connections.activity import Activity
    from exporter.connections.endings import ClosedConnection
    from exporter.connections.tracked import TrackedConnection
    from exporter.connections.view import View
    from exporter.engine.known import Known
    from exporter.model import Endpoint

# Endings that findings look back on: 25 minutes of one a second.
REMEMBERED_ENDINGS = 2000


class Counting:
    """Counts by client and broker; `changes` grows with each change of a count."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.counts = Counts(known.rule_of, known.has_learned)
        self._pending_opened: dict[int, float] = {}
        self._unseen_keys: dict[tuple[Endpoint, bool], ClientBroker] = {}
        self._remotes: dict[str, set[Endpoint]] = defaultdict(set)
        self._recount = True
        self.changes = 0
        self.unattributed_closed = 0
        self.closed_lately: deque[tuple[ClientBroker, ClosedConnection]] = deque(
            maxlen=REMEMBERED_ENDINGS
        )

    def pass_time(self, seconds: float) -> None:
        """Add what was open since the last poll."""
        counts = self.counts
        self._known.ledger.integrate(counts.by_class, counts.useful, seconds)
        self._unseen_keys.clear()

    def opened(self, tracked: TrackedConnection, now: float) -> None:
        """Take a connection that is new; it is counted once its client is known."""
        remote = tracked.reading.remote
        self._remotes[remote.address].add(remote)
        if tracked.seen_opening:
            # What was open before the agent was is no surge of its start.
            self._pending_opened[tracked.cookie] = now

    def seen(self, before: View | None, view: View, now: float) -> None:
        """Take a view that was made, and the one before it."""
        verdict = view.verdict
        if (
            before is None
            or before.key != view.key
            or before.verdict.connection_class is not verdict.connection_class
            or before.verdict.useful is not verdict.useful
            or before.was_used is not view.was_used
        ):
            self._recount = True
        if before is not None and before.last_activity_at < view.last_activity_at:
            self._known.accounts.idled(view.cookie, view.last_activity_at - before.last_activity_at)
        if before is None or _series_of(before) != _series_of(view):
            self._known.accounts.put(view, now)

    def active(self, tracked: TrackedConnection) -> None:
        """Count what went over a connection since the last poll."""
        view = self._known.views.get(tracked.cookie)
        if view is None or not tracked.activities:
            return
        last = tracked.activities[-1]
        self._known.ledger.moved(view.key, last.outgoing_bytes, last.incoming_bytes, 0)
        self._known.accounts.moved(tracked.cookie, last.outgoing_bytes, last.incoming_bytes, 0)

    def moved(self, cookie: int, rest: Activity | None = None, retransmits: int = 0) -> None:
        """Count what was sent again, and what went last."""
        view = self._known.views.get(cookie)
        if view is not None:
            out, incoming = (rest.outgoing_bytes, rest.incoming_bytes) if rest else (0, 0)
            self._known.ledger.moved(view.key, out, incoming, retransmits)
            self._known.accounts.moved(cookie, out, incoming, retransmits)

    def exclude(self, cookie: int, now: float) -> None:
        """Forget a connection that turned out to be no client's."""
        self._recount = True
        self._known.views.pop(cookie, None)
        self._pending_opened.pop(cookie, None)
        self._known.attributor.forget((cookie,))
        self._known.accounts.excluded(cookie, now)

    def settle_opened(self, now: float) -> None:
        """Count openings once their client is known, or has had the time to become known."""
        settle = self._known.settings.classes.settle_after
        done = [
            cookie
            for cookie, opened_at in self._pending_opened.items()
            if now - opened_at >= settle or cookie in self._known.attributor.attributions
        ]
        for cookie in done:
            del self._pending_opened[cookie]
            view = self._known.views.get(cookie)
            if view is not None:
                self._known.ledger.opened(view.key)
                self._known.accounts.opened(cookie, view.opened_at)

    def close(self, closed: ClosedConnection, now: float) -> None:
        """Count the end of a connection, of which there is a view if a poll has met it."""
        self._recount = True
        if closed.tracked is None:
            self._close_unseen(closed, now)
            return
        cookie = closed.tracked.cookie
        self.moved(cookie, closed.rest)
        view = self._known.views.pop(cookie)
        self._known.attributor.forget((cookie,))
        self.counts.lose(view, closed.closed_by, now)
        if self._pending_opened.pop(cookie, None) is not None:
            self._known.ledger.opened(view.key)
            self._known.accounts.opened(cookie, view.opened_at)
        if closed.lifetime_seconds <= self._known.settings.classes.probe_within and closed.hung_up:
            closed = self._probed(str(closed.remote), closed)
        self._known.ledger.closed(view.key, closed.closed_by, closed.lifetime_seconds)
        self._known.accounts.closed(cookie, closed, now)
        self._remember_closed(view.key, closed)

    def _close_unseen(self, closed: ClosedConnection, now: float) -> None:
        talked = closed.had_conversation
        key = self._unseen_keys.get((closed.remote, talked))
        if key is None:
            remote = self._known_remote(closed)
            if remote is None:
                self.unattributed_closed += 1
                return
            process = self._lone_process() if talked else ""
            key = ClientBroker("", ClientKind.UNKNOWN.value, process, "", remote)
            key = self._unseen_keys[closed.remote, talked] = self._known.ledger.key(key, now)
        if closed.hung_up:
            closed = self._probed(key.broker, closed)
        self._known.ledger.opened(key)
        rest = closed.rest
        if rest.outgoing_bytes or rest.incoming_bytes:
            self._known.ledger.moved(key, rest.outgoing_bytes, rest.incoming_bytes, 0)
        self._known.ledger.closed(key, closed.closed_by, closed.lifetime_seconds)
        self._known.accounts.came_and_went(key, closed)
        self._remember_closed(key, closed)

    def _probed(self, broker: str, closed: ClosedConnection) -> ClosedConnection:
        """Count a health check. One that resets ends it itself: nothing was broken off."""
        self._known.ledger.probed(broker)
        if closed.closed_by is ClosedBy.ABORT:
            return closed._replace(closed_by=ClosedBy.CLIENT)
        return closed

    def _lone_process(self) -> str:
        """Name the only process that talks to brokers here."""
        names = {view.owner.name for view in self._known.views.values()}
        return next(iter(names)) if len(names) == 1 else ""

    def _known_remote(self, closed: ClosedConnection) -> str | None:
        """Name the broker of a short connection; the kernel forgets the port of some."""
        if closed.remote.port != 0:
            return str(closed.remote)
        address = closed.remote.address
        known = self._remotes.get(address) or self._known.directory.endpoints_at(address)
        if not known:
            return None
        return str(next(iter(known))) if len(known) == 1 else address

    def _remember_closed(self, key: ClientBroker, closed: ClosedConnection) -> None:
        self.changes += 1
        self.closed_lately.append((key, closed))

    def recount(self, now: float) -> None:
        """Count how many there are, if that may have changed."""
        if self._recount:
            self._count(now)

    def recount_if_due(self, now: float) -> None:
        """Count also where nothing but time has passed."""
        if self._recount or self.counts.is_due(now):
            self._count(now)

    def _count(self, now: float) -> None:
        self._recount = False
        self.changes += 1
        self._known.accounts.expect(self.counts.count(self._known.views.values(), now), now)
        self._known.ledger.fold_old(now)


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
