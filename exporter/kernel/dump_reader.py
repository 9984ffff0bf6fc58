"""Decodes the datagrams of successive dumps into readings.

Whatever does not fit the format is an error: bytes that are not understood are never skipped.
"""

from __future__ import annotations

__all__ = ["DumpReader"]

import struct
from itertools import chain
from typing import TYPE_CHECKING

from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.kernel.inet_diag import RECORD_TYPES, read_record
from exporter.kernel.netlink import BUFFER_BYTES, HEADER, padded, unavailable
from exporter.kernel.reading_cache import ReadingCache
from exporter.kernel.record_layout import Layouts

if TYPE_CHECKING:
    from exporter.model import SocketReading

_NLM_F_DUMP_INTR = 0x10
_NLMSG_NOOP = 1
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_ERRNO = struct.Struct("=i")
# Records have two or three lengths on one machine; a flood of lengths must not fill the memory.
_MOST_CACHES = 64


class DumpReader:
    """Reads one dump after the other out of `buffer`, into which the caller receives."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self._layouts = Layouts()
        self._caches: dict[int, ReadingCache] = {}
        self._latest: tuple[SocketReading, ...] = ()
        self._sequence = 0
        self._at = 0.0

    def start(self, sequence: int, at: float) -> None:
        """Begin a dump whose request had this sequence number."""
        self._sequence, self._at = sequence, at
        if len(self._caches) > _MOST_CACHES:
            self._caches.clear()
        for cache in self._caches.values():
            cache.start()

    def feed(self, size: int) -> bool:
        """Take the datagram of `size` bytes in the buffer; True when it was the last one.

        Raises:
            SourceUnavailableError: the kernel answers with an error, or broke the dump off.
            SourceDecodeError: the bytes do not fit the format.

        """
        if size > BUFFER_BYTES:
            raise SourceDecodeError(f"a dump's datagram of {size} bytes was cut to {BUFFER_BYTES}")
        length, kind = self._header(0, size)
        cache = self._caches.get(length)
        if cache is not None and kind in RECORD_TYPES and self._take_whole(cache, size):
            return False
        return self._walk(size)

    def _take_whole(self, cache: ReadingCache, size: int) -> bool:
        """Take a datagram that is one run of equal records, as most are; False if it is not."""
        run = self.buffer[:size]
        if size % cache.layout.length:
            return False
        wiped = cache.wipe(run)
        if cache.repeats(wiped):
            return True
        if not cache.is_uniform(run):
            return False
        cache.take(wiped, lambda at, before: self._decode(at, cache, before))
        return True

    def _decode(
        self, offset: int, cache: ReadingCache, before: SocketReading | None
    ) -> SocketReading:
        layout = self._layouts.of(self.buffer, offset, cache.layout.length)
        if layout.expected_headers != cache.layout.expected_headers:
            cache.spoiled = True
        return read_record(self.buffer, offset, layout, self._at, before)

    def _walk(self, size: int) -> bool:
        offset = 0
        while offset < size:
            length, kind = self._header(offset, size)
            if kind in RECORD_TYPES:
                self._take_one(offset, length)
            elif kind == _NLMSG_DONE:
                self._check_done(offset, length, size)
                return True
            elif kind == _NLMSG_ERROR:
                raise self._refusal(offset, length)
            elif kind != _NLMSG_NOOP:
                raise SourceDecodeError(f"a netlink message of type {kind} in a dump")
            offset += padded(length)
        return False

    def _take_one(self, offset: int, length: int) -> None:
        cache = self._caches.get(length)
        if cache is None:
            cache = self._caches[length] = ReadingCache(
                self._layouts.of(self.buffer, offset, length)
            )
        wiped = cache.wipe(self.buffer[offset : offset + length])
        if not cache.repeats(wiped):
            cache.take(wiped, lambda _, before: self._decode(offset, cache, before))

    def _header(self, offset: int, size: int) -> tuple[int, int]:
        """Return length and type of the message at `offset` when it can be one of this dump."""
        if size - offset < HEADER.size:
            raise SourceDecodeError(f"a dump's datagram of {size} bytes ends within a header")
        length, kind, flags, sequence, _ = HEADER.unpack_from(self.buffer, offset)
        if length < HEADER.size or offset + length > size:
            raise SourceDecodeError(
                f"a netlink message at byte {offset} of {size} claims {length} bytes"
            )
        if sequence != self._sequence:
            raise SourceDecodeError(f"an answer to request {sequence}, not to {self._sequence}")
        if flags & _NLM_F_DUMP_INTR:
            raise SourceUnavailableError(
                "the socket table changed during the dump (NLM_F_DUMP_INTR); "
                "the next poll reads it again"
            )
        return length, kind

    def _check_done(self, offset: int, length: int, size: int) -> None:
        if length >= HEADER.size + _ERRNO.size:
            (number,) = _ERRNO.unpack_from(self.buffer, offset + HEADER.size)
            if number < 0:
                error = OSError(-number, "netlink")
                raise unavailable(error, "the kernel broke the socket dump off") from error
        if offset + padded(length) < size:
            raise SourceDecodeError(f"{size - offset - length} bytes after the end of the dump")

    def _refusal(self, offset: int, length: int) -> Exception:
        if length < HEADER.size + _ERRNO.size:
            return SourceDecodeError(f"a netlink error of {length} bytes")
        (number,) = _ERRNO.unpack_from(self.buffer, offset + HEADER.size)
        if number >= 0:
            return SourceDecodeError("the kernel acknowledged a dump instead of answering it")
        error = OSError(-number, "netlink")
        refusal = unavailable(error, "the kernel refused to list the sockets")
        refusal.__cause__ = error
        return refusal

    def finish(self) -> tuple[SocketReading, ...]:
        """Return the dump's readings: the very same tuple where nothing happened to any."""
        changed, found = 0, []
        for length, cache in tuple(self._caches.items()):
            changed += cache.finish()
            found.append(cache.readings)
            if cache.spoiled:
                del self._caches[length]
        if changed:
            self._latest = tuple(chain.from_iterable(found))
        return self._latest
