"""librdkafka's statistics in a file that the application writes: one JSON document per line.

The file may be appended to, rotated, truncated or rewritten each time. What stood in it before
the agent came is not read: it says what was.
"""

from __future__ import annotations

__all__ = ["StatisticsFile"]

import os
import stat
import threading
import time
from typing import TYPE_CHECKING

from exporter.clients.librdkafka import readings_from_statistics
from exporter.errors import SourceDecodeError, SourceError, SourceUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.model import SourceReading

READ_BYTES = 256 * 1024
# Enough of a file's beginning to hold `ts`: a rewritten file differs there, one that grew does not.
HEAD_BYTES = 512


class StatisticsFile:
    """Follows one file and hands each document's reading to `deliver`, each error to `fail`.

    Both are called in the follower's own thread and must not raise. An error that lasts is told
    once, until the file has been read again.
    """

    def __init__(
        self,
        path: str,
        deliver: Callable[[SourceReading], None],
        fail: Callable[[SourceError], None],
        *,
        max_bytes: int = 2 * 1024 * 1024,
        interval_seconds: float = 0.5,
    ) -> None:
        self._path = path
        self._deliver = deliver
        self._fail = fail
        self._max_bytes = max_bytes
        self._interval_seconds = interval_seconds
        self._identity: tuple[int, int] | None = None
        self._head = b""
        self._offset: int | None = None
        self._pending = bytearray()
        self._skipping = False
        self._tried_length = 0
        self._last_error: str | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerwire-statistics", daemon=True)

    @property
    def name(self) -> str:
        """The source of its readings."""
        return f"file:{self._path}"

    def start(self) -> None:
        """Start following; what the file holds already is passed over."""
        self.poll(from_the_start=False)
        self._thread.start()

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """Stop following."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def poll(self, *, from_the_start: bool = True) -> None:
        """Read once what is new; a file met for the first time from its start, or from its end."""
        try:
            self._read_new(from_the_start=from_the_start)
        except SourceError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                self._fail(error)
        else:
            self._last_error = None

    def _run(self) -> None:
        rest = self._interval_seconds
        while not self._stopped.wait(rest):
            begun = time.thread_time()
            self.poll()
            # At most a third of a processor, whatever is written.
            rest = max(self._interval_seconds, 2 * (time.thread_time() - begun))

    def _read_new(self, *, from_the_start: bool) -> None:
        file = self._open()
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise SourceUnavailableError(
                    f"cannot follow {self._path!r}: it is not a regular file"
                )
            self._place(file, found, from_the_start=from_the_start)
            if not self._read_chunks(file):
                self._try_last_line()
        except OSError as error:
            raise self._unavailable(error) from error
        finally:
            os.close(file)

    def _open(self) -> int:
        """Open the file without waiting: O_NONBLOCK opens a fifo at once; fstat identifies it."""
        try:
            return os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: OSError) -> SourceUnavailableError:
        return SourceUnavailableError(f"cannot follow {self._path!r}: {error.strerror}")

    def _place(self, file: int, found: os.stat_result, *, from_the_start: bool) -> None:
        """Decide where to read on: after what was read, or at the start of another content."""
        identity = (found.st_dev, found.st_ino)
        head = os.pread(file, HEAD_BYTES, 0)
        is_same = (
            identity == self._identity
            and self._offset is not None
            and found.st_size >= self._offset
            and head.startswith(self._head)
        )
        if not is_same:
            self._pending.clear()
            self._skipping = False
            self._offset = 0
            if self._identity is None and not from_the_start:
                self._offset = found.st_size
                # Whatever line is being written at this moment began before us.
                self._skipping = found.st_size > 0 and os.pread(file, 1, found.st_size - 1) != b"\n"
        self._identity = identity
        self._head = head

    def _read_chunks(self, file: int) -> bool:
        """Read what is new, in bounds; return whether there was anything."""
        begun_at = self._offset or 0
        end = begun_at + self._max_bytes
        offset = begun_at
        while offset < end and (chunk := os.pread(file, READ_BYTES, offset)):
            offset += len(chunk)
            self._offset = offset
            self._take(chunk)
        return offset > begun_at

    def _try_last_line(self) -> None:
        """Take a line without its newline if it is whole: a file rewritten with one document."""
        length = len(self._pending)
        if length in (0, self._tried_length):
            return
        self._tried_length = length
        try:
            readings = self._decode(bytes(self._pending))
        except SourceError:
            # Still being written, as far as we know.
            return
        self._pending.clear()
        for reading in readings:
            self._deliver(reading)

    def _take(self, chunk: bytes) -> None:
        self._tried_length = 0
        *documents, rest = chunk.split(b"\n")
        for document in documents:
            if not self._skipping:
                self._deliver_document(bytes(self._pending) + document)
            self._skipping = False
            self._pending.clear()
        if not self._skipping:
            self._pending += rest
        if len(self._pending) > self._max_bytes:
            self._pending.clear()
            self._skipping = True
            self._fail(
                SourceDecodeError(f"{self.name}: a line of more than {self._max_bytes} bytes")
            )

    def _deliver_document(self, document: bytes) -> None:
        if not document.strip():
            return
        try:
            readings = self._decode(document)
        except SourceError as error:
            self._fail(error)
            return
        for reading in readings:
            self._deliver(reading)

    def _decode(self, document: bytes) -> tuple[SourceReading, ...]:
        return readings_from_statistics(document, source=self.name, received_at=time.monotonic())
