"""A small HTTP/1.1 server that nobody can starve: h11 on asyncio, everything bounded.

The standard library's has no bound on threads, header time or connections. Here each connection
is one task with a deadline for each step, and where all places are taken the one that has kept
others waiting longest makes room: four hundred silent connections do not keep a scrape out.
"""

from __future__ import annotations

__all__ = ["HttpServer", "TlsPolicy"]

import asyncio
import contextlib
import logging
import math
import ssl
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import h11

from exporter.http.conversation import ANSWER_BYTES, Allowance, Bounds, Conversation, Phase
from exporter.http.messages import Peer
from exporter.http.streams import PlainStream, TlsStream

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from exporter.http.messages import App

_LOG = logging.getLogger(__name__)

PEER_CONNECTIONS = 4
_HANDSHAKE_SECONDS = 5.0
_READ_AHEAD = 16 * 1024
_PAUSE_SECONDS = 0.1
_ACCEPTED_AT_ONCE = 4
# How long a connection may keep its place in a phase when another one needs it. A scraper has sent
# its request by the time that it is accepted. Until somebody has had his time, newcomers wait in
# the kernel's queue, in order; WORK is ours, and is left alone.
_PATIENCE_SECONDS = {
    Phase.IDLE: 0.0,
    # Whoever watches a page asks again by itself.
    Phase.STREAM: 0.0,
    Phase.HEAD: 0.03,
    Phase.HANDSHAKE: 0.1,
    Phase.BODY: 1.0,
    Phase.WRITE: 1.0,
}
# Istio's sidecar hands on what comes from outside of the pod with these addresses.
_MESH = frozenset({"127.0.0.6", "::6"})
# Who waits longer for room is told so instead.
_LONGEST_WAIT_SECONDS = 0.1
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 26\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    b"too many connections; wait"
)


class TlsPolicy(Protocol):
    """Which TLS the next connection gets, and whose certificate is welcome."""

    def context(self) -> ssl.SSLContext | None:
        """Return the context for the next connection; None for plain HTTP."""

    def welcomes(self, certificate: dict[str, Any] | None) -> bool:
        """Return whether a client that showed this (verified) certificate may speak."""


