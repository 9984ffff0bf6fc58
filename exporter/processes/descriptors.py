"""The sockets that a process holds, including dead ones, which no socket table lists.

`None` everywhere means "cannot look" (another user, or gone), never "none".
"""

from __future__ import annotations

__all__ = ["DeadSocket", "dead_tcp_sockets", "holds_inode", "socket_inodes", "socket_of"]

import ctypes
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.model import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

_SYS_PIDFD_GETFD = 438
_PREFIX = "socket:["
_TCP_CLOSE = 7
_TCP_INFO_BYTES = 280
# struct tcp_info: state; bytes_acked, bytes_received, segs_out, segs_in
_COUNTERS = struct.Struct("=B119xQQII")
_MAPPED = "::ffff:"

# How long one look at all descriptors of a process answers for the sockets that it did not show:
# as long as one poll takes to ask for each of them.
_LATELY_SECONDS = 0.05
_MOST_LATELY = 16
_lately: dict[tuple[str, int], tuple[float, dict[int, int]]] = {}

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadSocket:
    """A descriptor whose connection is gone: no listing shows it, but it is still open.

    The kernel has forgotten the peer's port. Byte counts are the last ones.
    """

    descriptor: int
    inode: int
    local: Endpoint
    bytes_acked: int
    bytes_received: int


def socket_inodes(pid: int, *, proc: str = "/proc") -> frozenset[int] | None:
    """Return the inodes of all sockets of a process."""
    found = _sockets(pid, proc)
    return None if found is None else frozenset(found.values())


def holds_inode(
    pid: int, inode: int, *, proc: str = "/proc", clock: Callable[[], float] = time.monotonic
) -> bool | None:
    """Return whether the process has a descriptor of this socket.

    Asked for many sockets at once, or for the same one at each poll, it does not read all of a
    process's descriptors each time.
    """
    at, seen = _lately.get((proc, pid), (float("-inf"), {}))
    descriptor = seen.get(inode)
    if descriptor is not None and socket_of(f"{proc}/{pid}/fd/{descriptor}") == inode:
        return True
    if clock() - at < _LATELY_SECONDS:
        return False
    found = _sockets(pid, proc)
    if found is None:
        return None
    if len(_lately) >= _MOST_LATELY:
        _lately.clear()
    _lately[proc, pid] = (clock(), {inode: descriptor for descriptor, inode in found.items()})
    return inode in _lately[proc, pid][1]


def socket_of(path: str, folder: int | None = None) -> int | None:
    """Return the inode if this entry of a process's `fd` folder is a socket."""
    try:
        target = os.readlink(path, dir_fd=folder)
    except OSError:
        # ENOENT: closed since it was listed. EACCES: not ours to see.
        return None
    return int(target[len(_PREFIX) : -1]) if target.startswith(_PREFIX) else None


def _sockets(pid: int, proc: str) -> dict[int, int] | None:
    """Return descriptor → inode of the sockets of a process."""
    try:
        folder = os.open(f"{proc}/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        # EACCES for another user's process, ENOENT when it is gone or hidden (hidepid).
        return None
    try:
        names = os.listdir(folder)  # noqa: PTH208 - by descriptor
        found = ((int(name), socket_of(name, folder)) for name in names)
        return {descriptor: inode for descriptor, inode in found if inode is not None}
    except OSError:
        # The process ended while its descriptors were listed.
        return None
    finally:
        os.close(folder)


def dead_tcp_sockets(
    pid: int, known_inodes: AbstractSet[int], *, proc: str = "/proc"
) -> tuple[DeadSocket, ...] | None:
    """Return the TCP sockets of a process that once were connected and are in TCP_CLOSE.

    `known_inodes` are those of the last dump: they are alive and not looked at.
    Each other socket is duplicated for a moment; one that never received a segment was never
    connected and does not count.
    """
    held = _sockets(pid, proc)
    if held is None:
        return None
    suspects = {fd: inode for fd, inode in held.items() if inode not in known_inodes}
    if not suspects:
        return ()
    try:
        process = os.pidfd_open(pid)
    except OSError:
        # ESRCH when it is gone, EPERM or ENOSYS under a seccomp profile.
        return None
    try:
        return _dead(process, suspects)
    except PermissionError:
        return None
    finally:
        os.close(process)


def _dead(process: int, suspects: dict[int, int]) -> tuple[DeadSocket, ...]:
    found: dict[int, DeadSocket] = {}
    for descriptor, inode in suspects.items():
        copy = _duplicate(process, descriptor)
        if copy is None:
            continue
        with socket.socket(fileno=copy) as held:
            dead = _examine(held, descriptor, inode)
        # The number may have been given to another file since it was listed.
        if dead is not None and inode not in found:
            found[inode] = dead
    return tuple(found.values())


def _duplicate(process: int, descriptor: int) -> int | None:
    copy = int(_libc.syscall(_SYS_PIDFD_GETFD, process, descriptor, 0))
    if copy >= 0:
        try:
            os.set_inheritable(copy, False)
            socket.socket(fileno=copy).detach()
        except OSError:
            # ENOTSOCK: the descriptor is another file by now.
            os.close(copy)
            return None
        return copy
    number = ctypes.get_errno()
    error = OSError(number, os.strerror(number))
    if isinstance(error, PermissionError):
        raise error
    # EBADF when it was closed since, ESRCH when the process is gone, ENOSYS before Linux 5.6.
    return None


def _examine(held: socket.socket, descriptor: int, inode: int) -> DeadSocket | None:
    if os.fstat(held.fileno()).st_ino != inode or held.proto != socket.IPPROTO_TCP:
        return None
    raw = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    if len(raw) < _COUNTERS.size:
        return None
    state, acked, received, _, segments_in = _COUNTERS.unpack_from(raw)
    if state != _TCP_CLOSE or not segments_in:
        return None
    address, port = held.getsockname()[:2]
    return DeadSocket(
        descriptor=descriptor,
        inode=inode,
        local=Endpoint(address.removeprefix(_MAPPED), port),
        bytes_acked=acked,
        bytes_received=received,
    )
