"""The fallback where netlink is refused: psutil's list of connections.

What is lost: byte counts, queues, round trips and retransmits, so no join with the client's own
metrics; ends between two polls; and certainty about a socket whose process is out of sight, since
another connection with the same addresses looks the same. It costs about fifty times more.
"""

from __future__ import annotations

__all__ = ["PsutilSocketTable", "SocketTable", "open_socket_table"]

import errno
import hashlib
import logging
import os
import time
from typing import TYPE_CHECKING, Protocol, Self

import psutil

from exporter.errors import SourceDecodeError, SourceUnavailableError
from exporter.kernel.netlink import open_diag_socket
from exporter.kernel.sock_diag import CONNECTIONS, LISTENERS, NetlinkSocketTable
from exporter.model import Endpoint, KernelReading, ReadMethod, SocketReading, TcpState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from psutil._ntuples import sconn

    from exporter.config.settings import PortRange
    from exporter.kernel.netlink import DiagSocket

log = logging.getLogger("brokerwire.sources")

_MAPPED = "::ffff:"
_COOKIE_BYTES = 7
# psutil spells the states as the kernel does, apart from `NONE` for UDP.
_STATES = {state.name: state for state in TcpState if state is not TcpState.TIME_WAIT}

# These do not pass: netlink is refused or missing. Anything else is worth another try.
_FINAL = frozenset(
    {
        errno.EPERM,
        errno.EACCES,
        errno.EPROTONOSUPPORT,
        errno.EAFNOSUPPORT,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
        errno.ENOENT,
        errno.EINVAL,
    }
)


class SocketTable(Protocol):
    """What both readers of the socket table offer."""

    def read(self) -> KernelReading:
        """Read the table once."""

    def set_ports(self, ports: Sequence[PortRange]) -> None:
        """Read other remote ports from the next read on."""

    def close(self) -> None:
        """Give back what is held."""


def open_socket_table(
    ports: Sequence[PortRange],
    *,
    clock: Callable[[], float] = time.monotonic,
    events: bool = True,
    listening: bool = False,
    buffers: bool = False,
    open_socket: Callable[[int], DiagSocket] = open_diag_socket,
) -> SocketTable:
    """Open the netlink reader or, where that is refused, psutil's; `reason` there says why."""
    table = None
    states = CONNECTIONS | LISTENERS if listening else CONNECTIONS
    try:
        table = NetlinkSocketTable(
            ports,
            clock=clock,
            events=events,
            states=states,
            buffers=buffers,
            open_socket=open_socket,
        )
        # A kernel without tcp_diag opens the socket and refuses only the dump.
        table.read()
    except SourceUnavailableError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _FINAL:
            log.warning("netlink is refused, using psutil", extra={"error": str(error)})
            return PsutilSocketTable(ports, clock=clock, listening=listening, reason=str(error))
        if table is None:
            raise
    return table


class PsutilSocketTable:
    """Reads the TCP sockets whose remote port is one of `ports`; without ports, all of them."""

    def __init__(
        self,
        ports: Sequence[PortRange],
        *,
        clock: Callable[[], float] = time.monotonic,
        listening: bool = False,
        reason: str = "",
        proc: str = "/proc",
    ) -> None:
        self.reason = reason
        self._ports = tuple(ports)
        self._clock = clock
        self._listening = listening
        self._proc = proc
        self._known: dict[int, SocketReading] = {}

    def set_ports(self, ports: Sequence[PortRange]) -> None:
        """Read other ports from the next read on."""
        self._ports = tuple(ports)

    def read(self) -> KernelReading:
        """Read the table; ends of connections between two reads are not told.

        Raises:
            SourceUnavailableError: psutil may not read it either.
            SourceDecodeError: psutil does not understand it.
        """
        at = self._clock()
        try:
            listed = psutil.net_connections(kind="tcp")
        except (psutil.Error, OSError) as error:
            raise SourceUnavailableError(
                f"cannot list sockets through psutil: {error}; the agent needs /proc/net/tcp"
            ) from error
        except RuntimeError as error:
            raise SourceDecodeError(f"psutil cannot read the socket table: {error}") from error
        # One socket is listed for each process that holds it: the first one stands.
        found: dict[int, SocketReading] = {}
        for reading in self._readings(listed, at):
            found.setdefault(reading.cookie, reading)
        self._known = found
        return KernelReading(at=at, method=ReadMethod.PSUTIL, sockets=tuple(found.values()))

    def _readings(self, listed: Iterable[sconn], at: float) -> list[SocketReading]:
        return [self._reading(entry, at) for entry in listed if self._is_wanted(entry)]

    def _is_wanted(self, entry: sconn) -> bool:
        if _STATES.get(entry.status) is TcpState.LISTEN:
            return self._listening
        if entry.status not in _STATES or not entry.raddr:
            return False
        return not self._ports or any(entry.raddr.port in allowed for allowed in self._ports)

    def _reading(self, entry: sconn, at: float) -> SocketReading:
        inode, uid = self._inode_and_uid(entry.pid, entry.fd)
        local, remote = _endpoint(entry.laddr), _endpoint(entry.raddr)
        cookie = _cookie(local, remote, inode)
        state = _STATES[entry.status]
        before = self._known.get(cookie)
        if before is not None and before.tcp_state is state:
            return before
        return SocketReading(
            at=at,
            cookie=cookie,
            local=local,
            remote=remote,
            tcp_state=state,
            inode=inode,
            uid=uid,
            cgroup_id=None,
            receive_queue=0,
            send_queue=0,
            retransmits=0,
            info=None,
        )

    def _inode_and_uid(self, pid: int | None, descriptor: int) -> tuple[int, int]:
        """Ask the descriptor itself; 0 where the process is out of sight."""
        if pid is None or descriptor < 0:
            return 0, 0
        try:
            status = os.stat(f"{self._proc}/{pid}/fd/{descriptor}")  # noqa: PTH116 - a hot path
        except OSError:
            # Closed since it was listed.
            return 0, 0
        return status.st_ino, status.st_uid

    def close(self) -> None:
        """Hold nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _endpoint(address: object) -> Endpoint:
    # A listener's remote address is an empty tuple.
    host, port = (getattr(address, "ip", ""), getattr(address, "port", 0))
    return Endpoint(host.removeprefix(_MAPPED), port)


def _cookie(local: Endpoint, remote: Endpoint, inode: int) -> int:
    """Make up a cookie: the same for the same socket, and negative, as no kernel's is."""
    text = f"{local} {remote} {inode}".encode()
    return -1 - int.from_bytes(hashlib.blake2b(text, digest_size=_COOKIE_BYTES).digest(), "big")
