"""The agent: the only place that knows both the sources and what is made of them.

One thread polls the kernel and owns the engine, which joins the clients' own metrics (`Inputs`).
`snapshot` is the last finished poll, which any thread may format.
"""

from __future__ import annotations

__all__ = ["Agent"]

import logging
import threading
import time
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from exporter.brokers.surroundings import Surroundings
from exporter.clients.declared_pages import DeclaredPages
from exporter.clients.inputs import Inputs
from exporter.clients.pod_annotations import PodAnnotations
from exporter.clients.turns import Turns
from exporter.engine.engine import Engine
from exporter.errors import SourceError
from exporter.findings.finder import Finder
from exporter.join.history import LAG
from exporter.kernel.psutil_table import open_socket_table
from exporter.kernel.sock_diag import NetlinkSocketTable
from exporter.model import JoinSample, ReadMethod
from exporter.processes.client_groups import ClientGroups
from exporter.processes.descriptors import holds_inode
from exporter.processes.open_files import OpenFilesWatch
from exporter.processes.owners import OwnerLadder
from exporter.snapshot import BrokerLimits, PollStatus, Snapshot
from exporter.totals.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exporter.alerts.settings import Thresholds
    from exporter.config.settings import Settings
    from exporter.engine.engine import PollOutcome
    from exporter.join.attribution import Attributor
    from exporter.journal.journaling import Journaling
    from exporter.kernel.psutil_table import SocketTable
    from exporter.model import GroupsReading, KernelReading, Owner, SourceReading

log = logging.getLogger("brokerwire.agent")

# Readings that are kept to lay around a pushed document's own time.
REMEMBERED_READINGS = 16

# A page that was read makes a poll come early, at most so often.
LEAST_BETWEEN_POLLS = 0.1

# A whole look at the table costs ten times a filtered one.
ANY_PORT_SECONDS = 30.0

# As above, for the sockets that share a client's epoll instance with a broker's.
GROUP_PORTS_SECONDS = 5.0

# After so many polls that failed in a row the agent is not healthy any more.
MOST_FAILURES = 10


