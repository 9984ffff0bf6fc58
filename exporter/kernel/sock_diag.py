"""The kernel's socket table through netlink: one filtered dump for both families at each read.

A dump that was cut short or answered with an error is an error, never a short list.
Nothing here needs a capability, only to be in the network namespace of the clients.
"""

from __future__ import annotations

__all__ = ["CONNECTIONS", "LISTENERS", "NetlinkSocketTable", "dump_request"]

import errno
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from exporter.errors import SourceError, SourceUnavailableError
from exporter.kernel.destroy_events import DestroyEvents, Drained
from exporter.kernel.dump_reader import DumpReader
from exporter.kernel.netlink import BUFFER_BYTES, HEADER, open_diag_socket, unavailable
from exporter.kernel.port_filter import FilterKind, diag_bytecode
from exporter.model import KernelReading, ReadMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exporter.config.settings import PortRange
    from exporter.kernel.netlink import DiagSocket
    from exporter.model import SocketReading

# The older of the two requests: it walks the table once for both families, where
# SOCK_DIAG_BY_FAMILY needs a walk for each.
_TCPDIAG_GETSOCK = 18
_NLM_F_REQUEST_AND_DUMP = 0x301
_INET_DIAG_REQ_BYTECODE = 1
_WITH_TCP_INFO = 1 << 1
_WITH_MEMORY = 1 << 6
_ANY_SOCKET = bytes(40) + b"\xff" * 8
_LISTEN = 10
_TIME_WAIT = 6
# All states but these two: a listener is nobody's connection, and TIME_WAIT has neither owner nor
# figures and may be there by the thousand.
CONNECTIONS = 0xFFE & ~(1 << _LISTEN) & ~(1 << _TIME_WAIT)
LISTENERS = 1 << _LISTEN
_SEQUENCE_AT = 8
_EVENT_WAITS = 4
_EVENT_WAIT_SECONDS = 0.0005
_HIGHEST_SEQUENCE = 0xFFFFFFFF

# Older kernels know no "equal"; where not even ranges are known, ports are matched here.
_SIMPLER = {FilterKind.EQUAL: FilterKind.RANGES, FilterKind.RANGES: FilterKind.NONE}


