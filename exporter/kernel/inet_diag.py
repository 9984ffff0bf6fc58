"""Decode inet_diag records, the kernel's description of one socket. Pure: bytes in, values out."""

from __future__ import annotations

__all__ = ["RECORD_TYPES", "read_event", "read_record"]

import socket
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from exporter.errors import SourceDecodeError
from exporter.model import ClosedSocket, Endpoint, SocketReading, TcpInfo, TcpState

if TYPE_CHECKING:
    from exporter.kernel.netlink import Buffer
    from exporter.kernel.record_layout import RecordLayout

# Replies to TCPDIAG_GETSOCK, and destroy events (SOCK_DIAG_BY_FAMILY).
RECORD_TYPES = frozenset({18, 20})

_ADDRESS_BYTES = 16
_MAPPED = bytes(10) + b"\xff\xff"
_PORTS = struct.Struct("!HH")
# Behind the netlink header: family, state, timer, retransmits, ports and addresses, cookie, the
# timer's countdown, queues, uid, inode (without the interface).
_MESSAGE = struct.Struct("=16x BBBB 36s 4x II IIIII")
_KEEPALIVE_TIMER = 2

# rcv_ssthresh and advmss.
_WINDOW = struct.Struct("=I16xI")
_BUFFER = struct.Struct("=I")

_STATES = {
    1: TcpState.ESTABLISHED,
    2: TcpState.SYN_SENT,
    3: TcpState.SYN_RECV,
    4: TcpState.FIN_WAIT1,
    5: TcpState.FIN_WAIT2,
    6: TcpState.TIME_WAIT,
    7: TcpState.CLOSE,
    8: TcpState.CLOSE_WAIT,
    9: TcpState.LAST_ACK,
    10: TcpState.LISTEN,
    11: TcpState.CLOSING,
}


class _OpenTcpInfo:
    """A TcpInfo that is being filled: it becomes one, in place, when it is complete.

    A frozen dataclass sets each field through a call: that alone was half of decoding.
    """

    __slots__ = TcpInfo.__slots__


class _OpenReading:
    """A SocketReading that is being filled."""

    __slots__ = SocketReading.__slots__


def read_record(
    buffer: Buffer, offset: int, layout: RecordLayout, at: float, before: SocketReading | None
) -> SocketReading:
    """Decode one record of a dump; `before` is an earlier reading of the same connection."""
    (
        family,
        state,
        timer,
        retransmits,
        where,
        low,
        high,
        countdown,
        receive,
        send,
        uid,
        inode,
    ) = _MESSAGE.unpack_from(buffer, offset)
    tcp_state = _STATES.get(state)
    if tcp_state is None:
        raise SourceDecodeError(f"the kernel reported a socket in the unknown state {state}")
    made: Any = _OpenReading()
    made.at = at
    made.cookie = low | high << 32
    # A busy connection is decoded at each poll, but its addresses only once.
    made.local, made.remote = (
        _endpoints(family, where) if before is None else (before.local, before.remote)
    )
    made.tcp_state = tcp_state
    made.inode = inode
    made.uid = uid
    made.cgroup_id = _cgroup_id(buffer, offset, layout)
    made.receive_queue = receive
    made.send_queue = send
    made.retransmits = retransmits
    # Before the first answer the ages count from the machine's start.
    made.info = _tcp_info(buffer, offset, layout, aged=tcp_state is not TcpState.SYN_SENT)
    made.is_ipv6 = family == socket.AF_INET6
    made.keepalive_left_ms = countdown if timer == _KEEPALIVE_TIMER else None
    made.receive_buffer = None
    if layout.buffer_at is not None:
        (made.receive_buffer,) = _BUFFER.unpack_from(buffer, offset + layout.buffer_at)
    made.__class__ = SocketReading
    reading: SocketReading = made
    return reading


def read_event(buffer: Buffer, offset: int, layout: RecordLayout, at: float) -> ClosedSocket:
    """Decode one destroy event."""
    family, _, _, _, where, low, high, *_ = _MESSAGE.unpack_from(buffer, offset)
    local, remote = _endpoints(family, where)
    # Without a port the connection was refused or aborted, and its ages are wiped too.
    info = _tcp_info(buffer, offset, layout, aged=remote.port != 0)
    window, segment = None, None
    if layout.window_at is not None:
        window, segment = _WINDOW.unpack_from(buffer, offset + layout.window_at)
    return ClosedSocket(at, low | high << 32, local, remote, info, window, segment)


def _endpoints(family: int, where: bytes) -> tuple[Endpoint, Endpoint]:
    local_port, remote_port = _PORTS.unpack_from(where)
    local, remote = where[4 : 4 + _ADDRESS_BYTES], where[4 + _ADDRESS_BYTES :]
    return (
        Endpoint(_address(family, local), local_port),
        Endpoint(_address(family, remote), remote_port),
    )


@lru_cache(maxsize=4096)
def _address(family: int, raw: bytes) -> str:
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[:4])
    if family != socket.AF_INET6:
        raise SourceDecodeError(f"the kernel reported a socket of the unknown family {family}")
    # Java opens AF_INET6 sockets and talks IPv4 through them.
    if raw.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)


def _cgroup_id(buffer: Buffer, offset: int, layout: RecordLayout) -> int | None:
    if layout.cgroup_at is None:
        return None
    found: int = struct.unpack_from("=Q", buffer, offset + layout.cgroup_at)[0]
    return found


def _tcp_info(buffer: Buffer, offset: int, layout: RecordLayout, *, aged: bool) -> TcpInfo | None:
    if layout.info is None:
        return None
    made: Any = _OpenTcpInfo()
    # The order is that of `record_layout`.
    (
        sent_age,
        received_age,
        ack_age,
        rtt,
        made.retransmits_total,
        made.bytes_acked,
        made.bytes_received,
        made.segments_out,
        made.segments_in,
        made.data_segments_in,
        made.data_segments_out,
        made.bytes_sent,
    ) = layout.info.unpack_from(buffer, offset + layout.info_at) + layout.lacking
    # 0 is what the kernel says before the first measurement.
    made.rtt_us = rtt or None
    ages = (sent_age, received_age, ack_age) if aged else (None, None, None)
    made.last_data_sent_ms, made.last_data_received_ms, made.last_ack_received_ms = ages
    made.__class__ = TcpInfo
    info: TcpInfo = made
    return info
