"""A thread for each metrics page of a client: the sockets, the page, and the sockets again."""

from __future__ import annotations

__all__ = ["Puller"]

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.errors import BrokerwireError, SourceError, SourceUnavailableError
from exporter.kernel.sock_diag import NetlinkSocketTable
from exporter.model import JoinSample, KernelReading, ReadMethod
from exporter.processes.listeners import Listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exporter.config.settings import JavaSourceSettings, PortRange

log = logging.getLogger("brokerwire.sources")

# New sockets make a page be read again, at most so often.
LEAST_BETWEEN_PULLS = 1.0


class Puller:
    """One pulled page and its thread."""

    def __init__(
        self,
        settings: JavaSourceSettings,
        ports: Sequence[PortRange],
        deliver: Callable[[JoinSample], None],
        fail: Callable[[str, BrokerwireError], None],
        clock: Callable[[], float],
        *,
        served_by: int | None = None,
    ) -> None:
        """Read nothing yet. With `served_by` the page is read only while that process listens."""
        self._settings = settings
        self._ports = tuple(ports)
        self._deliver = deliver
        self._fail = fail
        self._clock = clock
        self._served_by = served_by
        from exporter.clients.java import JavaSource

        self._source = JavaSource(settings)
        self._listeners = Listeners(settings.url)
        self._hurry = threading.Event()
        self._stopping = False
        self._table: NetlinkSocketTable | None = None
        self._table_ports: tuple[PortRange, ...] = ()
        self._thread = threading.Thread(
            target=self._run, name=f"brokerwire-{settings.name}"[:15], daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that waits for an answer is left to its deadline."""
        self._stopping = True
        self._hurry.set()

    def hurry(self) -> None:
        """Read the page soon."""
        self._hurry.set()

    def set_ports(self, ports: Sequence[PortRange]) -> None:
        """Look at other ports around the next reads."""
        self._ports = tuple(ports)

    def _run(self) -> None:
        while not self._stopping:
            begun = self._clock()
            self._hurry.clear()
            try:
                before, pid = self._look(), self._listener()
                reading = replace(self._source.read(), sender_pid=pid)
                self._deliver(JoinSample(before=before, reading=reading, after=self._look()))
            except SourceError as error:
                self._fail(self._settings.name, error)
            except Exception as error:
                # A page that finds a bug of ours must not end its thread.
                log.exception("bug while reading a source", extra={"source": self._settings.name})
                self._fail(self._settings.name, SourceError(f"bug: {error!r}"))
            self._rest(begun)
        self._listeners.close()
        if self._table is not None:
            self._table.close()

    def _listener(self) -> int | None:
        pid = self._listeners.pid()
        if self._served_by not in (None, pid):
            raise SourceUnavailableError(
                f"process {self._served_by} declares this page, but the kernel does not show"
                " that it is the one that listens there"
            )
        return pid

    def _look(self) -> KernelReading:
        """Read the sockets; where netlink is refused there are no byte counts to join by."""
        try:
            if self._table is None:
                self._table = NetlinkSocketTable(self._ports, clock=self._clock, events=False)
                self._table_ports = self._ports
            if self._table_ports != self._ports:
                self._table.set_ports(self._ports)
                self._table_ports = self._ports
            return self._table.read()
        except SourceError:
            return KernelReading(at=self._clock(), method=ReadMethod.PSUTIL, sockets=())

    def _rest(self, begun: float) -> None:
        """Wait for the next turn, or for new sockets."""
        interval = self._settings.interval
        least = min(interval, LEAST_BETWEEN_PULLS)
        if not self._stopping and self._hurry.wait(interval):
            left = begun + least - self._clock()
            while left > 0 and not self._stopping:
                threading.Event().wait(min(left, 0.2))
                left = begun + least - self._clock()
