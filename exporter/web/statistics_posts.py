"""librdkafka's statistics by POST: who may send them, and how much work they may cause."""

from __future__ import annotations

__all__ = ["StatisticsPosts", "StatisticsSink"]

import asyncio
import math
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from exporter.errors import BrokerwireError, SourceUnavailableError
from exporter.http.messages import Peer, Response, text_response
from exporter.processor_share import ProcessorShare

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from exporter.http.messages import Request

StatisticsSink = Callable[[bytes, Peer], None]

# What was not used adds up to half a second, for applications whose clients all send at once.
PROCESSOR_SHARE = 1 / 4
BURST_SECONDS = 0.5
HELD_SECONDS = 1.0
# What a post costs beside its document: a connection, its head, an answer.
POST_SECONDS = 0.001


class StatisticsPosts:
    """Accepts documents of `max_bytes` at most and hands them to a sink, in the executor."""

    def __init__(self, sink: StatisticsSink, max_bytes: int, executor: Executor) -> None:
        self.max_bytes = max_bytes
        self._sink = sink
        self._executor = executor
        self._share = ProcessorShare(PROCESSOR_SHARE, burst_seconds=BURST_SECONDS)

    async def refusal(self, request: Request, *, user_known: bool) -> Response | None:
        """Return why a post is refused before its body is read, if it is."""
        if request.method != "POST":
            return text_response(
                HTTPStatus.METHOD_NOT_ALLOWED, "librdkafka's statistics, by POST", ("Allow", "POST")
            )
        # A browser sends Origin with every POST: no page that someone visits may feed the agent.
        if "origin" in request.headers:
            return text_response(HTTPStatus.FORBIDDEN, "not for browsers")
        if not (request.is_local or user_known):
            return text_response(HTTPStatus.FORBIDDEN, "only from this host, or with a password")
        if request.headers.get("content-encoding", "identity") != "identity":
            return text_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "plain JSON, not compressed")
        if rest := self._share.rest():
            # One that is refused and asks again at once would take the server's own time.
            await asyncio.sleep(min(rest, HELD_SECONDS))
        if rest := self._share.rest():
            return text_response(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many statistics: raise statistics.interval.ms of the clients",
                ("Retry-After", str(math.ceil(rest))),
            )
        return None

    async def take(self, request: Request, body: bytes) -> Response:
        """Read a document, and tell its sender what is wrong with it."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, self._read, body, request.peer)
        except SourceUnavailableError as error:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, str(error), ("Retry-After", "1"))
        except BrokerwireError as error:
            return text_response(HTTPStatus.BAD_REQUEST, str(error))
        return text_response(HTTPStatus.ACCEPTED, "accepted")

    def _read(self, body: bytes, peer: Peer) -> None:
        begun = time.thread_time()
        try:
            self._sink(body, peer)
        finally:
            self._share.spend(time.thread_time() - begun + POST_SECONDS)
