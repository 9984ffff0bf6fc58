"""The sock_diag netlink socket: opening it, its constants, and errors that say what to do."""

from __future__ import annotations

__all__ = [
    "BUFFER_BYTES",
    "HEADER",
    "DiagSocket",
    "open_diag_socket",
    "padded",
    "unavailable",
]

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, Protocol

from exporter.errors import SourceUnavailableError

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

NETLINK_SOCK_DIAG = 4

# The kernel never makes one message of a dump longer than this, and a larger buffer gains nothing.
BUFFER_BYTES = 32 * 1024

# struct nlmsghdr: length, type, flags, sequence number, port id.
HEADER = struct.Struct("=IHHII")

# A dump is answered at once; a kernel that says nothing for so long will not.
ANSWER_SECONDS = 5

_REMEDIES = {
    errno.EPERM: "let the container's seccomp or security profile allow netlink sockets",
    errno.EACCES: "let the container's seccomp or security profile allow netlink sockets",
    errno.EPROTONOSUPPORT: "this sandbox or kernel has no NETLINK_SOCK_DIAG",
    errno.EAFNOSUPPORT: "this sandbox or seccomp profile has no netlink sockets",
    errno.EOPNOTSUPP: "this kernel was built without inet_diag",
    errno.ENOENT: "load the kernel modules inet_diag and tcp_diag on the node",
    errno.EINVAL: "this kernel does not know the request",
    errno.ENOBUFS: "the kernel ran out of memory for its answer; the next poll tries again",
    errno.ENOMEM: "the kernel ran out of memory for its answer; the next poll tries again",
    errno.EAGAIN: f"the kernel did not answer within {ANSWER_SECONDS} s",
    errno.EMFILE: "raise the limit of open files of the agent",
    errno.ENFILE: "the node has no file descriptors left",
}


class DiagSocket(Protocol):
    """What is used of a netlink socket; `socket.socket` fits, and so does a test's fake."""

    def send(self, data: Buffer, /) -> int:
        """Send one request."""

    def recv_into(self, buffer: Buffer, nbytes: int, flags: int, /) -> int:
        """Receive one datagram; with MSG_TRUNC the answer is its real length."""

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        """Set an option."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Read an option."""

    def close(self) -> None:
        """Close it."""


def open_diag_socket(groups: int = 0) -> DiagSocket:
    """Open a socket for requests, or with `groups` one that hears those multicast groups."""
    try:
        opened = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG
        )
    except OSError as error:
        raise unavailable(error, "cannot open a netlink socket") from error
    try:
        if groups:
            opened.bind((0, groups))
        else:
            # Connected to the kernel, the socket takes messages from nobody else.
            opened.connect((0, 0))
            # A Python timeout would cost one more system call for each datagram.
            opened.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", ANSWER_SECONDS, 0)
            )
    except OSError as error:
        opened.close()
        raise unavailable(error, "cannot set up a netlink socket") from error
    return opened


def unavailable(error: OSError, what: str) -> SourceUnavailableError:
    """Say which errno it was and what to do about it."""
    number = error.errno or 0
    remedy = _REMEDIES.get(number, "see the kernel's log")
    name = errno.errorcode.get(number, str(number))
    return SourceUnavailableError(f"{what}: {os.strerror(number)} ({name}); {remedy}")


def padded(length: int) -> int:
    """Return the room that `length` bytes take: netlink aligns messages and attributes to 4."""
    return (length + 3) & ~3
