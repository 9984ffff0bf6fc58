"""Learns the layout of inet_diag records from their attributes. Pure: bytes in, values out.

It differs between kernels and with the reader's capabilities, so nothing but the kernel's fixed
structures is assumed; what an older kernel's `tcp_info` lacks is not there.
"""

from __future__ import annotations

__all__ = ["Layouts", "RecordLayout"]

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.errors import SourceDecodeError
from exporter.kernel.netlink import padded

if TYPE_CHECKING:
    from exporter.kernel.netlink import Buffer

_TCP_INFO = 2
_MEMORY = 7
_CGROUP_ID = 21
_CGROUP_BYTES = 8
# Of the socket's memory only the size of the receive buffer, the second of nine figures, is of
# interest: the others change with every byte that waits.
_MEMORY_BYTES = 36
_RECEIVE_BUFFER = 4
_MEMORY_CLOCKS = ((0, 4), (8, 28))
_ATTRIBUTE = struct.Struct("=HH")
# Behind the netlink header and struct inet_diag_msg.
_ATTRIBUTES = 16 + 72

# Offset and width of what is taken from struct tcp_info: last_data_sent, last_data_recv,
# last_ack_recv, rtt, total_retrans, bytes_acked, bytes_received, segs_out, segs_in, data_segs_in,
# data_segs_out, bytes_sent.
_INFO_FIELDS = (
    (44, "I"),
    (52, "I"),
    (56, "I"),
    (68, "I"),
    (100, "I"),
    (120, "Q"),
    (128, "Q"),
    (136, "I"),
    (140, "I"),
    (152, "I"),
    (156, "I"),
    (200, "Q"),
)

# As old as tcp_info itself: offset of rcv_ssthresh, and where advmss ends.
_RCV_SSTHRESH = 64
_INFO_WITH_ADVMSS = 88

# What changes while nothing happens to a socket, as offset and width: the ages, the clocks of
# busy_time, rwnd_limited, sndbuf_limited and total_rto_time. Estimators such as the round trip
# need a segment to change, and then a counter changes too.
_INFO_CLOCKS = ((44, 16), (168, 24), (244, 4))
_SEQUENCE = (8, 4)
# A countdown: of the keep-alive timer, in most connections.
_EXPIRES = (16 + 52, 4)
_UNIT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLayout:
    """Where things are in all records of one length.

    `clocks` are the 4-byte units that change while nothing happens.
    `headers` takes out the attributes' headers, which must be `expected_headers`.
    `info` takes out the first of twelve fields; `lacking` fills up what this kernel does not have.
    `window_at` is where rcv_ssthresh and, after four more, advmss stand.
    `buffer_at` is where the size of the receive buffer stands, if it was asked for.
    """

    length: int
    clocks: tuple[int, ...]
    headers: struct.Struct
    expected_headers: tuple[int, ...]
    info: struct.Struct | None
    info_at: int
    lacking: tuple[None, ...]
    cgroup_at: int | None
    window_at: int | None
    buffer_at: int | None


class Layouts:
    """The layouts that were met so far, by the length of the record."""

    _MOST = 64

    def __init__(self) -> None:
        self._by_length: dict[int, RecordLayout] = {}

    def of(self, buffer: Buffer, offset: int, length: int) -> RecordLayout:
        """Return the layout of the record at `offset`, learned now if it is a new one.

        Raises:
            SourceDecodeError: the attributes do not fill the record exactly.
        """
        known = self._by_length.get(length)
        if known is not None:
            headers = known.headers.unpack_from(buffer, offset)
            if headers == known.expected_headers:
                return known
        learned = _learn(buffer, offset, length)
        if len(self._by_length) >= self._MOST:
            self._by_length.clear()
        self._by_length[length] = learned
        return learned


def _learn(buffer: Buffer, offset: int, length: int) -> RecordLayout:
    """Walk the attributes of one record.

    Raises:
        SourceDecodeError: the attributes do not fill the record exactly.

    """
    if length < _ATTRIBUTES or length % _UNIT:
        raise SourceDecodeError(f"a socket record cannot have {length} bytes")
    info_at, info_bytes, cgroup_at, memory_at = 0, 0, None, None
    headers: list[int] = []
    header_format, walked = "=", 0
    at = _ATTRIBUTES
    while at < length:
        size, kind = _attribute(buffer, offset, at, length)
        header_format += f"{at - walked}xHH"
        headers += (size, kind)
        walked = at + _ATTRIBUTE.size
        payload = size - _ATTRIBUTE.size
        if kind == _TCP_INFO:
            info_at, info_bytes = walked, payload
        elif kind == _CGROUP_ID and payload == _CGROUP_BYTES:
            cgroup_at = walked
        elif kind == _MEMORY and payload >= _MEMORY_BYTES:
            memory_at = walked
        at += padded(size)
    info, lacking = _info(info_bytes)
    return RecordLayout(
        length=length,
        clocks=_clocks(info_at, info_bytes, memory_at),
        headers=struct.Struct(header_format),
        expected_headers=tuple(headers),
        info=info,
        info_at=info_at,
        lacking=lacking,
        cgroup_at=cgroup_at,
        window_at=info_at + _RCV_SSTHRESH if info_bytes >= _INFO_WITH_ADVMSS else None,
        buffer_at=None if memory_at is None else memory_at + _RECEIVE_BUFFER,
    )


def _attribute(buffer: Buffer, offset: int, at: int, length: int) -> tuple[int, int]:
    if length - at < _ATTRIBUTE.size:
        raise SourceDecodeError(f"a socket record of {length} bytes ends within an attribute")
    size, kind = _ATTRIBUTE.unpack_from(buffer, offset + at)
    if size < _ATTRIBUTE.size or at + size > length:
        raise SourceDecodeError(
            f"attribute {kind} at byte {at} of a record of {length} bytes claims {size} bytes"
        )
    return size, kind


def _info(info_bytes: int) -> tuple[struct.Struct | None, tuple[None, ...]]:
    """Return the format of the fields that a `tcp_info` of this length has."""
    if not info_bytes:
        return None, ()
    code, end, there = "=", 0, 0
    for at, kind in _INFO_FIELDS:
        width = struct.calcsize("=" + kind)
        if at + width > info_bytes:
            break
        code += f"{at - end}x{kind}"
        end = at + width
        there += 1
    return struct.Struct(code), (None,) * (len(_INFO_FIELDS) - there)


def _clocks(info_at: int, info_bytes: int, memory_at: int | None) -> tuple[int, ...]:
    """Return the 4-byte units of a record that change while nothing happens."""
    spans = [_SEQUENCE, _EXPIRES]
    spans += [(info_at + at, width) for at, width in _INFO_CLOCKS if at + width <= info_bytes]
    if memory_at is not None:
        spans += [(memory_at + at, width) for at, width in _MEMORY_CLOCKS]
    return tuple(unit for at, width in spans for unit in range(at // _UNIT, (at + width) // _UNIT))
