"""Batches that wait for acknowledgement: one file per batch, complete or absent.

What `add` has taken survives a kill -9 and a power cut; it is removed only when every one of its
records was acknowledged, so a record may be sent twice and is never lost. The room is bounded: the
oldest batches go first, and are counted. A file's name holds the checksum of what is in it: a batch
that a disk has damaged is dropped and counted, which costs no total, since counters only grow.
"""

from __future__ import annotations

__all__ = ["Spool"]

import fcntl
import logging
import os
import re
import stat
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from exporter.journal.lines import Lines

log = logging.getLogger("brokerwire.journal")

# What a file takes on disk at least.
BLOCK = 4096
# Without a checksum: written by 0.1.0.
_NAME = re.compile(r"\d{15}-[0-9a-f]+-\d{10}(?:\.([0-9a-f]{8}))?\.jsonl")
_NEW = ".new"
_MODE = 0o600
# The folder may be writable for others: no link is followed, no pipe is waited for.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Spool:
    """The batches in a folder that belongs to one agent; any thread may ask."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        self._folder = Path(folder)
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
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
            self._opened()

    def close(self) -> None:
        """Let go of the folder."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            self._sizes.clear()
            if descriptor is not None:
                os.close(descriptor)

    def add(self, lines: Lines) -> None:
        """Keep a batch; it is on disk when this returns.

        Raises:
            OSError: it is not.
        """
        with self._lock:
            folder = self._opened()
            name = f"{lines.name}.{zlib.crc32(lines.data):08x}.jsonl"
            room = _room(len(lines.data))
            self._make_room(room)
            new = name + _NEW
            try:
                with suppress(FileNotFoundError):
                    os.unlink(new, dir_fd=folder)
                descriptor = os.open(new, _WRITE, _MODE, dir_fd=folder)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(lines.data)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(new, dir_fd=folder)
                raise
            os.fsync(folder)
            self._sizes[name] = room

    def oldest(self, besides: Collection[str]) -> str | None:
        """Return the name of the oldest batch that is not one of these."""
        with self._lock:
            return min((name for name in self._sizes if name not in besides), default=None)

    def read(self, name: str) -> list[bytes]:
        """Return a batch's records; none where it is damaged, or has been dropped meanwhile.

        Raises:
            OSError: it is there and cannot be read.
        """
        with self._lock:
            try:
                data = _contents(name, self._opened())
            except FileNotFoundError:
                self._sizes.pop(name, None)
                return []
            if data is None or _is_damaged(name, data):
                self.dropped_records += max(1, (data or b"").count(b"\n"))
                log.error("a batch in the spool was damaged on disk", extra={"batch": name})
                self.remove(name)
                return []
            return data.splitlines()

    def remove(self, name: str) -> None:
        """Forget a batch that has arrived."""
        with self._lock:
            self._sizes.pop(name, None)
            # One that stays is sent once more by the next life, which changes nothing.
            with suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)

    def _opened(self) -> int:
        """Return the folder; one that was removed or replaced is made again, with its lock."""
        if self._descriptor is not None and not self._is_in_place(self._descriptor):
            self.close()
        if self._descriptor is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._sizes = _found(descriptor)
            except OSError:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
        return self._descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._folder.stat())
        except OSError:
            return False

    def _make_room(self, room: int) -> None:
        while self._sizes and self.room + room > self._max_bytes:
            oldest = min(self._sizes)
            with suppress(OSError):
                self.dropped_records += (_contents(oldest, self._descriptor) or b"").count(b"\n")
            self.remove(oldest)


def _found(folder: int) -> dict[str, int]:
    """Return the room of each batch in a folder; take away what can be none."""
    sizes = {}
    for name in sorted(os.listdir(folder)):
        is_new = name.endswith(_NEW)
        if not (is_new or _NAME.fullmatch(name)):
            continue
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and not is_new:
            sizes[name] = _room(status.st_size)
        elif not stat.S_ISDIR(status.st_mode):
            # Half a batch, which was never acknowledged to anybody; a link or a pipe.
            os.unlink(name, dir_fd=folder)
    return sizes


def _contents(name: str, folder: int | None) -> bytes | None:
    """Return what is in a file; None where somebody has put something else in its place."""
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return None
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        return file.read()


def _is_damaged(name: str, data: bytes) -> bool:
    match = _NAME.fullmatch(name)
    checksum = match[1] if match is not None else None
    return checksum is not None and int(checksum, 16) != zlib.crc32(data)


def _room(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
