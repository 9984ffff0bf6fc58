"""Destroy events: the kernel reports every TCP socket that ends, however short-lived."""

from __future__ import annotations

__all__ = ["DestroyEvents", "Drained"]

import contextlib
import ctypes
import errno
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.config.settings import HIGHEST_PORT
from exporter.errors import SourceDecodeError
from exporter.kernel.inet_diag import RECORD_TYPES, read_event
from exporter.kernel.netlink import BUFFER_BYTES, HEADER, padded, unavailable
from exporter.kernel.port_filter import event_program
from exporter.kernel.record_layout import Layouts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exporter.config.settings import PortRange
    from exporter.kernel.netlink import DiagSocket
    from exporter.model import ClosedSocket

# SKNLGRP_INET_TCP_DESTROY is group 1, its IPv6 sister group 3; a group is bit n - 1.
_DESTROY_GROUPS = 1 << 0 | 1 << 2

_SO_ATTACH_FILTER = 26
_SO_DETACH_FILTER = 27
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_MEMINFO_DROPS = 8

# Room for some 4,000 events between two polls; without CAP_NET_ADMIN the kernel gives no more than
# net.core.rmem_max.
_RECEIVE_BYTES = 4 * 1024 * 1024

_NOWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104

# A storm of closing sockets must not keep a poll from ending: the rest comes with the next one.
_MOST_EVENTS = 100_000

# As a number: the enum's own `|` costs as much as the call that it is for.
_RECEIVE_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_TRUNC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What had been waiting; `lost` counts the events that the kernel had no room for."""

    closed: tuple[ClosedSocket, ...]
    lost: int


class DestroyEvents:
    """Hears the ends of TCP connections to `ports`; nothing in it needs a capability."""

    def __init__(
        self, ports: Sequence[PortRange], *, open_socket: Callable[[int], DiagSocket]
    ) -> None:
        self._socket = open_socket(_DESTROY_GROUPS)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._layouts = Layouts()
        self._drops = 0
        self._widen()
        self.set_ports(ports)

    def _widen(self) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
        except OSError:
            # EPERM without CAP_NET_ADMIN, the usual case.
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)

    def set_ports(self, ports: Sequence[PortRange]) -> None:
        """Let only events of these remote ports through, and those of port 0; none: all."""
        self._ports = tuple(ports)
        table = bytearray(HIGHEST_PORT + 1)
        for allowed in self._ports:
            table[allowed.first : allowed.last + 1] = b"\1" * (allowed.last - allowed.first + 1)
        self._is_wanted_port = bytes(table)
        try:
            if not ports:
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
                return
            program = event_program(ports)
            text = ctypes.create_string_buffer(program, len(program))
            filter_program = struct.pack("@HP", len(program) // 8, ctypes.addressof(text))
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_program)
        except OSError:
            # ENOENT where there is no filter to take off, ENOMEM where the program is too long
            # for net.core.optmem_max: then the events are picked in `drain` alone.
            pass

    def drain(self, at: float) -> Drained:
        """Take all events that are waiting.

        Raises:
            SourceUnavailableError: the socket is broken.
            SourceDecodeError: a message does not fit the format.

        """
        closed: list[ClosedSocket] = []
        overruns = 0
        receive, buffer = self._socket.recv_into, self._buffer
        for _ in range(_MOST_EVENTS):
            try:
                size = receive(buffer, BUFFER_BYTES, _RECEIVE_FLAGS)
            except BlockingIOError:
                break
            except OSError as error:
                overruns += self._overrun(error)
                continue
            closed += self._decode(size, at)
        return Drained(closed=tuple(closed), lost=self._lost(overruns))

    def _overrun(self, error: OSError) -> int:
        if error.errno == errno.ENOBUFS:
            return 1
        raise unavailable(error, "cannot read the ends of connections") from error

    def _lost(self, overruns: int) -> int:
        try:
            raw = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            drops: int = _MEMINFO.unpack(raw)[_MEMINFO_DROPS]
        except (OSError, struct.error):
            # Before Linux 4.12 nobody counts: one overrun is at least one lost event.
            return overruns
        # An overrun that is reported only now may have been counted with the last reading.
        lost = (drops - self._drops) & 0xFFFFFFFF
        self._drops = drops
        return lost

    def _decode(self, size: int, at: float) -> list[ClosedSocket]:
        if size > BUFFER_BYTES:
            raise SourceDecodeError(f"an event of {size} bytes was cut to {BUFFER_BYTES}")
        found = []
        offset = 0
        while offset < size:
            length = self._message_length(offset, size)
            layout = self._layouts.of(self._buffer, offset, length)
            closed = read_event(self._buffer, offset, layout, at)
            if self._wanted(closed):
                found.append(closed)
            offset += padded(length)
        return found

    def _message_length(self, offset: int, size: int) -> int:
        if size - offset < HEADER.size:
            raise SourceDecodeError(f"an event of {size} bytes ends within a header")
        length, kind, *_ = HEADER.unpack_from(self._buffer, offset)
        if length < HEADER.size or offset + length > size:
            raise SourceDecodeError(f"an event of {size} bytes claims {length} more at {offset}")
        if kind not in RECORD_TYPES:
            raise SourceDecodeError(f"a netlink message of type {kind} among the events")
        return int(length)

    def _wanted(self, closed: ClosedSocket) -> bool:
        if closed.remote.port == 0:
            # A listener, a socket that never went anywhere, or the end of a broker on this host.
            return closed.remote.address not in _NOWHERE and not self._has(closed.local.port)
        # Events that were waiting when the ports changed had passed the old filter.
        return not self._ports or self._has(closed.remote.port)

    def _has(self, port: int) -> bool:
        return bool(self._is_wanted_port[port])

    def close(self) -> None:
        """Stop hearing."""
        self._socket.close()
