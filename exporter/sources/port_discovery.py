"""Finds the remote ports of processes whose rule says `any_port`."""

from __future__ import annotations

__all__ = ["remote_ports_of"]

from typing import TYPE_CHECKING

import psutil

from exporter.model import TcpState
from exporter.sources.descriptors import socket_inodes
from exporter.sources.process_facts import learn_process, matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.settings import ProcessRule
    from exporter.sources.psutil_table import SocketTable


def remote_ports_of(
    rules: Sequence[ProcessRule], table: SocketTable, *, proc: str = "/proc"
) -> frozenset[int]:
    """Return the ports that matching processes connected to.

    `table` must list all ports and the listeners too: a connection from a port that is listened
    on was accepted, not opened. The cost is that of a whole dump and of a look at each process.

    Raises:
        SourceError: the socket table cannot be read.
    """
    inodes = _inodes_of([rule for rule in rules if rule.any_port], proc)
    if not inodes:
        return frozenset()
    readings = table.read().sockets
    served = {r.local.port for r in readings if r.tcp_state is TcpState.LISTEN}
    return frozenset(
        r.remote.port
        for r in readings
        if r.inode in inodes and r.remote.port and r.local.port not in served
    )


def _inodes_of(rules: Sequence[ProcessRule], proc: str) -> set[int]:
    inodes: set[int] = set()
    if not rules:
        return inodes
    for pid in psutil.pids():
        process = learn_process(pid, proc=proc)
        if process is not None and matches(process, rules):
            inodes |= socket_inodes(pid, proc=proc) or frozenset()
    return inodes
