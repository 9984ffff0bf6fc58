"""librdkafka's statistics over a Unix socket: one JSON document per line.

One thread serves all senders. Everything is bounded: how many may be connected, how large a
document and all that is pending may be, how long a document may stay unfinished, and how much of
a processor all of it may take.
"""

from __future__ import annotations

__all__ = ["StatisticsSocket"]

import os
import selectors
import socket
import stat
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.clients.librdkafka import readings_from_statistics
from exporter.errors import SourceDecodeError, SourceError, SourceUnavailableError
from exporter.processor_share import ProcessorShare

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.model import SourceReading

MAX_SENDERS = 64
# All unfinished documents together, in multiples of the largest allowed one.
MAX_PENDING_DOCUMENTS = 2
UNFINISHED_SECONDS = 10.0
RECEIVE_BYTES = 256 * 1024
ACCEPT_PAUSE_SECONDS = 0.05
PROCESSOR_SHARE = 1 / 4
# Shorter rests add up to one of this length: a document of usual size takes 0.2 ms.
SHORTEST_REST_SECONDS = 0.01
BACKLOG = 64
MAX_PATH_BYTES = 107
_PEER_CREDENTIALS = struct.Struct("iII")


@dataclass(slots=True, eq=False)
class _Sender:
    sock: socket.socket
    pid: int | None
    last_at: float
    pending: bytearray = field(default_factory=bytearray)
    unfinished_since: float | None = None


