"""Server-sent events: one document, then what has changed since, to a bounded number of readers.

All readers share one comparison of two snapshots. It costs what changed, and with many connections
it is made less often, so that a page that is watched takes a small share of one core.
"""

from __future__ import annotations

__all__ = ["MOST_WATCHERS", "Feeds", "changes_document"]

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from exporter.connections.view import Connections, View, connection_at
from exporter.metrics.families import is_stale
from exporter.web.document import connection_fields, encode, encode_connections, sections, summary
from exporter.web.fields import Document, envelope

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from concurrent.futures import Executor

    from exporter.model import Connection
    from exporter.snapshot import Snapshot

    SnapshotSource = Callable[[], Snapshot | None]

# Each is a connection of the server's 64, and a copy of each event until it is written.
MOST_WATCHERS = 8
_LEAST_SECONDS = 1.0
# Comparing and encoding takes about 20 us for each connection that changed.
_CONNECTIONS_A_SECOND = 1000
# Larger snapshots are compared outside of the server's thread.
_MANY_CONNECTIONS = 1000
# A reader that has gone is noticed when something is written.
_HEARTBEAT_SECONDS = 15.0
# A reader that is further behind than this begins again with the whole document.
_MOST_BEHIND = 4
_RETRY = b"retry: 2000\n\n"
_HEARTBEAT = b":\n\n"
_END = b""


def changes_document(before: Snapshot, now: Snapshot, *, stale: bool) -> Document:
    """Describe what is new in a snapshot: of a connection the fields that changed, and its cookie.

    Times of a connection to which nothing happened go on, and are not told.
    """
    known = {each.cookie: each for each in _versions(before.connections)}
    put = []
    for each in _versions(now.connections):
        old = known.pop(each.cookie, None)
        if old is not each:
            fields = connection_fields(_connection(each, now))
            if old is not None:
                last = connection_fields(_connection(old, before))
                fields = {
                    name: value
                    for name, value in fields.items()
                    if name == "cookie" or last[name] != value
                }
            put.append(fields)
    old_sections = dict(sections(before))
    return {
        **envelope(now, stale=stale),
        "summary": summary(now),
        "connections": put,
        "gone": [str(cookie) for cookie in known],
        **{name: value for name, value in sections(now) if value != old_sections[name]},
    }


def _versions(connections: Sequence[Connection]) -> Sequence[View] | Sequence[Connection]:
    """Return for each connection an object that stays the same while nothing happens to it."""
    return connections.views if isinstance(connections, Connections) else connections


def _connection(version: View | Connection, snapshot: Snapshot) -> Connection:
    return connection_at(version, snapshot.at) if isinstance(version, View) else version


class Feeds:
    """The feeds of one server: one for each source of snapshots that somebody watches."""

    def __init__(self, clock: Callable[[], float], executor: Executor) -> None:
        self._clock = clock
        self._executor = executor
        self._feeds: dict[str, _Feed] = {}

    def join(self, name: str, source: SnapshotSource) -> AsyncGenerator[bytes] | None:
        """Return the events of a source; None where too many are watching."""
        if sum(len(feed.watchers) for feed in self._feeds.values()) >= MOST_WATCHERS:
            return None
        snapshot = source()
        if snapshot is None:
            return None
        feed = self._feeds.get(name)
        if feed is None:
            feed = self._feeds[name] = _Feed(source, snapshot, self._clock, self._executor)
            feed.task.add_done_callback(lambda _: self._feeds.pop(name, None))
        return feed.watch()


class _Feed:
    """Compares snapshots while somebody watches."""

    def __init__(
        self,
        source: SnapshotSource,
        snapshot: Snapshot,
        clock: Callable[[], float],
        executor: Executor,
    ) -> None:
        self._source = source
        self._clock = clock
        self._executor = executor
        self._last = snapshot
        self._stale = is_stale(snapshot, clock())
        self.watchers: set[asyncio.Queue[bytes]] = set()
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def watch(self) -> AsyncGenerator[bytes]:
        """Give everything, then what changes; watching begins with the first event asked for."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(_MOST_BEHIND)
        self.watchers.add(queue)
        first, stale = self._last, self._stale
        try:
            yield _RETRY
            yield await self._made(first, lambda: _whole(first, stale=stale))
            while not self.task.done() and (event := await queue.get()):
                yield event
        finally:
            self.watchers.discard(queue)

    async def _run(self) -> None:
        try:
            await self._follow()
        finally:
            self._tell(tuple(self.watchers), _END)

    async def _follow(self) -> None:
        quiet = 0.0
        while True:
            pause = max(_LEAST_SECONDS, len(self._last.connections) / _CONNECTIONS_A_SECOND)
            await asyncio.sleep(pause)
            snapshot = self._source()
            if not self.watchers or snapshot is None:
                return
            stale = is_stale(snapshot, self._clock())
            if snapshot is not self._last or stale is not self._stale:
                before, self._last, self._stale = self._last, snapshot, stale
                # Who joins meanwhile begins with the new snapshot, and must not get this event.
                watchers = tuple(self.watchers)
                self._tell(watchers, await self._changes(before))
                quiet = 0.0
            elif (quiet := quiet + pause) >= _HEARTBEAT_SECONDS:
                self._tell(tuple(self.watchers), _HEARTBEAT)
                quiet = 0.0

    async def _changes(self, before: Snapshot) -> bytes:
        now, stale = self._last, self._stale
        return await self._made(
            now, lambda: _event("changes", encode(changes_document(before, now, stale=stale)))
        )

    async def _made(self, snapshot: Snapshot, make: Callable[[], bytes]) -> bytes:
        if len(snapshot.connections) < _MANY_CONNECTIONS:
            return make()
        return await asyncio.get_running_loop().run_in_executor(self._executor, make)

    def _tell(self, watchers: Sequence[asyncio.Queue[bytes]], event: bytes) -> None:
        for queue in watchers:
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                self.watchers.discard(queue)
                while not queue.empty():
                    queue.get_nowait()
                with suppress(asyncio.QueueFull):
                    queue.put_nowait(_END)


def _whole(snapshot: Snapshot, *, stale: bool) -> bytes:
    return _event("all", encode_connections(snapshot, stale=stale))


def _event(name: str, data: bytes) -> bytes:
    """Write one event; the data is one line, since JSON's texts escape what ends one."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data.rstrip(b"\n"))
