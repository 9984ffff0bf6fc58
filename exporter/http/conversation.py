"""One connection to the server: requests in, responses out, a deadline for each step."""

from __future__ import annotations

__all__ = ["ANSWER_BYTES", "Allowance", "Bounds", "Conversation", "Phase"]

import asyncio
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11

from exporter.http.messages import Peer, Request, Response, text_response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from exporter.http.messages import App
    from exporter.http.streams import Stream

_HEAD_CHUNK = 4096
_CHUNK = 64 * 1024
# Of all readers together that have not yet taken their documents: a larger one goes alone.
ANSWER_BYTES = 16 * 1024 * 1024
LARGE_ANSWER = 256 * 1024
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 32 * 1024 * 1024
_BODILESS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one connection may take, in seconds and bytes."""

    head_seconds: float = 5.0
    body_seconds: float = 10.0
    work_seconds: float = 10.0
    write_seconds: float = 10.0
    # Longer than the usual scrape interval of a minute, so that scrapers keep their connection.
    idle_seconds: float = 75.0
    head_bytes: int = 8 * 1024


class Phase(StrEnum):
    """What a connection is waiting for."""

    HANDSHAKE = "handshake"
    HEAD = "head"
    BODY = "body"
    WORK = "work"
    WRITE = "write"
    STREAM = "stream"
    IDLE = "idle"


class Allowance:
    """Bytes of bodies that all connections together may hold."""

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def take(self, count: int) -> bool:
        """Take some, if there are so many left."""
        if count > self._left:
            return False
        self._left -= count
        return True

    def take_or_all(self, count: int) -> bool:
        """Take some, or all and more where nothing is taken."""
        if count > self._left < self._most:
            return False
        self._left -= count
        return True

    def give_back(self, count: int) -> None:
        """Return what was taken."""
        self._left += count


class Conversation:
    """Reads requests, has the app answer them, writes the answers; until one side has had enough.

    `phase` and `since` are how the server chooses which connection to close first.
    """

    def __init__(
        self,
        app: App,
        bounds: Bounds,
        allowance: Allowance,
        peer: Peer,
        *,
        is_local: bool,
        answers: Allowance | None = None,
    ) -> None:
        self._app = app
        self._bounds = bounds
        self._allowance = allowance
        self._answers = answers or Allowance(ANSWER_BYTES)
        self._held = 0
        self.peer = peer
        self._is_local = is_local
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=bounds.head_bytes)
        self._stream: Stream
        self._method = ""
        self.phase = Phase.HEAD
        self.since = time.monotonic()

    def enter(self, phase: Phase) -> None:
        """Note what is being waited for, and since when."""
        self.phase = phase
        self.since = time.monotonic()

    async def run(self, stream: Stream) -> None:
        """Serve one request after the other.

        Raises:
            TimeoutError, OSError, h11.ProtocolError: the connection is of no more use.
        """
        self._stream = stream
        try:
            await self._serve_all()
        except h11.RemoteProtocolError as error:
            await self._refuse(error)
            raise

    async def _serve_all(self) -> None:
        first = True
        while True:
            event = await self._head(first=first)
            if not isinstance(event, h11.Request):
                return
            first = False
            await self._serve(event)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                await self._linger()
                return
            self._http.start_next_cycle()

    async def _head(self, *, first: bool) -> h11.Event | type[h11.PAUSED]:
        if not first and not self._http.trailing_data[0]:
            self.enter(Phase.IDLE)
            async with asyncio.timeout(self._bounds.idle_seconds):
                self._http.receive_data(await self._stream.read(_HEAD_CHUNK))
        self.enter(Phase.HEAD)
        async with asyncio.timeout(self._bounds.head_seconds):
            return await self._event(_HEAD_CHUNK)

    async def _event(self, chunk: int) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            self._http.receive_data(await self._stream.read(chunk))

    async def _serve(self, event: h11.Request) -> None:
        request = self._request(event)
        has_body = any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in event.headers
        )
        self._method = request.method
        try:
            response = await self._answer(request, has_body=has_body)
        finally:
            self._allowance.give_back(self._held)
            self._held = 0
        large = len(response.body) if len(response.body) > LARGE_ANSWER else 0
        if response.may_wait and large and not self._answers.take_or_all(large):
            large, response = (
                0,
                text_response(
                    HTTPStatus.SERVICE_UNAVAILABLE, "too many large answers", ("Retry-After", "5")
                ),
            )
        elif not response.may_wait:
            large = 0
        try:
            await self._reply(response, has_body=has_body)
        finally:
            self._answers.give_back(large)

    async def _reply(self, response: Response, *, has_body: bool) -> None:
        unread = has_body and self._http.their_state is h11.SEND_BODY
        unheard = response.status == HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
        await self._send(response, close=unread or unheard)
        if not unread and self._http.their_state is h11.SEND_BODY:
            await self._event(_HEAD_CHUNK)  # the end of a message without a body

    async def _answer(self, request: Request, *, has_body: bool) -> Response:
        self.enter(Phase.WORK)
        if self._http.their_http_version not in {b"1.0", b"1.1"}:
            return text_response(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1, please")
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            # h11 takes the former, as the standard says; what is before us may take the latter.
            return text_response(HTTPStatus.BAD_REQUEST, "two lengths of one body")
        if has_body and request.method in _BODILESS:
            return text_response(HTTPStatus.BAD_REQUEST, f"a {request.method} has no body")
        async with asyncio.timeout(self._bounds.work_seconds):
            admitted = await self._app.admit(request)
        if isinstance(admitted, Response):
            return admitted
        body = await self._body(request, admitted)
        if isinstance(body, Response):
            return body
        self.enter(Phase.WORK)
        async with asyncio.timeout(self._bounds.work_seconds):
            return await self._app.respond(request, body)

    def _request(self, event: h11.Request) -> Request:
        return Request(
            method=event.method.decode("ascii"),
            path=_path(event.target.decode("ascii", "replace")),
            headers={
                name.decode("ascii"): value.decode("latin-1") for name, value in event.headers
            },
            peer=self.peer,
            is_local=self._is_local,
        )

    async def _body(self, request: Request, most: int) -> bytes | Response:
        too_large = text_response(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body may have {most} bytes"
        )
        length = request.headers.get("content-length", "0")
        if int(length) > most:
            return too_large
        self.enter(Phase.BODY)
        if self._http.they_are_waiting_for_100_continue:
            await self._write(
                self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
            )
        parts = bytearray()
        async with asyncio.timeout(self._bounds.body_seconds):
            while isinstance(event := await self._event(_CHUNK), h11.Data):
                self.since = time.monotonic()
                if len(parts) + len(event.data) > most:
                    return too_large
                if not self._allowance.take(len(event.data)):
                    return text_response(
                        HTTPStatus.SERVICE_UNAVAILABLE, "too many bodies", ("Retry-After", "1")
                    )
                self._held += len(event.data)
                parts += event.data
        return bytes(parts)

    async def _send(self, response: Response, *, close: bool) -> None:
        self.enter(Phase.WRITE)
        headers = [("Content-Type", response.content_type), ("Date", _date()), *response.headers]
        if response.stream is None:
            headers.append(("Content-Length", str(len(response.body))))
        if close or response.stream is not None:
            headers.append(("Connection", "close"))
        head = self._http.send(
            h11.Response(
                status_code=response.status,
                headers=headers,
                reason=HTTPStatus(response.status).phrase,
            )
        )
        if response.stream is not None:
            await self._send_stream(head or b"", response.stream)
            return
        body = b"" if self._method == "HEAD" else response.body
        if body:
            self._http.send_with_data_passthrough(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        async with asyncio.timeout(self._bounds.write_seconds):
            await self._write((head or b"") + body[:_CHUNK])
            for start in range(_CHUNK, len(body), _CHUNK):
                await self._write(body[start : start + _CHUNK])

    async def _send_stream(self, head: bytes, stream: AsyncGenerator[bytes]) -> None:
        """Send parts as they come; a peer that does not take one in time has lost the rest."""
        async with aclosing(stream):
            async with asyncio.timeout(self._bounds.write_seconds):
                await self._write(head)
            self.enter(Phase.STREAM)
            if self._method == "HEAD":
                self._http.send(h11.EndOfMessage())
                return
            async for part in stream:
                self.enter(Phase.WRITE)
                data = self._http.send(h11.Data(data=part)) or b""
                async with asyncio.timeout(self._bounds.write_seconds):
                    for start in range(0, len(data), _CHUNK):
                        await self._write(data[start : start + _CHUNK])
                self.enter(Phase.STREAM)
            await self._write(self._http.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        await self._stream.write(data or b"")
        self.since = time.monotonic()

    async def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Say what is wrong with the request, where h11 still lets a response be sent."""
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        status = error.error_status_hint
        await self._send(text_response(status, HTTPStatus(status).phrase), close=True)
        await self._linger()

    async def _linger(self) -> None:
        """Let the other side finish: closing over unread bytes would reset away the response."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._stream.finish()
                await self._stream.discard(_LINGER_BYTES)


def _path(target: str) -> str:
    """Return the path of a target; proxies send the absolute form."""
    if "://" in target and not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    return target.partition("?")[0]


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _date() -> str:
    now = time.gmtime()
    day, month = _DAYS[now.tm_wday], _MONTHS[now.tm_mon]
    return f"{day}, {now.tm_mday:02} {month} {now.tm_year} {time.strftime('%H:%M:%S', now)} GMT"
