"""What the agent's server answers: metrics, page, API, health, and librdkafka's statistics in."""

from __future__ import annotations

__all__ = [
    "ASSETS",
    "DOCUMENTS",
    "HEALTHY",
    "JSON",
    "READY",
    "STREAM",
    "Application",
    "Options",
    "html_response",
]

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from prometheus_client.exposition import gzip_accepted

from exporter.http.hosts import Hosts
from exporter.http.messages import Response, text_response
from exporter.http.security import Security
from exporter.http.users import BusyError, credentials_from_header
from exporter.metrics.collector import BrokerwireCollector
from exporter.metrics.exposition import Exposition, choose_format
from exporter.metrics.families import Reading, is_stale
from exporter.web.assets import asset_names, asset_response
from exporter.web.statistics_posts import StatisticsPosts, StatisticsSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from exporter.config.settings import LimitSettings, StatisticsSettings, WebSettings
    from exporter.http.conversation import Bounds
    from exporter.http.messages import Request
    from exporter.metrics.collector import View
    from exporter.snapshot import Snapshot
    from exporter.web.live import Feeds

_LOG = logging.getLogger("brokerwire.web")

HEALTHY, READY = "/-/healthy", "/-/ready"
STREAM = "/api/v1/stream"
_STATISTICS = "/api/v1/statistics"
ASSETS = "/assets/"
JSON = "application/json"
# A snapshot is followed by the next within an interval; ten, and at least this, are no hiccup.
_DEAD_INTERVALS = 10.0
_DEAD_SECONDS = 30.0
# Larger snapshots are formatted outside of the server's thread.
_MANY_CONNECTIONS = 1000
# A larger document is made for each request rather than kept in memory.
_KEPT_BYTES = 1024 * 1024
_READING = frozenset({"GET", "HEAD"})
_SAFETY = (
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


def _connections(snapshot: Snapshot, stale: bool) -> bytes:  # noqa: FBT001
    from exporter.web.document import encode_connections

    return encode_connections(snapshot, stale=stale)


def _findings(snapshot: Snapshot, stale: bool) -> bytes:  # noqa: FBT001
    from exporter.web.document import encode, findings_document

    return encode(findings_document(snapshot, stale=stale))


def _sources(snapshot: Snapshot, stale: bool) -> bytes:  # noqa: FBT001
    from exporter.web.document import encode, sources_document

    return encode(sources_document(snapshot, stale=stale))


def _history(snapshot: Snapshot, stale: bool) -> bytes:  # noqa: FBT001
    from exporter.web.document import encode
    from exporter.web.history_document import history_document

    return encode(history_document(snapshot, stale=stale))


def _events(snapshot: Snapshot, stale: bool) -> bytes:  # noqa: FBT001
    from exporter.web.document import encode
    from exporter.web.history_document import events_document

    return encode(events_document(snapshot, stale=stale))


def _classes(*_: object) -> bytes:
    from exporter.web.document import encode
    from exporter.web.history_document import classes_document

    return encode(classes_document())


DOCUMENTS: dict[str, Callable[[Snapshot, bool], bytes]] = {
    "/api/v1/connections": _connections,
    "/api/v1/findings": _findings,
    "/api/v1/sources": _sources,
    "/api/v1/history": _history,
    "/api/v1/events": _events,
    "/api/v1/classes": _classes,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the server knows of the agent, and its bounds.

    `readings` are further suppliers of catalogued metrics; `is_alive` is asked by `/-/healthy`;
    `runbooks` is the address of a runbook, with `{alert}` in the place of its name.
    """

    limits: LimitSettings
    statistics: StatisticsSettings
    is_alive: Callable[[], bool]
    readings: tuple[Callable[[], Iterable[Reading]], ...]
    clock: Callable[[], float]
    bounds: Bounds
    runbooks: str


class Application:
    """Routes requests; formats a snapshot once for all who ask for it.

    `executor` is the one worker for what would hold up the server's thread.
    """

    def __init__(
        self,
        settings: WebSettings,
        snapshot_source: Callable[[], Snapshot | None],
        on_statistics: StatisticsSink | None,
        options: Options,
        executor: Executor,
    ) -> None:
        self._telemetry_path = settings.telemetry_path
        self._hosts = Hosts(settings.hosts, settings.listen_addresses)
        self._snapshot_source = snapshot_source
        self._posts = (
            StatisticsPosts(on_statistics, options.statistics.max_bytes, executor)
            if on_statistics is not None and options.statistics.http
            else None
        )
        self._is_alive = options.is_alive
        self._clock = options.clock
        self._runbooks = options.runbooks
        self._started_at = self._clock()
        self._executor = executor
        self.security = Security(settings.config_file, executor)
        readings = (self.security.readings, self._readings, *options.readings)
        self._exposition = Exposition(
            BrokerwireCollector(self._views, options.limits, readings, options.clock),
            options.clock,
        )
        self._documents: dict[str, tuple[Snapshot, bool, bytes]] = {}
        self._requests: Counter[tuple[str, str]] = Counter()
        self._feeds: Feeds | None = None

    async def admit(self, request: Request) -> Response | int:
        """Refuse what may not or cannot be asked, before a body is read."""
        refusal = await self._refusal(request)
        if refusal is None:
            posts = self._posts if request.path == _STATISTICS else None
            return 0 if posts is None else posts.max_bytes
        return self._finished(request, refusal)

    async def respond(self, request: Request, body: bytes) -> Response:
        """Answer; a bug is a 500 and a line in the log, and the server goes on."""
        try:
            response = await self._response(request, body)
        except Exception:  # noqa: BLE001  (the last one of this thread: it is logged)
            _LOG.exception("bug in an answer", extra={"path": request.path})
            response = text_response(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug: see the log")
        return self._finished(request, response)

    def _finished(self, request: Request, response: Response) -> Response:
        self._requests[self._handler(request.path), str(int(response.status))] += 1
        headers = dict(_SAFETY)
        headers.update(response.headers)
        headers.update(self.security.config.http_server_config.headers)
        return Response(
            status=response.status,
            body=response.body,
            content_type=response.content_type,
            headers=tuple(headers.items()),
            may_wait=response.may_wait,
            stream=response.stream,
        )

    def _readings(self) -> list[Reading]:
        return [
            ("brokerwire_http_requests_total", labels, count)
            for labels, count in sorted(self._requests.items())
        ]

    def _handler(self, path: str) -> str:
        """Name a path from a closed set: what is asked for must not become a label."""
        if path == self._telemetry_path:
            return "metrics"
        if path in DOCUMENTS or path == STREAM:
            return "api"
        if path.startswith(ASSETS):
            return "page" if path.removeprefix(ASSETS) in asset_names() else "other"
        names = {"/": "page", _STATISTICS: "statistics", HEALTHY: "health", READY: "health"}
        return names.get(path, "other")

    # Who may ask for what

    async def _refusal(self, request: Request) -> Response | None:
        handler = self._handler(request.path)
        if handler == "health":
            # A kubelet has no password and must not wait its turn; that the agent lives is no
            # secret.
            return _reading_refusal(request)
        if not self._hosts.welcomes(request.headers.get("host")):
            return text_response(
                HTTPStatus.MISDIRECTED_REQUEST, "not a name of this agent: see web.hosts"
            )
        if not self.security.within_rate():
            return text_response(HTTPStatus.TOO_MANY_REQUESTS, "rate_limit", ("Retry-After", "1"))
        user_known = bool(self.security.users)
        if user_known and (refusal := await self._unauthorized(request)) is not None:
            return refusal
        if handler == "other" or (handler == "statistics" and self._posts is None):
            return text_response(HTTPStatus.NOT_FOUND, "nothing here; / lists what there is")
        if handler == "statistics" and self._posts is not None:
            return await self._posts.refusal(request, user_known=user_known)
        return _reading_refusal(request)

    async def _unauthorized(self, request: Request) -> Response | None:
        given = credentials_from_header(request.headers.get("authorization", ""))
        try:
            if given is not None and await self.security.users.accept(*given, request.peer.address):
                return None
        except BusyError:
            return text_response(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many logins", ("Retry-After", "1")
            )
        challenge = ("WWW-Authenticate", 'Basic realm="brokerwire", charset="UTF-8"')
        return text_response(HTTPStatus.UNAUTHORIZED, "user and password, please", challenge)

    # Answers

    async def _response(self, request: Request, body: bytes) -> Response:
        snapshot, now = self._snapshot_source(), self._clock()
        path = request.path
        if path == self._telemetry_path:
            return self._metrics(request)
        if path == HEALTHY:
            return self._health(snapshot, now)
        if path == _STATISTICS and self._posts is not None:
            return await self._posts.take(request, body)
        if path.startswith(ASSETS):
            return asset_response(path.removeprefix(ASSETS))
        if snapshot is None:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, "not ready: no poll is done yet")
        if path == READY:
            return text_response(HTTPStatus.OK, "ready")
        if path == STREAM:
            return self.events("", self._snapshot_source)
        return await self._document(path, snapshot, stale=is_stale(snapshot, now))

    def events(self, name: str, source: Callable[[], Snapshot | None]) -> Response:
        """Answer with what is there and whatever changes, until one side has had enough."""
        if self._feeds is None:
            from exporter.web.live import Feeds

            self._feeds = Feeds(self._clock, self._executor)
        stream = self._feeds.join(name, source)
        if stream is None:
            return text_response(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many are watching", ("Retry-After", "10")
            )
        return Response(stream=stream, content_type="text/event-stream")

    def _views(self) -> Sequence[View]:
        """Return what there is to show of clients."""
        snapshot = self._snapshot_source()
        return () if snapshot is None else (({}, snapshot),)

    def _metrics(self, request: Request) -> Response:
        fmt = choose_format(request.headers.get("accept", ""))
        packed = gzip_accepted(request.headers.get("accept-encoding", ""))
        page = self._exposition.page(fmt, packed=packed)
        headers = [("Vary", "Accept, Accept-Encoding")]
        if page.encoding:
            headers.append(("Content-Encoding", page.encoding))
        return Response(body=page.body, content_type=fmt.value, headers=tuple(headers))

    def _health(self, snapshot: Snapshot | None, now: float) -> Response:
        if not self._is_alive():
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, "the poll thread is not well")
        if snapshot is None:
            late = now - self._started_at > _DEAD_SECONDS
        else:
            late = now - snapshot.at > max(
                _DEAD_SECONDS, _DEAD_INTERVALS * snapshot.interval_seconds
            )
        if late:
            return text_response(
                HTTPStatus.SERVICE_UNAVAILABLE, "the sockets were not read for too long"
            )
        return text_response(HTTPStatus.OK, "healthy")

    async def _document(self, path: str, snapshot: Snapshot, *, stale: bool) -> Response:
        if len(snapshot.connections) < _MANY_CONNECTIONS:
            body = self._formatted(path, snapshot, stale)
        else:
            loop = asyncio.get_running_loop()
            body = await loop.run_in_executor(
                self._executor, self._formatted, path, snapshot, stale
            )
        if path == "/":
            return html_response(body)
        return Response(body=body, content_type=JSON, may_wait=True)

    def _formatted(self, path: str, snapshot: Snapshot, stale: bool) -> bytes:  # noqa: FBT001
        done = self._documents.get(path)
        if done is not None and done[0] is snapshot and done[1] == stale:
            return done[2]
        if path == "/":
            from exporter.web.page import render_page

            body = render_page(snapshot, self._telemetry_path, stale=stale, runbooks=self._runbooks)
        else:
            body = DOCUMENTS[path](snapshot, stale)
        if len(body) <= _KEPT_BYTES:
            self._documents[path] = (snapshot, stale, body)
        return body


def _reading_refusal(request: Request) -> Response | None:
    if request.method in _READING:
        return None
    return text_response(HTTPStatus.METHOD_NOT_ALLOWED, "only to be read", ("Allow", "GET, HEAD"))


def html_response(body: bytes) -> Response:
    """Answer with a page, which may load and run nothing but its own."""
    from exporter.web.page import PAGE_POLICY

    policy = ("Content-Security-Policy", PAGE_POLICY)
    return Response(
        body=body, content_type="text/html; charset=utf-8", headers=(policy,), may_wait=True
    )