class HttpServer:
    """Serves an app on sockets that listen already, until `run` is cancelled."""

    def __init__(
        self,
        app: App,
        tls: TlsPolicy,
        *,
        max_connections: int = 64,
        body_bytes: int = 2 * 1024 * 1024,
        bounds: Bounds | None = None,
    ) -> None:
        self._app = app
        self._tls = tls
        self._max_connections = max_connections
        self._bounds = bounds or Bounds()
        self._allowance = Allowance(body_bytes)
        self._answers = Allowance(ANSWER_BYTES)
        self._open: dict[asyncio.Task[None], Conversation] = {}
        self._is_ending = False
        self.rejected: Counter[str] = Counter()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    async def run(self, listeners: Sequence[socket.socket]) -> None:
        """Accept on all listeners."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            loop.add_reader(listener, self._accept, listener)
        try:
            await loop.create_future()
        finally:
            self._is_ending = True
            for listener in listeners:
                loop.remove_reader(listener)
            tasks = list(self._open)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        """Accept some, not all that wait, so that those that are here are read in between.

        Not `loop.sock_accept`: when that is cancelled it may drop a socket that was accepted.
        """
        for _ in range(_ACCEPTED_AT_ONCE):
            if wait := self._wait_for_room():
                self._rest(listener, wait)
                return
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # gone before it was accepted
            except OSError as error:
                self._pause(listener, error)
                return
            self._admit(sock, Peer(_plain(address[0]), address[1]))

    def _wait_for_room(self) -> float:
        """Return when the next connection will have had its time; 0 where there is no such one."""
        if len(self._open) < self._max_connections:
            return 0.0
        now = time.monotonic()
        waits = [
            _PATIENCE_SECONDS.get(each.phase, math.inf) - (now - each.since)
            for each in self._open.values()
        ]
        wait = min(waits)
        return wait if 0.0 < wait <= _LONGEST_WAIT_SECONDS else 0.0

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Give one up where descriptors or memory are short, and do not spin."""
        _LOG.warning("cannot accept a connection: %s", error.strerror)
        self._make_room(Peer("", 0), is_local=True)
        self._rest(listener, _PAUSE_SECONDS)

    def _rest(self, listener: socket.socket, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(seconds, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if not self._is_ending:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _admit(self, sock: socket.socket, peer: Peer) -> None:
        try:
            own = _plain(sock.getsockname()[0]) == peer.address or _is_loopback(peer.address)
            # A mesh stands for many, so that they share no peer's places; none of them is local.
            is_local = own and peer.address not in _MESH
            reason = self._reason_to_reject(peer, is_local=own)
            if reason:
                self.rejected[reason] += 1
                self._turn_away(sock)
                return
        except OSError:
            sock.close()
            return
        conversation = Conversation(
            self._app,
            self._bounds,
            self._allowance,
            peer,
            is_local=is_local,
            answers=self._answers,
        )
        task = asyncio.get_running_loop().create_task(self._serve(sock, conversation))
        self._open[task] = conversation
        task.add_done_callback(lambda done: self._forget(done, sock))

    def _forget(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        self._open.pop(task, None)
        # One that was cancelled before it began has nobody else to close it.
        sock.close()

    def _reason_to_reject(self, peer: Peer, *, is_local: bool) -> str:
        if not is_local:
            of_peer = sum(each.peer.address == peer.address for each in self._open.values())
            if of_peer >= PEER_CONNECTIONS and not self._make_room(peer, is_local=False):
                return "peer_limit"
        if len(self._open) >= self._max_connections and not self._make_room(peer, is_local=True):
            return "full"
        return ""

    def _make_room(self, peer: Peer, *, is_local: bool) -> bool:
        """Give up the connection that is furthest over its patience; of this peer, if remote."""
        now = time.monotonic()
        worst: tuple[float, asyncio.Task[None]] | None = None
        for task, each in self._open.items():
            patience = _PATIENCE_SECONDS.get(each.phase)
            if patience is None or not (is_local or each.peer.address == peer.address):
                continue
            over = now - each.since - patience
            if over >= 0 and (worst is None or over > worst[0]):
                worst = (over, task)
        if worst is None:
            return False
        self.rejected["evicted"] += 1
        del self._open[worst[1]]
        worst[1].cancel()
        return True

    def _turn_away(self, sock: socket.socket) -> None:
        """Say 503 where that is cheap, which it is not under TLS."""
        with contextlib.suppress(OSError):
            sock.setblocking(False)
            if self._tls.context() is None:
                with contextlib.suppress(BlockingIOError):
                    sock.recv(_READ_AHEAD)  # closing over unread bytes would reset the answer away
                sock.send(_FULL)
        sock.close()

    async def _serve(self, sock: socket.socket, conversation: Conversation) -> None:
        """Serve one connection; whatever its peer does ends it in silence and is only counted."""
        stream: PlainStream | None = None
        try:
            sock.setblocking(False)
            # Whoever is silent costs a descriptor, not yet a stream with its buffers.
            await _first_byte(sock, self._bounds.head_seconds)
            stream = await PlainStream.over(sock)
            await self._converse(stream, conversation)
        except TimeoutError:
            self.rejected["deadline"] += 1
        except ssl.SSLError:
            self.rejected["handshake"] += 1
        except h11.ProtocolError:
            self.rejected["protocol"] += 1
        except OSError:
            pass  # gone: nobody is there to be told
        finally:
            if stream is not None:
                stream.abort()

    async def _converse(self, plain: PlainStream, conversation: Conversation) -> None:
        context = self._tls.context()
        if context is None:
            await conversation.run(plain)
            return
        conversation.enter(Phase.HANDSHAKE)
        stream = TlsStream(plain, context)
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            certificate = await stream.shake_hands()
        if self._tls.welcomes(certificate):
            await conversation.run(stream)
        else:
            self.rejected["certificate"] += 1


async def _first_byte(sock: socket.socket, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(sock, readable.set)
    try:
        async with asyncio.timeout(seconds):
            await readable.wait()
    finally:
        loop.remove_reader(sock)


def _plain(address: str) -> str:
    """Spell an IPv4 address as one, also where it came in over a dual-stack socket."""
    return address.removeprefix("::ffff:").partition("%")[0]


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address in {"::1", "::6"}