class NetlinkSocketTable:
    """Reads the TCP sockets whose remote port is one of `ports`; without ports, all of them.

    `states` may add LISTENERS, whose remote port is 0: for tables without `ports`.
    With `buffers` the readings have the sizes of receive buffers.
    Not for use by several threads: each thread opens its own, and all but one without `events`.
    """

    def __init__(  # noqa: PLR0913  (all but one have defaults and a name)
        self,
        ports: Sequence[PortRange],
        *,
        clock: Callable[[], float] = time.monotonic,
        events: bool = True,
        states: int = CONNECTIONS,
        buffers: bool = False,
        open_socket: Callable[[int], DiagSocket] = open_diag_socket,
        sleep: Callable[[float], None] = time.sleep,
        keepalive_file: str = "/proc/sys/net/ipv4/tcp_keepalive_time",
    ) -> None:
        self._clock = clock
        self._open_socket = open_socket
        self._sleep = sleep
        self._latest: tuple[SocketReading, ...] = ()
        self._reader = DumpReader()
        self._filter = FilterKind.EQUAL
        self._sequence = 0
        self._states = states
        self._buffers = buffers
        self._ports = tuple(ports)
        self._request = self._new_request()
        self._socket: DiagSocket | None = open_socket(0)
        self._keepalive_ms = _keepalive_ms(keepalive_file)
        self._wants_events = events
        self._events = self._open_events()
        self._events_gap = False

    def _open_events(self) -> DestroyEvents | None:
        if not self._wants_events:
            return None
        try:
            return DestroyEvents(self._ports, open_socket=self._open_socket)
        except SourceUnavailableError:
            # Kernels before 4.4 and some sandboxes have no such groups: `events_complete` is false.
            self._wants_events = False
            return None

    def set_ports(self, ports: Sequence[PortRange]) -> None:
        """Read other ports from the next read on."""
        self._ports = tuple(ports)
        self._request = self._new_request()
        if self._events is not None:
            self._events.set_ports(self._ports)

    def _new_request(self) -> bytearray:
        return dump_request(self._ports, self._filter, self._states, buffers=self._buffers)

    def read(self) -> KernelReading:
        """Read the table, and after it what has ended since the last read.

        So a connection that ends between the two is in both, and none is in neither.

        Raises:
            SourceUnavailableError: the kernel refused, did not answer or broke off.
            SourceDecodeError: the answer does not fit the format.

        """
        at = self._clock()
        sockets = self._dump(at)
        drained = self._drain(at)
        if drained is not None:
            drained = self._await_events(sockets, drained, at)
        lost = 0 if drained is None else drained.lost
        complete = drained is not None and not lost and not self._events_gap
        self._events_gap = False
        return KernelReading(
            at=at,
            method=ReadMethod.SOCK_DIAG,
            sockets=sockets,
            closed=() if drained is None else drained.closed,
            events_complete=complete,
            events_lost=lost,
            keepalive_ms=self._keepalive_ms,
        )

    def _dump(self, at: float) -> tuple[SocketReading, ...]:
        try:
            while True:
                try:
                    sockets = self._ask(at)
                    break
                except SourceUnavailableError as error:
                    if not self._simplify_filter(error):
                        raise
        except SourceError:
            # What the kernel may still have to say to this request must not reach the next one.
            self._close_dump_socket()
            raise
        if self._filter is FilterKind.NONE and self._ports:
            return tuple(s for s in sockets if any(s.remote.port in p for p in self._ports))
        return sockets

    def _simplify_filter(self, error: SourceUnavailableError) -> bool:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno != errno.EINVAL or not self._ports:
            return False
        if self._filter not in _SIMPLER:
            return False
        self._filter = _SIMPLER[self._filter]
        self._request = self._new_request()
        return True

    def _ask(self, at: float) -> tuple[SocketReading, ...]:
        if self._socket is None:
            self._socket = self._open_socket(0)
        self._sequence = self._sequence % _HIGHEST_SEQUENCE + 1
        struct.pack_into("=I", self._request, _SEQUENCE_AT, self._sequence)
        reader, receive = self._reader, self._socket.recv_into
        reader.start(self._sequence, at)
        buffer = reader.buffer
        try:
            self._socket.send(self._request)
            # With MSG_TRUNC the answer is the datagram's real length, whatever fitted.
            while not reader.feed(receive(buffer, BUFFER_BYTES, socket.MSG_TRUNC)):
                pass
        except OSError as error:
            raise unavailable(error, "cannot read the socket table") from error
        return reader.finish()

    def _drain(self, at: float) -> Drained | None:
        if self._events is None and self._wants_events:
            self._events = self._open_events()
        if self._events is None:
            return None
        try:
            return self._events.drain(at)
        except SourceError:
            self._events.close()
            self._events = None
            self._events_gap = True
            raise

    def _await_events(
        self, sockets: tuple[SocketReading, ...], drained: Drained, at: float
    ) -> Drained:
        """Give the kernel a moment for the events of sockets that this dump shows no more.

        It hands them out from a work queue, mostly within 0.1 ms of the end. A connection that
        was reset while its descriptor stays open never gets one: it is waited for once.
        """
        before, self._latest = self._latest, sockets
        if before is sockets:
            return drained
        there = {reading.cookie for reading in sockets}
        # What has no figures any more had its event when it lost them.
        missing = {r.cookie for r in before if r.info is not None} - there
        for _ in range(_EVENT_WAITS):
            missing -= {closed.cookie for closed in drained.closed}
            if not missing or drained.lost:
                break
            self._sleep(_EVENT_WAIT_SECONDS)
            more = self._drain(at)
            if more is None:
                break
            drained = Drained(closed=drained.closed + more.closed, lost=more.lost)
        return drained

    def _close_dump_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Give the sockets back; a later read would open them again."""
        self._close_dump_socket()
        if self._events is not None:
            self._events.close()
            self._events = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _keepalive_ms(path: str) -> int | None:
    """Return what the keep-alive timers of this network namespace begin with."""
    try:
        return int(Path(path).read_text("ascii")) * 1000
    except (OSError, ValueError):
        return None


def dump_request(
    ports: Sequence[PortRange],
    kind: FilterKind,
    states: int = CONNECTIONS,
    *,
    buffers: bool = False,
) -> bytearray:
    """Build the request for a dump; its sequence number is still 0."""
    program = diag_bytecode(ports, kind)
    wanted = _WITH_TCP_INFO | _WITH_MEMORY if buffers else _WITH_TCP_INFO
    body = struct.pack("=BBBB", 0, 0, 0, wanted) + _ANY_SOCKET
    body += struct.pack("=II", states, 0)
    if program:
        body += struct.pack("=HH", 4 + len(program), _INET_DIAG_REQ_BYTECODE) + program
    size = HEADER.size + len(body)
    return bytearray(HEADER.pack(size, _TCPDIAG_GETSOCK, _NLM_F_REQUEST_AND_DUMP, 0, 0) + body)