class Agent:
    """Polls, joins and classifies."""

    def __init__(  # noqa: PLR0913  (all but one have defaults and a name)
        self,
        settings: Settings,
        thresholds: Thresholds | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        journaling: Journaling | None = None,
        pids: Callable[[], Iterable[int]] | None = None,
        attributor: Attributor | None = None,
    ) -> None:
        """Read nothing yet. `thresholds` are those of the operator's rules, else the defaults.

        `pids` is for an agent in a network namespace that it has entered, and lists the processes
        there: sockets are then read by netlink or not at all, since /proc/net is that of the
        namespace which the agent's process began in. `attributor`: a test that records the join
        hands in its own.
        """
        self.settings = settings
        self._journaling = journaling
        self._clock = clock
        self._wall_clock = wall_clock
        journal = journaling.totals if journaling is not None else None
        self.engine = Engine(settings, started=wall_clock(), journal=journal, attributor=attributor)
        """What is known; only the poll thread may write there."""
        self._ladder = OwnerLadder(settings.clients.processes, pids=pids)
        self._groups = ClientGroups(started=wall_clock(), clock=clock)
        self._open_files = OpenFilesWatch(clock=clock)
        self._limits = BrokerLimits(
            settings.brokers.max_connections, settings.brokers.max_connections_per_ip
        )
        self._surroundings = Surroundings(settings, wall_clock)
        self._ports = self._surroundings.ports
        self._ports_at = float("-inf")
        self._unlisted: frozenset[int] = frozenset()
        self._unlisted_at = float("-inf")
        self._any_port = any(rule.any_port for rule in settings.clients.processes)
        buffers = journaling is not None and journaling.connects
        self._table: SocketTable = (
            open_socket_table(self._ports, clock=clock, buffers=buffers)
            if pids is None
            else NetlinkSocketTable(self._ports, clock=clock, buffers=buffers)
        )
        web_ports = [int(each.rpartition(":")[2]) for each in settings.web.listen_addresses]
        self._inputs = Inputs(
            settings.sources,
            self._ports,
            self.wake,
            clock,
            wall_clock,
            listening_on=web_ports,
            optional=pids is not None,
        )
        sources = settings.sources
        # A page that is configured may be another page of the same clients: they would count twice.
        discover = sources.discover and not sources.java
        self._pages = DeclaredPages(clock) if discover else None
        # The annotations are those of the agent's own pod.
        folder = sources.pod_annotations if discover and pids is None else None
        self._annotations = None if folder is None else PodAnnotations(folder, web_ports, clock)
        self._readings: deque[KernelReading] = deque(maxlen=REMEMBERED_READINGS)
        self._turns = Turns(settings.poll.interval, clock=clock)
        self._condition = threading.Condition()
        self._woken = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="brokerwire-poll", daemon=True)
        self._snapshot: Snapshot | None = None
        self._polls = 0
        self._failed_polls = 0
        self._failures_in_a_row = 0
        self._events_lost = 0
        self._error: str | None = None
        self._finder = Finder(settings.classes, self._limits, thresholds)
        self._recorder = Recorder()

    # ---- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Take a first look, then go on in threads of their own."""
        self._surroundings.start()
        self.poll_once()
        self._inputs.start()
        self._thread.start()

    def stop(self) -> None:
        """End within a second; nothing is left behind."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._inputs.stop()
        self._surroundings.stop()
        if self._thread.is_alive():
            self._thread.join(1.0)
        if self._journaling is not None and not self._thread.is_alive():
            self._journaling.finish(self._clock(), self.engine)
        self._table.close()
        self._ladder.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- what others may ask ------------------------------------------------------------------

    def snapshot(self) -> Snapshot | None:
        """Return the last finished poll; None before the first."""
        return self._snapshot

    def is_healthy(self) -> bool:
        """Whether the poll thread runs and the socket table can be read."""
        return self._thread.is_alive() and self._failures_in_a_row < MOST_FAILURES

    def accept_statistics(self, body: bytes, sender: tuple[str, int] | None = None) -> None:
        """Take librdkafka's statistics that were posted, from this address and port.

        Raises:
            SourceDecodeError: they are no statistics.
        """
        self._inputs.accept_statistics(body, sender)

    def wake(self) -> None:
        """Poll soon: a page has been read."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    # ---- the poll -----------------------------------------------------------------------------

    def poll_once(self) -> Snapshot | None:
        """Read, join and classify once; a table that cannot be read leaves the last snapshot."""
        begun = self._clock()
        self._find_ports(begun)
        self._inputs.open_inlets()
        try:
            kernel = self._table.read()
        except SourceError as error:
            self._fail(error)
            return self._snapshot
        self._succeed()
        self._readings.append(kernel)
        self._events_lost += kernel.events_lost
        self._surroundings.tell(self.engine.directory)
        if self._journaling is not None:
            self._journaling.turn(kernel, self._wall_clock(), self.engine, self._snapshot)
        owners = self._ladder.owners_of(kernel.sockets)
        if self._journaling is not None:
            kernel, owners = self._journaling.without_own(kernel, owners, self.engine)
        self._follow_pages(owners)
        groups = self._groups.read(kernel.sockets, owners)
        self._follow_groups(groups, begun)
        outcome = self.engine.poll(kernel, owners, groups)
        self._settle_vanished(outcome, kernel)
        joined = self._join(kernel)
        if outcome.new_unattributed and not joined:
            self._inputs.hurry()
        self._polls += 1
        self._snapshot = self._make_snapshot(kernel, begun)
        if self._journaling is not None:
            self._journaling.found(self._snapshot)
        return self._snapshot

    def _run(self) -> None:
        interval = self.settings.poll.interval
        due = self._clock() + interval
        while True:
            with self._condition:
                if not self._woken and not self._stopping:
                    self._condition.wait(max(0.0, due - self._clock()))
                if self._stopping:
                    return
                woken, self._woken = self._woken, False
            begun = self._clock()
            try:
                self.poll_once()
            except Exception:
                # A bug must show: in the log, and in a health check that fails.
                log.exception("bug in a poll")
                self._failures_in_a_row += 1
                self._failed_polls += 1
            if not woken or begun >= due:
                # Behind after a suspended machine: go on from now, do not catch up.
                due = max(due + interval, self._clock())
            self._rest(begun + LEAST_BETWEEN_POLLS)

    def _rest(self, until: float) -> None:
        with self._condition:
            while not self._stopping and (left := until - self._clock()) > 0:
                self._condition.wait(left)

    def _settle_vanished(self, outcome: PollOutcome, kernel: KernelReading) -> None:
        vanished = outcome.changes.vanished
        if not vanished:
            return
        held: dict[int, bool | None] = {}
        for tracked in vanished:
            pid = tracked.owner.pid
            held[tracked.cookie] = (
                holds_inode(pid, tracked.reading.inode) if pid is not None else None
            )
        self.engine.settle_vanished(held, kernel.at, events_complete=kernel.events_complete)

    def _join(self, kernel: KernelReading) -> bool:
        # A client may have opened a connection after the look, and before it wrote of it.
        arrived = self._inputs.take(kernel.at - LAG)
        pushed = []
        for arrival in arrived:
            if isinstance(arrival, JoinSample):
                self._join_one(arrival)
            else:
                pushed.append(arrival)
        late = self._turns.join(
            pushed, lambda reading: self._join_one(self._bracketed(reading, kernel))
        )
        for reading in late:
            self._inputs.drop(reading)
        if arrived:
            before = kernel.at - self.settings.sources.librdkafka.stale_after
            for source in self._inputs.pushing_sources:
                self.engine.forget_silent(source, before)
            self.engine.look_again(kernel.at)
        return bool(arrived)

    def _join_one(self, sample: JoinSample) -> None:
        asker = (sample.reading.source, sample.reading.sender_pid)
        self.engine.join(sample, partial(self._surroundings.addresses_of, asker=asker))

    def _bracketed(self, reading: SourceReading, kernel: KernelReading) -> JoinSample:
        """Lay two looks at the sockets around a document by the moment it was written."""
        before = self._readings[0]
        after = kernel
        for known in self._readings:
            if known.at <= reading.begun_at:
                before = known
            elif known.at >= reading.ended_at:
                after = known
                break
        return JoinSample(before=before, reading=reading, after=after)

    def _find_ports(self, now: float) -> None:
        """Look from time to time where the processes of `any_port` rules have connected to."""
        if self._any_port and now - self._ports_at >= ANY_PORT_SECONDS:
            self._ports_at = now
            try:
                self._surroundings.add_ports(self._ladder.remote_ports_of_matching())
            except SourceError as error:
                self._fail(error)
        self._watch_ports()

    def _watch_ports(self) -> None:
        ports = self._surroundings.ports
        if ports != self._ports:
            self._ports = ports
            self._table.set_ports(ports)
            self._inputs.set_ports(ports)

    def _follow_pages(self, owners: Mapping[int, Owner]) -> None:
        """Read the metrics pages that the clients' processes or the pod declare."""
        if self._pages is not None:
            for name in self._pages.gone():
                self._drop_page(name)
            for page in self._pages.new(owners):
                self._inputs.add_page(page)
        if self._annotations is not None:
            old, new = self._annotations.follow(others=self._pages is not None and self._pages.any)
            if old is not None:
                self._drop_page(old.settings.name)
            if new is not None:
                self._inputs.add_page(new)

    def _drop_page(self, name: str) -> None:
        self._inputs.drop_page(name)
        self.engine.forget_silent(name, float("inf"))

    def _follow_groups(self, groups: GroupsReading, now: float) -> None:
        """Watch the other ports to which known clients are connected."""
        new = groups.unlisted - self._unlisted
        if not new or now - self._unlisted_at < GROUP_PORTS_SECONDS:
            return
        self._unlisted, self._unlisted_at = groups.unlisted, now
        try:
            ports = self._ladder.remote_ports_of(new)
        except SourceError as error:
            self._fail(error)
            return
        self._surroundings.add_ports(ports)
        self._watch_ports()

    def _fail(self, error: SourceError) -> None:
        if self._error != str(error):
            log.warning("cannot read the socket table", extra={"error": str(error)})
        self._error = str(error)
        self._failed_polls += 1
        self._failures_in_a_row += 1
        if self._snapshot is not None:
            # The connections stay as they were, with their time; that it failed is new.
            poll = replace(self._snapshot.poll, failed_polls=self._failed_polls, error=self._error)
            self._snapshot = replace(self._snapshot, poll=poll)

    def _succeed(self) -> None:
        if self._error is not None:
            log.info("socket table readable again")
        self._error = None
        self._failures_in_a_row = 0

    # ---- the snapshot -------------------------------------------------------------------------

    def _make_snapshot(self, kernel: KernelReading, begun: float) -> Snapshot:
        engine = self.engine
        sources = (*self._inputs.statuses(kernel.at), *self._surroundings.statuses())
        totals = engine.totals
        open_files = self._open_files.of(
            tracked.owner for tracked in engine.tracker.connections.values()
        )
        findings = self._finder.find(engine, totals, sources, open_files, kernel.at)
        return Snapshot(
            at=kernel.at,
            wall_time=self._wall_clock(),
            interval_seconds=self.settings.poll.interval,
            connections=engine.connections,
            counts=engine.counts.by_class,
            expected=engine.counts.expected,
            timings=engine.timings,
            totals=totals,
            findings=findings,
            sources=sources,
            poll=PollStatus(
                polls=self._polls,
                failed_polls=self._failed_polls,
                duration_seconds=self._clock() - begun,
                method=kernel.method,
                events_available=kernel.events_complete or kernel.events_lost > 0,
                events_lost=self._events_lost,
                owner_rungs=engine.counts.rungs,
                unattributed_closed=engine.unattributed_closed,
                capabilities=self._capabilities(kernel),
                folded_clients=engine.folded_clients,
                groups_available=bool(engine.groups.readable),
                grouped_connections=len(engine.groups.of),
                error=self._error,
            ),
            libraries=engine.libraries,
            open_files=open_files,
            broker_limits=self._limits,
            process_clients=engine.process_clients,
            history=replace(
                self._recorder.take(
                    kernel.at,
                    engine.counts.by_class,
                    engine.counts.expected,
                    engine.opened_and_closed,
                    findings,
                ),
                events=engine.log.events,
            ),
        )

    def _capabilities(self, kernel: KernelReading) -> tuple[str, ...]:
        reads = (
            "socket table by netlink, with byte counts"
            if kernel.method is ReadMethod.SOCK_DIAG
            else "socket table through psutil: no byte counts, no join"
        )
        events = (
            "every closed connection is reported"
            if kernel.events_complete
            else "closed connections are not reported: those shorter than a poll are missed"
        )
        grouped = _groups_text(self.engine.groups)
        beyond = self.engine.tracker.beyond_limit
        limit = (f"{beyond} more connections than limits.connections are not tracked",)
        return (reads, events, *self._ladder.abilities(), grouped, *(limit if beyond else ()))


def _groups_text(groups: GroupsReading) -> str:
    """Say whether client groups can be read, and what would allow it."""
    if groups.readable:
        total = len(groups.readable) + len(groups.unreadable)
        return (
            f"client groups: yes, by the epoll instances of {len(groups.readable)} of {total} JVMs"
        )
    return (
        "client groups: no JVM's descriptors can be read here; where there is one, run the agent"
        " under its uid and gid in its process namespace (chart: sidecar.processAccess, or the"
        " label brokerwire/process-access of the pod)"
    )
