"""Open descriptors of the clients' processes and their limit, beyond which connections fail.

Read rarely, since a leak grows over minutes. What cannot be read is left out, never 0.
"""

from __future__ import annotations

__all__ = ["OpenFilesWatch", "open_files_of"]

import os
import time
from typing import TYPE_CHECKING

from exporter.snapshot import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exporter.model import Owner

LOOK_SECONDS = 15.0

_LIMIT = b"Max open files"


class OpenFilesWatch:
    """Knows the open files of the processes that hold connections, as of its last look."""

    def __init__(
        self,
        *,
        look: Callable[[int], OpenFiles | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look or open_files_of
        self._clock = clock
        self._due = float("-inf")
        self._latest: Mapping[str, OpenFiles] = {}

    def of(self, owners: Iterable[Owner]) -> Mapping[str, OpenFiles]:
        """Return process name → open files, of processes of one name the one nearest its limit.

        `owners` is gone through only when it is time to look; a mapping never changes afterwards.
        """
        now = self._clock()
        if now < self._due:
            return self._latest
        self._due = now + LOOK_SECONDS
        found: dict[str, OpenFiles] = {}
        names = {owner.pid: owner.name for owner in owners if owner.pid is not None}
        for pid, name in names.items():
            files = self._look(pid)
            if files is not None and (name not in found or files.share > found[name].share):
                found[name] = files
        self._latest = found
        return found


def _folder_size(path: str) -> int:
    return os.stat(path).st_size  # noqa: PTH116 - as os.listdir


def open_files_of(
    pid: int, *, proc: str = "/proc", size_of: Callable[[str], int] = _folder_size
) -> OpenFiles | None:
    """Return how many descriptors a process has and may have; None where that is not to be seen.

    Since Linux 6.2 the size of the folder is their number: no permission, no listing.
    """
    folder = f"{proc}/{pid}/fd"
    try:
        # Neither: it has ended. Who holds a connection has a descriptor.
        count = size_of(folder) or len(os.listdir(folder))  # noqa: PTH208 - names are enough
    except OSError:
        # ENOENT when it has ended or is hidden (hidepid), EACCES for another user's before 6.2.
        return None
    return OpenFiles(count, _soft_limit(f"{proc}/{pid}/limits")) if count else None


def _soft_limit(path: str) -> int | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - short and often
            lines = file.read().splitlines()
    except OSError:
        # It ended meanwhile, or a hardened kernel hides it.
        return None
    for line in lines:
        if line.startswith(_LIMIT):
            soft = line.removeprefix(_LIMIT).split()[:1]
            return int(soft[0]) if soft and soft[0].isdigit() else None
    return None
