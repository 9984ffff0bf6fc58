"""Remembers what happened to connections, the last events only, for the story of each.

Pure.
"""

from __future__ import annotations

__all__ = ["MOST_EVENTS", "EventLog"]

from collections import deque
from typing import TYPE_CHECKING

from exporter.history import ConnectionEvent
from exporter.text import duration

if TYPE_CHECKING:
    from exporter.connections.endings import ClosedConnection
    from exporter.connections.tracked import TrackedConnection
    from exporter.connections.view import View

# A quarter of a MiB; of clients that connect for each request the last minute or so.
MOST_EVENTS = 1000


class EventLog:
    """Takes each new view of a connection, and its end."""

    def __init__(self) -> None:
        self._events: deque[ConnectionEvent] = deque(maxlen=MOST_EVENTS)
        self._last: tuple[ConnectionEvent, ...] = ()
        self._is_new = False

    @property
    def events(self) -> tuple[ConnectionEvent, ...]:
        """What happened, the last event last; the same tuple while nothing does."""
        if self._is_new:
            self._last, self._is_new = tuple(self._events), False
        return self._last

    def described(
        self, before: View | None, view: View, tracked: TrackedConnection, now: float
    ) -> None:
        """Take a new view of a connection, and the one before it."""
        after = view.verdict.connection_class
        known = None if before is None else before.verdict.connection_class
        if before is None:
            kind, at = ("opened", view.opened_at) if tracked.seen_opening else ("found", now)
        elif known is not after:
            kind, at = "class", now
        else:
            return
        evidence = view.verdict.evidence
        self._put(
            ConnectionEvent(
                at,
                kind,
                view.cookie,
                view.key,
                str(view.reading.local),
                known,
                after,
                evidence[0] if evidence else "",
            )
        )

    def closed(self, view: View, closed: ClosedConnection) -> None:
        """Take the end of a connection that a poll has met."""
        before = view.verdict.connection_class
        self._put(
            ConnectionEvent(
                closed.at,
                "closed",
                view.cookie,
                view.key,
                str(closed.local),
                before,
                None,
                _ending(closed),
            )
        )

    def came_and_went(self, closed: ClosedConnection) -> None:
        """Take a connection that opened and closed between two polls."""
        client = ("", "unknown", "", "", str(closed.remote))
        self._put(
            ConnectionEvent(
                closed.at, "closed", None, client, str(closed.local), None, None, _ending(closed)
            )
        )

    def _put(self, event: ConnectionEvent) -> None:
        self._events.append(event)
        self._is_new = True


def _ending(closed: ClosedConnection) -> str:
    return f"by {closed.closed_by}, open for {duration(closed.lifetime_seconds)}"
