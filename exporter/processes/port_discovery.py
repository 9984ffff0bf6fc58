"""Finds the remote ports of sockets whose ports are not watched yet."""

from __future__ import annotations

__all__ = ["inodes_of", "remote_ports_of"]

from typing import TYPE_CHECKING

import psutil

from exporter.model import TcpState
from exporter.processes.descriptors import socket_inodes
from exporter.processes.facts import learn_process, matches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from exporter.config.settings import ProcessRule
    from exporter.kernel.psutil_table import SocketTable


def remote_ports_of(inodes: Collection[int], table: SocketTable) -> frozenset[int]:
    """Return the ports to which these sockets connected.

    `table` must list all ports and the listeners too: a connection from a port that is listened
    on was accepted, not opened.

    Raises:
        SourceError: the socket table cannot be read.
    """
    if not inodes:
        return frozenset()
    readings = table.read().sockets
    served = {r.local.port for r in readings if r.tcp_state is TcpState.LISTEN}
    return frozenset(
        r.remote.port
        for r in readings
        if r.inode in inodes and r.remote.port and r.local.port not in served
    )


def inodes_of(rules: Iterable[ProcessRule], *, proc: str = "/proc") -> set[int]:
    """Return the sockets of the processes that `any_port` rules mean; a look at each process."""
    inodes: set[int] = set()
    rules = [rule for rule in rules if rule.any_port]
    if not rules:
        return inodes
    for pid in psutil.pids():
        process = learn_process(pid, proc=proc)
        if process is not None and matches(process, rules):
            inodes |= socket_inodes(pid, proc=proc) or frozenset()
    return inodes
