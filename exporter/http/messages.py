"""Requests and responses as values: `server` moves them, `web` answers them."""

from __future__ import annotations

__all__ = ["App", "Peer", "Request", "Response", "text_response"]

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping


class Peer(NamedTuple):
    """The other end of a connection."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request without its body; names of headers are in lower case.

    `is_local` says that the peer is on this very host (or in this pod).
    """

    method: str
    path: str
    headers: Mapping[str, str]
    peer: Peer
    is_local: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One response; the server adds what every response has.

    A `stream` takes the place of `body`: its parts are sent as they come, until it or the
    connection ends. One that `may_wait` is refused where many large ones are still being read.
    """

    status: int = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes] | None = None
    may_wait: bool = False


def text_response(status: int, text: str, *headers: tuple[str, str]) -> Response:
    """Say one sentence."""
    return Response(status=status, body=f"{text}\n".encode(), headers=headers)


class App(Protocol):
    """What answers requests; it must not block the server's one thread."""

    async def admit(self, request: Request) -> Response | int:
        """Answer at once, or say how large a body may be (0: none)."""

    async def respond(self, request: Request, body: bytes) -> Response:
        """Answer a request that was admitted."""
