"""Where batches wait until brokers have them: one file a batch, whole or not there at all.

What `add` has taken survives a kill -9 and a power cut; it is removed only when every one of its
records was acknowledged, so a record may be sent twice and is never lost. The room is bounded: the
oldest batches go first, and are counted.
"""

from __future__ import annotations

__all__ = ["Spool"]

import fcntl
import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from exporter.journal.lines import Lines

# What a file takes on disk at least.
BLOCK = 4096
_NAME = re.compile(r"\d{15}-[0-9a-f]+-\d{10}\.jsonl")
_MODE = 0o600


class Spool:
    """The batches in a folder that belongs to one agent; any thread may ask."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        self._folder = Path(folder)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        self._descriptor: int | None = None
        self.dropped_records = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def room(self) -> int:
        """Bytes that are taken on disk, in whole blocks."""
        return sum(self._sizes.values())

    def open(self) -> None:
        """Take the folder, and find what an earlier life left there.

        Raises:
            OSError: it cannot be had, or another agent has it.
        """
        with self._lock:
            if self._descriptor is not None:
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for path in sorted(self._folder.iterdir()):
                    if _NAME.fullmatch(path.name):
                        self._sizes[path.name] = _room(path.stat().st_size)
                    elif path.suffix == ".new":
                        # Its batch was never acknowledged to anybody.
                        path.unlink(missing_ok=True)
            except OSError:
                self._sizes.clear()
                os.close(descriptor)
                raise
            self._descriptor = descriptor

    def close(self) -> None:
        """Let go of the folder."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def add(self, lines: Lines) -> None:
        """Keep a batch; it is on disk when this returns.

        Raises:
            OSError: it is not.
        """
        self.open()
        with self._lock:
            name = f"{lines.name}.jsonl"
            room = _room(len(lines.data))
            self._make_room(room)
            path, new = self._folder / name, self._folder / f"{name}.new"
            try:
                descriptor = os.open(
                    new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE
                )
                with os.fdopen(descriptor, "wb") as file:
                    file.write(lines.data)
                    file.flush()
                    os.fsync(file.fileno())
                new.rename(path)
            except OSError:
                with suppress(OSError):
                    new.unlink(missing_ok=True)
                raise
            if self._descriptor is not None:
                os.fsync(self._descriptor)
            self._sizes[name] = room

    def oldest(self, besides: Collection[str]) -> str | None:
        """Return the name of the oldest batch that is not one of these."""
        with self._lock:
            return min((name for name in self._sizes if name not in besides), default=None)

    def read(self, name: str) -> list[bytes]:
        """Return a batch's records; none where it has been dropped meanwhile.

        Raises:
            OSError: it is there and cannot be read.
        """
        try:
            return (self._folder / name).read_bytes().splitlines()
        except FileNotFoundError:
            with self._lock:
                self._sizes.pop(name, None)
            return []

    def remove(self, name: str) -> None:
        """Forget a batch that has arrived."""
        with self._lock:
            self._sizes.pop(name, None)
            # One that stays is sent once more by the next life, which changes nothing.
            with suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)

    def _make_room(self, room: int) -> None:
        while self._sizes and self.room + room > self._max_bytes:
            oldest = min(self._sizes)
            path = self._folder / oldest
            with suppress(OSError):
                self.dropped_records += path.read_bytes().count(b"\n")
                path.unlink(missing_ok=True)
            del self._sizes[oldest]


def _room(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
