"""Files of JSON lines: appended in one write a batch, on disk when `append` returns.

A file that is full is renamed under the time of the batch that found it full, in one step, and
never written again: who reads it then reads all of it. The oldest go: size and number are bounded.
A write that was cut short (a full disk) is taken back, and so is half a line that a kill left.
"""

from __future__ import annotations

__all__ = ["JournalFile"]

import errno
import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exporter.config.settings import JournalFileSettings
    from exporter.journal.lines import Lines

# Whoever ships the files may run under another user of the same group.
_MODE = 0o640
_TAIL = 1 << 16


class JournalFile:
    """The file that is written, and those that are full."""

    def __init__(self, settings: JournalFileSettings) -> None:
        self._path = Path(settings.path)
        self._max_bytes = settings.max_bytes
        self._max_files = settings.max_files
        self._descriptor: int | None = None
        self._size = 0

    def append(self, lines: Lines) -> None:
        """Append a batch and wait until it is on disk.

        Raises:
            OSError: it is not; nothing of it is left in the file.
        """
        descriptor = self._opened()
        if self._size and self._size + len(lines.data) > self._max_bytes:
            self._put_aside(lines.name)
            descriptor = self._opened()
        try:
            _write_whole(descriptor, lines.data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._size)
            self.close()
            raise
        self._size += len(lines.data)

    def close(self) -> None:
        """Close the file; the next `append` opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def _opened(self) -> int:
        if self._descriptor is not None and not self._is_in_place(self._descriptor):
            # Somebody has moved or removed it: what comes now belongs under the name again.
            self.close()
        if self._descriptor is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, _MODE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._size = _end_of_lines(descriptor)
                os.ftruncate(descriptor, self._size)
                _sync_folder(self._path.parent)
            except OSError:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
        return self._descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.lstat())
        except OSError:
            return False

    def _put_aside(self, name: str) -> None:
        path = self._path
        path.rename(path.with_name(f"{path.stem}-{name}{path.suffix}"))
        self.close()
        pattern = re.compile(
            re.escape(path.stem) + r"-\d{15}-[0-9a-f]+-\d{10}" + re.escape(path.suffix)
        )
        full = sorted(each for each in path.parent.iterdir() if pattern.fullmatch(each.name))
        for old in full[: max(0, len(full) - (self._max_files - 1))]:
            old.unlink(missing_ok=True)


def _write_whole(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _end_of_lines(descriptor: int) -> int:
    """Return where the last whole line ends: a kill may have left half a line behind it."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        begin = max(0, end - _TAIL)
        newline = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
