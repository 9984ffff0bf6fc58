"""Which owner lookup methods work here, and what would enable the others."""

from __future__ import annotations

__all__ = ["RungAccess", "own_cgroup_id", "rung_access"]

import os
import re
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.errors import SourceError
from exporter.kernel.sock_diag import LISTENERS, NetlinkSocketTable
from exporter.model import OwnerRung
from exporter.processes.facts import all_pids

if TYPE_CHECKING:
    from collections.abc import Iterable

_SO_COOKIE = 57
_ROOT_CGROUP = 1
_HIDEPID = re.compile(r"\bhidepid=(\w+)")
_NOT_HIDDEN = frozenset({"0", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RungAccess:
    """One lookup method: whether it works here, and why (or why not, and what to do)."""

    rung: OwnerRung
    is_open: bool
    reason: str


def rung_access(
    *,
    proc: str = "/proc",
    own_pid: int | None = None,
    cgroup_id: int | None = None,
    pids: Iterable[int] | None = None,
) -> tuple[RungAccess, ...]:
    """Try each rung, from the best down; some milliseconds on a node with many processes.

    `cgroup_id` is the agent's own, which never changes. `pids`: these processes, else all.
    """
    own = os.getpid() if own_pid is None else own_pid
    return (_process_access(proc, own, pids), _cgroup_access(cgroup_id), _UID_ACCESS)


_UID_ACCESS = RungAccess(
    rung=OwnerRung.UID, is_open=True, reason="the socket table has each socket's uid"
)


def _process_access(proc: str, own_pid: int, pids: Iterable[int] | None) -> RungAccess:
    visible, readable = _count_processes(proc, own_pid, pids)
    if visible and readable == visible:
        reason = f"sees the descriptors of all {visible} other processes"
        return RungAccess(rung=OwnerRung.PROC_FD, is_open=True, reason=reason)
    hidden = _hidepid(proc)
    if visible and readable:
        reason = (
            f"sees the descriptors of {readable} of {visible} other processes; for the rest run"
            " the agent under their uid and gid, or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
        )
    elif visible:
        reason = (
            f"may not look into any of {visible} other processes: run the agent under the"
            " client's uid and gid, or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
        )
    elif hidden is not None:
        reason = f"{proc} is mounted with hidepid={hidden}: processes of other uids are hidden"
    else:
        reason = "sees no process but itself: set shareProcessNamespace: true in the pod"
    return RungAccess(rung=OwnerRung.PROC_FD, is_open=readable > 0, reason=reason)


def _count_processes(proc: str, own_pid: int, pids: Iterable[int] | None) -> tuple[int, int]:
    """Return how many other processes can be seen, and how many looked into."""
    visible = readable = 0
    for pid in all_pids(proc) if pids is None else pids:
        path = f"{proc}/{pid}"
        if pid == own_pid or _is_kernel(path):
            continue
        visible += 1
        readable += _is_readable(f"{path}/fd")
    return visible, readable


def _is_kernel(path: str) -> bool:
    """Tell kernel threads: they have no command line, and no sockets of ours."""
    try:
        with open(f"{path}/cmdline", "rb") as file:  # noqa: PTH123 - one for each process
            return not file.read(1)
    except OSError:
        # The process ended: as good as one that was never seen.
        return True


def _is_readable(folder: str) -> bool:
    try:
        os.scandir(folder).close()
    except OSError:
        # EACCES: another uid's. CAP_SYS_PTRACE is asked for, and the folder's mode as well.
        return False
    return True


def _hidepid(proc: str) -> str | None:
    try:
        with open(f"{proc}/self/mountinfo", encoding="utf-8") as file:  # noqa: PTH123
            options = [line for line in file if f" {proc} " in line]
    except OSError:
        return None
    found = _HIDEPID.search(" ".join(options))
    return None if found is None or found[1] in _NOT_HIDDEN else found[1]


def _cgroup_access(cgroup_id: int | None) -> RungAccess:
    if cgroup_id is None:
        reason = "the kernel reports no cgroup ids (before 5.8, or without cgroup v2)"
    elif cgroup_id == _ROOT_CGROUP:
        reason = "all sockets are in the root cgroup: cgroup v1, or no containers"
    else:
        reason = f"cgroup ids distinguish containers; the agent's own is {cgroup_id}"
    is_open = cgroup_id is not None and cgroup_id != _ROOT_CGROUP
    return RungAccess(rung=OwnerRung.CGROUP, is_open=is_open, reason=reason)


def own_cgroup_id() -> int | None:
    """Return the id of the agent's own cgroup, as the kernel writes it on the agent's sockets.

    It is read off a listener on a loopback port, which lives for the moment of one dump (of the
    listeners alone): unlike /sys/fs/cgroup that works in every container.
    """
    try:
        with (
            NetlinkSocketTable((), events=False, states=LISTENERS) as table,
            socket.create_server(("127.0.0.1", 0)) as listener,
        ):
            raw = listener.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8)
            (cookie,) = struct.unpack("=Q", raw)
            for reading in table.read().sockets:
                if reading.cookie == cookie:
                    return reading.cgroup_id
    except (SourceError, OSError):
        # No netlink here, or no loopback: then this rung is closed.
        return None
    return None