class StatisticsSocket:
    """Listens on a path and hands each document's reading to `deliver`, each error to `fail`.

    Both are called in the socket's own thread and must not raise. `mode` is the socket's:
    a sender needs the right to write.
    """

    def __init__(
        self,
        path: str,
        deliver: Callable[[SourceReading], None],
        fail: Callable[[SourceError], None],
        *,
        max_bytes: int = 2 * 1024 * 1024,
        mode: int = 0o660,
    ) -> None:
        self._path = Path(path)
        self._deliver = deliver
        self._fail = fail
        self._max_bytes = max_bytes
        self._mode = mode
        self._senders: set[_Sender] = set()
        self._selector = selectors.DefaultSelector()
        self._identity: tuple[int, int] | None = None
        self._listener: socket.socket | None = None
        self._wake_up, self._woken = socket.socketpair()
        self._stopping = threading.Event()
        self._share = ProcessorShare(PROCESSOR_SHARE)
        self._thread = threading.Thread(target=self._run, name="brokerwire-statistics", daemon=True)

    @property
    def name(self) -> str:
        """The source of its readings."""
        return f"unix:{self._path}"

    def start(self) -> None:
        """Listen.

        Raises:
            SourceUnavailableError: the path is taken, or not ours to use.
        """
        self._listener = self._listen()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """Close the socket and take its file away, unless somebody has put another there."""
        self._stopping.set()
        if self._thread.is_alive():
            self._wake_up.send(b"x")
            self._thread.join(timeout_seconds)
        for sender in tuple(self._senders):
            self._drop(sender)
        if self._listener is not None:
            self._listener.close()
            self._remove_file()
        self._selector.close()
        self._wake_up.close()
        self._woken.close()

    def _listen(self) -> socket.socket:
        if len(os.fsencode(self._path)) > MAX_PATH_BYTES:
            raise SourceUnavailableError(
                f"cannot listen on {str(self._path)!r}: longer than {MAX_PATH_BYTES} bytes"
            )
        self._make_room()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            listener.bind(str(self._path))
            # Until `listen` nobody can connect, so the mode is right from the first moment.
            self._path.chmod(self._mode)
            found = self._path.lstat()
            self._identity = (found.st_dev, found.st_ino)
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise SourceUnavailableError(
                f"cannot listen on {str(self._path)!r}: {error.strerror}"
            ) from error
        return listener

    def _make_room(self) -> None:
        """Take away the socket file of an agent that is gone, and nothing else."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise SourceUnavailableError(
                f"cannot listen on {str(self._path)!r}: {error.strerror}"
            ) from error
        if not stat.S_ISSOCK(found.st_mode):
            raise SourceUnavailableError(
                f"cannot listen on {str(self._path)!r}: there is something else than a socket; "
                "remove it or give another path"
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(str(self._path))
            except ConnectionRefusedError:
                self._path.unlink(missing_ok=True)
                return
            except OSError:
                # EAGAIN is a full backlog, EACCES somebody else's socket: alive as far as we know.
                pass
        raise SourceUnavailableError(
            f"cannot listen on {str(self._path)!r}: another process does; give another path"
        )

    def _remove_file(self) -> None:
        with suppress(OSError):
            found = self._path.lstat()
            if (found.st_dev, found.st_ino) == self._identity:
                self._path.unlink()

    def _run(self) -> None:
        worked = time.thread_time()
        while not self._stopping.is_set():
            for key, _ in self._selector.select(timeout=1.0):
                if self._stopping.is_set():
                    return
                if isinstance(key.data, _Sender):
                    self._receive(key.data)
                else:
                    self._accept()
                now = time.thread_time()
                self._share.spend(now - worked)
                worked = now
                self._rest()
            self._drop_unfinished(time.monotonic())

    def _rest(self) -> None:
        rest = self._share.rest()
        if rest > SHORTEST_REST_SECONDS:
            self._stopping.wait(rest)

    def _accept(self) -> None:
        if self._listener is None:
            return
        try:
            sock, _ = self._listener.accept()
        except OSError:
            # Gone again, or no descriptor left; then the listener stays readable: do not spin.
            time.sleep(ACCEPT_PAUSE_SECONDS)
            return
        sock.setblocking(False)
        if len(self._senders) >= MAX_SENDERS:
            # A sender that comes back must not be locked out by those that only hold on.
            self._drop(min(self._senders, key=lambda sender: sender.last_at))
        sender = _Sender(sock=sock, pid=_peer_pid(sock), last_at=time.monotonic())
        self._senders.add(sender)
        self._selector.register(sock, selectors.EVENT_READ, sender)

    def _receive(self, sender: _Sender) -> None:
        if sender not in self._senders:
            # Dropped in this very round to make room.
            return
        try:
            chunk = sender.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            # A document without its newline was cut off: it says nothing.
            self._drop(sender)
            return
        sender.last_at = time.monotonic()
        *documents, rest = chunk.split(b"\n")
        for document in documents:
            self._take(sender, bytes(sender.pending) + document)
            sender.pending.clear()
        sender.pending += rest
        if not sender.pending:
            sender.unfinished_since = None
        elif documents or sender.unfinished_since is None:
            sender.unfinished_since = sender.last_at
        self._bound_pending(sender)

    def _take(self, sender: _Sender, document: bytes) -> None:
        if not document.strip():
            return
        try:
            readings = readings_from_statistics(
                document,
                source=self.name,
                received_at=time.monotonic(),
                sender_pid=sender.pid,
            )
        except SourceError as error:
            self._fail(error)
            return
        for reading in readings:
            self._deliver(reading)

    def _bound_pending(self, sender: _Sender) -> None:
        if len(sender.pending) > self._max_bytes:
            self._reject(sender, f"a document of more than {self._max_bytes} bytes")
        elif sum(len(other.pending) for other in self._senders) > (
            MAX_PENDING_DOCUMENTS * self._max_bytes
        ):
            self._reject(sender, "too many unfinished documents at once")

    def _drop_unfinished(self, now: float) -> None:
        for sender in tuple(self._senders):
            since = sender.unfinished_since
            if since is not None and now - since > UNFINISHED_SECONDS:
                self._reject(sender, f"a document unfinished for {UNFINISHED_SECONDS:g} s")

    def _reject(self, sender: _Sender, reason: str) -> None:
        self._drop(sender)
        self._fail(SourceDecodeError(f"{self.name}: {reason} (from process {sender.pid})"))

    def _drop(self, sender: _Sender) -> None:
        self._senders.discard(sender)
        with suppress(KeyError, ValueError):
            self._selector.unregister(sender.sock)
        sender.sock.close()


def _peer_pid(sock: socket.socket) -> int | None:
    """Return who connected, or None where that process is not in our PID namespace (0)."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    pid: int = _PEER_CREDENTIALS.unpack(raw)[0]
    return pid if pid > 0 else None
