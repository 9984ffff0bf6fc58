"""The sources of client metrics: pulled pages, pushed statistics, and the health of each.

Every pulled source has a thread of its own that reads the sockets, the page, and the sockets again.
What arrives waits in a bounded queue until the poll takes it; a source that hangs, lies or dies
costs only itself and shows in `statuses`.
"""

from __future__ import annotations

__all__ = ["Inputs"]

import logging
import math
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from exporter.clients.puller import Puller
from exporter.errors import BrokerwireError, SourceError
from exporter.model import JoinSample
from exporter.processes.posters import Posters
from exporter.snapshot import SourceStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from exporter.clients.declared_pages import DeclaredPage
    from exporter.clients.statistics_file import StatisticsFile
    from exporter.clients.statistics_socket import StatisticsSocket
    from exporter.config.settings import PortRange, SourceSettings
    from exporter.model import ClientReading, SourceReading

    Arrival = SourceReading | JoinSample

log = logging.getLogger("brokerwire.sources")

# What may wait for the poll; a poll that cannot keep up drops the rest, which is counted.
MOST_WAITING = 1000

# The nodes of all readings that wait: 300 bytes each.
MOST_WAITING_NODES = 20_000

# What a source may make the agent remember, for `stale_after`: 1 KiB each. Statistics of further
# clients are dropped, which is counted.
MOST_CLIENTS_AND_NODES = 10_000

# What a pushing source does wrong is logged once in this time, whatever it sends: rubbish must not
# use up the lines that an outage needs.
QUIET_SECONDS = 60.0

# An inlet whose path was taken or missing is tried again so often.
REOPEN_SECONDS = 10.0

HTTP_SOURCE = "http"


class _Heard(NamedTuple):
    """When a client was last heard of, and itself and its nodes together."""

    at: float
    size: int


@dataclass(slots=True)
class _Health:
    """How one source is doing; written by its thread, read by the poll."""

    name: str
    kind: str
    optional: bool = False
    """Not there until it has answered: nobody said that this network has such a page."""
    found_by: str | None = None
    """Why it is read although nobody configured it."""
    reads: int = 0
    errors: int = 0
    dropped: int = 0
    error: str | None = None
    duration: float | None = None
    last_success: float | None = None
    _clients: dict[int, _Heard] = field(default_factory=dict)
    """By a hash of all that names a client: of one size, however long its names are."""
    _size: int = 0
    _is_told: bool = False
    _quiet_until: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def succeeded(
        self, reading: SourceReading, at: float, wall_time: float, duration: float | None
    ) -> bool:
        """Note a read; return whether there is room for its clients."""
        if self._is_told:
            log.info("source readable again", extra={"source": self.name})
            self._is_told = False
        self.reads += 1
        self.error = None
        self.duration = duration
        self.last_success = wall_time
        with self._lock:
            if duration is not None:
                self._clients, self._size = {}, 0
            heard = [self._hear(client, reading.sender_pid, at) for client in reading.clients]
        return all(heard)

    def _hear(self, client: ClientReading, sender: int | None, at: float) -> bool:
        name = hash((sender, client.kind, client.client_id, client.instance))
        known = self._clients.get(name)
        size = 1 + len(client.nodes)
        after = self._size + size - (known.size if known is not None else 0)
        if after > MOST_CLIENTS_AND_NODES:
            return False
        self._clients[name] = _Heard(at, size)
        self._size = after
        return True

    def failed(self, error: BrokerwireError, at: float) -> None:
        text = str(error)
        self.reads += 1
        self.errors += 1
        is_quiet = (self.is_absent and self.found_by is None) or at < self._quiet_until
        if self.error != text and not is_quiet:
            log.warning("source cannot be read", extra={"source": self.name, "error": text})
            self._is_told = True
            if self.kind == "librdkafka":
                self._quiet_until = at + QUIET_SECONDS
        self.error = text

    @property
    def is_absent(self) -> bool:
        return self.optional and self.last_success is None

    def forget_silent(self, before: float) -> None:
        """Forget pushed clients that have sent nothing since; a pulled page names all it has."""
        with self._lock:
            heard = {name: each for name, each in self._clients.items() if each.at >= before}
            self._clients, self._size = heard, sum(each.size for each in heard.values())

    def status(self) -> SourceStatus:
        return SourceStatus(
            name=self.name,
            kind=self.kind,
            up=self.error is None and self.reads > 0,
            duration_seconds=self.duration,
            reads=self.reads,
            errors=self.errors,
            error=self.error,
            clients=len(self._clients),
            last_success_wall_time=self.last_success,
            dropped=self.dropped,
            found_by=self.found_by,
        )


