"""Keeps the readings of unchanged sockets, so that they are not decoded again. Pure.

Most sockets are idle between two polls, and their records differ in clocks alone. The dump comes in
the order of the kernel's hash table, so most records are where they were before: with the clocks
wiped, many are compared at once.
"""

from __future__ import annotations

__all__ = ["ReadingCache"]

import operator
import struct
from itertools import compress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from exporter.kernel.record_layout import RecordLayout
    from exporter.model import SocketReading

_UNIT = 4
# Family; ports, addresses, interface and cookie: what makes it the same connection.
_FAMILY = slice(16, 17)
_IDENTITY = slice(20, 68)


class DecodeRecord(Protocol):
    """Decodes the record at an offset of the run; `before` is its socket's earlier reading."""

    def __call__(self, offset: int, before: SocketReading | None, /) -> SocketReading:
        """Decode it."""


class ReadingCache:
    """All records of one length, in the order of the dump.

    `spoiled` says that a record had this length but another layout, in which other bytes are the
    clocks: such a cache must not see another dump.
    """

    def __init__(self, layout: RecordLayout) -> None:
        self.layout = layout
        self.readings: list[SocketReading] = []
        self.spoiled = False
        self._headers = struct.Struct(f"=IHH{layout.length - 8}x")
        self._cut = struct.Struct(f"={layout.length}s")
        self._wiped = b""
        self._places: dict[bytes, int] | None = None
        self.start()

    def start(self) -> None:
        """Begin a dump."""
        self._runs: list[bytes] = []
        self._pieces: list[slice | list[SocketReading]] = []
        self._changed = False
        self._place = 0

    def wipe(self, run: memoryview) -> bytes:
        """Return a copy of some records without the clocks."""
        copy = bytearray(run)
        units = memoryview(copy).cast("I")
        stride = self.layout.length // _UNIT
        nothing = memoryview(bytes(len(copy) // stride)).cast("I")
        for unit in self.layout.clocks:
            units[unit::stride] = nothing
        return bytes(copy)

    def is_uniform(self, run: memoryview) -> bool:
        """Return whether these bytes are records with one and the same header throughout."""
        return len(set(self._headers.iter_unpack(run))) == 1

    def repeats(self, wiped: bytes) -> bool:
        """Take a run if nothing happened to any of its sockets; return whether that was so."""
        if not self._wiped.startswith(wiped, self._place):
            return False
        first = self._place // self.layout.length
        self._place += len(wiped)
        # The readings themselves are not touched: in a large table that alone would cost more.
        self._pieces.append(slice(first, self._place // self.layout.length))
        self._runs.append(wiped)
        return True

    def take(self, wiped: bytes, decode: DecodeRecord) -> None:
        """Take a run in which something changed."""
        records = [record for (record,) in self._cut.iter_unpack(wiped)]
        piece = self._take_in_place(records, decode)
        for index in range(len(piece), len(records)):
            piece.append(self._take_moved(records[index], index * self.layout.length, decode))
        self._changed = True
        self._runs.append(wiped)
        self._pieces.append(piece)

    def _take_in_place(self, records: list[bytes], decode: DecodeRecord) -> list[SocketReading]:
        """Return the readings of records that stand where their sockets stood before.

        The first that does not ends the list: a socket was opened or closed before it.
        """
        length, place = self.layout.length, self._place
        first = place // length
        before = self._wiped[place : place + len(records) * length]
        earlier = [record for (record,) in self._cut.iter_unpack(before)]
        piece = self.readings[first : first + len(earlier)]
        for index in compress(range(len(piece)), map(operator.ne, records, earlier)):
            if not self._is_same_socket(records[index], place + index * length):
                del piece[index:]
                break
            piece[index] = decode(index * length, piece[index])
        self._place += len(piece) * length
        return piece

    def _take_moved(self, record: bytes, offset: int, decode: DecodeRecord) -> SocketReading:
        place = self._place
        if not self._is_same_socket(record, place):
            found = self._find(record)
            if found is None:
                return decode(offset, None)
            place = found
        self._place = place + self.layout.length
        before = self.readings[place // self.layout.length]
        return before if self._wiped.startswith(record, place) else decode(offset, before)

    def _is_same_socket(self, record: bytes, place: int) -> bool:
        known = self._wiped
        return known.startswith(record[_IDENTITY], place + _IDENTITY.start) and known.startswith(
            record[_FAMILY], place + _FAMILY.start
        )

    def _find(self, record: bytes) -> int | None:
        """Return where the socket stood in the last dump, None for a new one."""
        if self._places is None:
            records = enumerate(self._cut.iter_unpack(self._wiped))
            self._places = {
                known[_FAMILY] + known[_IDENTITY]: index * self.layout.length
                for index, (known,) in records
            }
        return self._places.get(record[_FAMILY] + record[_IDENTITY])

    def finish(self) -> bool:
        """End a dump; return whether anything differs from the last."""
        if not self._changed and self._place == len(self._wiped):
            return False
        found: list[SocketReading] = []
        for piece in self._pieces:
            found += self.readings[piece] if isinstance(piece, slice) else piece
        self.readings = found
        self._wiped = b"".join(self._runs)
        self._places = None
        return True
