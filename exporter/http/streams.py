"""A connection's bytes, plain or under TLS.

TLS by hand over asyncio's streams: asyncio's own keeps a buffer of 256 KiB for each connection,
so that 64 idle scrapers would cost the agent half of its memory. OpenSSL's needs a tenth.
"""

from __future__ import annotations

__all__ = ["PlainStream", "Stream", "TlsStream"]

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_READ_AHEAD = 16 * 1024
_T = TypeVar("_T")


class Stream(Protocol):
    """What a conversation needs of its connection."""

    async def read(self, most: int) -> bytes:
        """Return what has come, or b"" where nothing more will."""

    async def write(self, data: bytes) -> None:
        """Return once the kernel has all of it, so that a slow reader costs no memory."""

    async def finish(self) -> None:
        """Return the other side that nothing more will come."""

    async def discard(self, most: int) -> None:
        """Throw away what still comes."""


class PlainStream:
    """Bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=0)

    @classmethod
    async def over(cls, sock: socket.socket) -> PlainStream:
        """Wrap a socket that was accepted."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_READ_AHEAD, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def read(self, most: int) -> bytes:
        """Return what has come, or b"" where nothing more will."""
        return await self._reader.read(most)

    async def write(self, data: bytes) -> None:
        """Return once the kernel has all of it."""
        self._writer.write(data)
        await self._writer.drain()

    async def finish(self) -> None:
        """Close this direction."""
        self._writer.write_eof()

    async def discard(self, most: int) -> None:
        """Throw away what still comes."""
        while most > 0 and (data := await self._reader.read(_READ_AHEAD)):
            most -= len(data)

    def abort(self) -> None:
        """Close at once, whatever has not been taken yet."""
        self._writer.transport.abort()


class TlsStream:
    """TLS over a plain stream; reads and writes follow each other, they are never at once."""

    def __init__(self, plain: PlainStream, context: ssl.SSLContext) -> None:
        self._plain = plain
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def shake_hands(self) -> dict[str, Any] | None:
        """Agree on keys; return the client's certificate, verified, if it showed one.

        Raises:
            OSError: there is no agreement (ssl.SSLError is one).
        """
        try:
            await self._run(self._tls.do_handshake)
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                await self._flush()  # the alert that says why
            raise
        return self._tls.getpeercert()

    async def read(self, most: int) -> bytes:
        """Return what has come, or b"" where nothing more will."""
        try:
            return await self._run(lambda: self._tls.read(most))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def write(self, data: bytes) -> None:
        """Return once the kernel has all of it."""
        view = memoryview(data)
        while view:
            written = await self._run(lambda: self._tls.write(view))  # noqa: B023  (runs at once)
            view = view[written:]

    async def finish(self) -> None:
        """Say so under TLS as well, so that the end is not taken for a cut."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()
        await self._plain.finish()

    async def discard(self, most: int) -> None:
        """Throw away what still comes; nobody decrypts it."""
        await self._plain.discard(most)

    async def _run(self, step: Callable[[], _T]) -> _T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._plain.read(_READ_AHEAD)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._plain.write(self._outgoing.read())
