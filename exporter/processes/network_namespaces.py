"""The network namespaces of this machine, their processes, and how to enter one.

For an agent in the host's PID namespace with CAP_SYS_ADMIN, CAP_SYS_PTRACE and, for owners by
process, CAP_DAC_READ_SEARCH. A network namespace is a thread's, not a process's: a thread of ours
that enters one leaves the rest where it is, whatever it opens stays there, and so do the threads
that it starts.
"""

from __future__ import annotations

__all__ = ["MachineNetworks", "Network", "do_inside"]

import ctypes
import errno
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from exporter.errors import SourceUnavailableError
from exporter.processes.facts import all_pids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Made = TypeVar("_Made")

_CLONE_NEWNET = 0x40000000
_PREFIX = "net:["
# Whoever searches for a socket's process in every network asks for one list of processes.
_FRESH_SECONDS = 1.0
_REMEDIES = {
    errno.EPERM: "the agent needs CAP_SYS_ADMIN",
    errno.EACCES: "the agent needs CAP_SYS_PTRACE and the host's PID namespace (hostPID)",
}

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """One network namespace: its inode, by which the kernel names it, and its processes."""

    inode: int
    pids: tuple[int, ...]


class MachineNetworks:
    """Lists the network namespaces that have a process. For any thread."""

    def __init__(self, *, proc: str = "/proc", clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._clock = clock
        self._lock = threading.Lock()
        self._listed_at = float("-inf")
        self._networks: Mapping[int, Network] = {}
        self.hidden = 0
        """Processes whose namespace may not be seen, as of the last look."""

    def look(self) -> Mapping[int, Network]:
        """Return inode → network; a process that ends meanwhile is not there."""
        with self._lock:
            if self._clock() - self._listed_at >= _FRESH_SECONDS:
                self._networks = self._list()
                self._listed_at = self._clock()
            return self._networks

    def pids_in(self, inode: int) -> tuple[int, ...]:
        """Return the processes of one network, of a second ago at the oldest."""
        network = self.look().get(inode)
        return () if network is None else network.pids

    def open(self, network: Network) -> int:
        """Return a descriptor of the namespace, which keeps it alive until it is closed.

        Raises:
            SourceUnavailableError: all its processes ended, or it may not be opened.
        """
        problem: OSError | None = None
        for pid in network.pids:
            try:
                handle = os.open(f"{self._proc}/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                problem = error
                continue
            if os.fstat(handle).st_ino == network.inode:
                return handle
            # The pid is another process's by now.
            os.close(handle)
        raise _unavailable(problem or OSError(errno.ESRCH, os.strerror(errno.ESRCH)))

    def _list(self) -> Mapping[int, Network]:
        found: dict[int, list[int]] = {}
        hidden = 0
        for pid in sorted(all_pids(self._proc)):
            try:
                name = os.readlink(f"{self._proc}/{pid}/ns/net")  # noqa: PTH115 - a hot path
            except PermissionError:
                hidden += 1
                continue
            except OSError:
                # It ended.
                continue
            if name.startswith(_PREFIX):
                found.setdefault(int(name[len(_PREFIX) : -1]), []).append(pid)
        self.hidden = hidden
        return {inode: Network(inode=inode, pids=tuple(pids)) for inode, pids in found.items()}


def do_inside(handle: int, action: Callable[[], _Made]) -> _Made:
    """Do something in a thread of its own that has entered the namespace, and wait for it.

    Raises:
        SourceUnavailableError: it may not be entered; else what the action raises.
    """
    made: list[_Made] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            if _libc.setns(handle, _CLONE_NEWNET):
                number = ctypes.get_errno()
                raise _unavailable(OSError(number, os.strerror(number)))  # noqa: TRY301
            made.append(action())
        except BaseException as error:  # noqa: BLE001 - is raised by the caller
            raised.append(error)

    thread = threading.Thread(target=work, name="brokerwire-enter", daemon=True)
    thread.start()
    thread.join()
    for error in raised:
        raise error
    return made[0]


def _unavailable(error: OSError) -> SourceUnavailableError:
    remedy = _REMEDIES.get(error.errno or 0, "the next look tries again")
    made = SourceUnavailableError(f"cannot enter a network namespace: {error.strerror}; {remedy}")
    made.__cause__ = error
    return made
