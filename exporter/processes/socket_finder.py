"""Finds sockets in a process that was read before, without reading all descriptors again.

Reading 10,000 descriptors takes 50 ms, and a client that reconnects has a new socket every time.
A new one mostly has a number that was free before, or that of a connection that it replaces.
"""

from __future__ import annotations

__all__ = ["SocketFinder"]

import os
from typing import TYPE_CHECKING

from exporter.processes.descriptors import socket_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class SocketFinder:
    """The descriptors of one process as they were when last looked at."""

    def __init__(self, pid: int, *, proc: str = "/proc") -> None:
        self._folder = f"{proc}/{pid}/fd"
        self._known: dict[str, int | None] = {}
        self._clients: set[int] = set()

    def look(self, wanted: set[int], *, everywhere: bool) -> set[int] | None:
        """Return those of the inodes that the process holds; None: may not look, or it is gone.

        Without `everywhere` only the likely descriptors are read.
        """
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            # EACCES for another user's process, ENOENT when it is gone or hidden (hidepid).
            return None
        try:
            names = os.listdir(folder)  # noqa: PTH208 - by descriptor
            return self._read(folder, self._choose(names, everywhere=everywhere), wanted)
        except OSError:
            # The process ended while its descriptors were listed.
            return None
        finally:
            os.close(folder)

    def _choose(self, names: list[str], *, everywhere: bool) -> list[str]:
        before = self._known
        self._known = {name: before[name] for name in names if name in before}
        if everywhere:
            return names
        return [name for name in names if name not in before or before[name] in self._clients]

    def _read(self, folder: int, names: Iterable[str], wanted: set[int]) -> set[int]:
        found = set()
        for name in names:
            inode = self._known[name] = socket_of(name, folder)
            if inode in wanted:
                found.add(inode)
        # What has been closed since is of no use as a hint.
        self._clients = (self._clients | found) & set(self._known.values())
        return found