class Inputs:
    """All sources of client metrics. `wake` is called when a page has been read.

    What is pushed waits for the next poll: nobody outside decides how often the agent works.

    With `optional`, a page that never answered is no source: not every network has every page.
    """

    def __init__(  # noqa: PLR0913  (the last two have defaults and a name)
        self,
        settings: SourceSettings,
        ports: Sequence[PortRange],
        wake: Callable[[], None],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        *,
        listening_on: Iterable[int] = (),
        optional: bool = False,
    ) -> None:
        self._settings = settings
        self._posters = Posters(listening_on)
        self._wake = wake
        self._clock = clock
        self._wall_clock = wall_clock
        self._arrived: list[Arrival] = []
        self._waiting_nodes = 0
        self._arriving = threading.Lock()
        self._health: dict[str, _Health] = {}
        self._ports = tuple(ports)
        self._is_started = False
        self._pullers = {
            source.name: Puller(source, ports, self._pulled, self._pull_failed, clock)
            for source in settings.java
        }
        for source in settings.java:
            self._health[source.name] = _Health(source.name, "java", optional)
        pushed = settings.librdkafka
        self._inlets: list[StatisticsSocket | StatisticsFile] = []
        self._unopened: list[StatisticsSocket | StatisticsFile] = []
        self._open_at = float("-inf")
        if pushed.unix_socket is not None:
            self._add_inlet("unix", pushed.unix_socket)
        for path in pushed.files:
            self._add_inlet("file", path)

    def start(self) -> None:
        """Start every thread; an inlet that cannot be opened is down, the others go on."""
        self.open_inlets()
        self._is_started = True
        for puller in self._pullers.values():
            puller.start()

    def add_page(self, page: DeclaredPage) -> None:
        """Start to read a page that nobody configured; no source until it has answered."""
        name = page.settings.name
        self._health[name] = _Health(name, "java", optional=True, found_by=page.found_by)
        self._pullers[name] = Puller(
            page.settings,
            self._ports,
            self._pulled,
            self._pull_failed,
            self._clock,
            served_by=page.pid,
        )
        if self._is_started:
            self._pullers[name].start()

    def drop_page(self, name: str) -> None:
        """Read this page no longer."""
        self._pullers.pop(name).stop()
        with self._arriving:
            del self._health[name]
            self._keep([each for each in self._arrived if _reading(each).source != name])

    def open_inlets(self) -> None:
        """Open the inlets that are not open, if it is time to try."""
        if not self._unopened or self._clock() < self._open_at:
            return
        self._open_at = self._clock() + REOPEN_SECONDS
        for inlet in tuple(self._unopened):
            try:
                inlet.start()
                self._unopened.remove(inlet)
            except SourceError as error:
                self._failed(inlet.name, error)

    def stop(self) -> None:
        """End every thread."""
        for puller in self._pullers.values():
            puller.stop()
        for inlet in self._inlets:
            inlet.stop()
        self._posters.close()

    def set_ports(self, ports: Sequence[PortRange]) -> None:
        """Look at other ports around the next reads."""
        self._ports = tuple(ports)
        for puller in self._pullers.values():
            puller.set_ports(ports)

    def hurry(self) -> None:
        """Read every page soon: there are sockets that nobody has claimed yet."""
        for puller in self._pullers.values():
            puller.hurry()

    def accept_statistics(self, body: bytes, sender: tuple[str, int] | None = None) -> None:
        """Take statistics that were posted; `sender` is the address and port they came from.

        Raises:
            SourceDecodeError: they are no statistics; the sender should know.
        """
        from exporter.clients.librdkafka import readings_from_statistics

        received_at = self._clock()
        pid = None if sender is None else self._posters.pid_of(*sender)
        try:
            readings = readings_from_statistics(
                body, source=HTTP_SOURCE, received_at=received_at, sender_pid=pid
            )
        except SourceError as error:
            self._failed(HTTP_SOURCE, error)
            raise
        for reading in readings:
            self._pushed(reading)

    def take(self, until: float = math.inf) -> list[Arrival]:
        """Return what has arrived, in order; what was pushed with later figures waits."""
        with self._arriving:
            taken: list[Arrival] = []
            late: list[Arrival] = []
            for each in self._arrived:
                is_late = not isinstance(each, JoinSample) and each.ended_at > until
                (late if is_late else taken).append(each)
            self._keep(late)
        return taken

    def _keep(self, arrived: list[Arrival]) -> None:
        self._arrived = arrived
        self._waiting_nodes = sum(_nodes(_reading(each)) for each in arrived)

    def drop(self, reading: SourceReading) -> None:
        """Count a reading that the poll had no time for."""
        self._health[reading.source].dropped += 1

    @property
    def pushing_sources(self) -> tuple[str, ...]:
        """The names of the sources that librdkafka pushes to."""
        return tuple(name for name, health in self._health.items() if health.kind != "java")

    def statuses(self, now: float) -> tuple[SourceStatus, ...]:
        """Return how every source is doing."""
        for health in tuple(self._health.values()):
            if health.kind != "java":
                health.forget_silent(now - self._settings.librdkafka.stale_after)
        present = [each for each in tuple(self._health.values()) if not each.is_absent]
        return tuple(health.status() for health in present)

    def _add_inlet(self, kind: Literal["unix", "file"], path: str) -> None:
        pushed = self._settings.librdkafka
        inlet: StatisticsSocket | StatisticsFile
        from exporter.clients.statistics_file import StatisticsFile
        from exporter.clients.statistics_socket import StatisticsSocket

        fail = partial(self._failed, f"{kind}:{path}")
        if kind == "unix":
            inlet = StatisticsSocket(
                path, self._pushed, fail, max_bytes=pushed.max_bytes, mode=pushed.unix_socket_mode
            )
        else:
            inlet = StatisticsFile(path, self._pushed, fail, max_bytes=pushed.max_bytes)
        self._health[inlet.name] = _Health(inlet.name, "librdkafka")
        self._inlets.append(inlet)
        self._unopened.append(inlet)

    def _pulled(self, sample: JoinSample) -> None:
        reading = sample.reading
        health = self._health.get(reading.source)
        if health is None:
            return  # dropped while it was read
        health.succeeded(
            reading, self._clock(), self._wall_clock(), reading.ended_at - reading.begun_at
        )
        self._put(sample, reading)
        self._wake()

    def _pushed(self, reading: SourceReading) -> None:
        health = self._health.setdefault(reading.source, _Health(reading.source, "librdkafka"))
        if health.succeeded(reading, self._clock(), self._wall_clock(), None):
            self._put(reading, reading)
        else:
            health.dropped += 1

    def _pull_failed(self, source: str, error: BrokerwireError) -> None:
        health = self._health.get(source)
        if health is not None:  # else dropped while it was read
            health.failed(error, self._clock())

    def _failed(self, source: str, error: BrokerwireError) -> None:
        self._health.setdefault(source, _Health(source, "librdkafka")).failed(error, self._clock())

    def _put(self, arrival: Arrival, reading: SourceReading) -> None:
        nodes = _nodes(reading)
        with self._arriving:
            if reading.source not in self._health:
                return  # dropped meanwhile
            is_full = bool(self._arrived) and self._waiting_nodes + nodes > MOST_WAITING_NODES
            if is_full or len(self._arrived) >= MOST_WAITING:
                self._health[reading.source].dropped += 1
            else:
                self._arrived.append(arrival)
                self._waiting_nodes += nodes


def _nodes(reading: SourceReading) -> int:
    return sum(len(client.nodes) for client in reading.clients)


def _reading(arrival: Arrival) -> SourceReading:
    return arrival.reading if isinstance(arrival, JoinSample) else arrival
