"""One agent for each network namespace of a machine that has a Kafka client.

A namespace is a world of its own: equal addresses in two of them are different brokers, 127.0.0.1
is somebody else's, and who talks to whom can only be told inside. So there is not one agent that
knows of namespaces but one agent in each: a thread enters the namespace and starts an `Agent`,
whose sockets and threads are then there. A namespace without clients costs two sockets and a look
now and then. docs/decisions/0010 has the alternatives.
"""

from __future__ import annotations

__all__ = ["NetworkAgents"]

import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.agent import Agent
from exporter.brokers.surroundings import Surroundings
from exporter.errors import SourceError
from exporter.kernel.netlink import open_diag_socket
from exporter.kernel.sock_diag import NetlinkSocketTable
from exporter.processes.network_namespaces import MachineNetworks, do_inside
from exporter.processes.pods import NOT_KNOWN, Pod, PodFinder
from exporter.snapshot import NetworkView

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.alerts.settings import Thresholds
    from exporter.config.settings import Settings
    from exporter.kernel.netlink import DiagSocket
    from exporter.model import KernelReading
    from exporter.processes.network_namespaces import Network

log = logging.getLogger("brokerwire.networks")

# A look that is so many intervals late is a thread that hangs.
_LATE_LOOKS = 6
_STOP_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class _Watched:
    """One namespace: held open by `handle`; without an agent it is asleep, under `table`."""

    handle: int
    table: NetlinkSocketTable | None
    agent: Agent | None = None
    pod: Pod = NOT_KNOWN


class NetworkAgents:
    """Finds namespaces, starts and stops their agents; `networks` is what they say now."""

    def __init__(
        self,
        settings: Settings,
        thresholds: Thresholds | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        proc: str = "/proc",
    ) -> None:
        self._settings = settings
        self._thresholds = thresholds
        self._clock = clock
        self._machine = MachineNetworks(proc=proc, clock=clock)
        # The listed ones and those of known brokers.
        self._ports = Surroundings(settings, time.time).ports
        self._pods = PodFinder(settings.networks.pod_logs, proc=proc, clock=clock)
        self._watched: dict[int, _Watched] = {}
        self._views: tuple[tuple[Pod, int, Agent], ...] = ()
        self._counts = {"watched": 0, "asleep": 0, "beyond_limit": 0}
        self._errors = 0
        self._error: str | None = None
        self._looked_at: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerwire-nets", daemon=True)

    # ---- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Take a first look, then go on in a thread of its own."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """End all agents; within a second where none hangs."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        for inode in tuple(self._watched):
            self._leave(inode)

    # ---- what others may ask ------------------------------------------------------------------

    def networks(self) -> tuple[NetworkView, ...] | None:
        """Return every namespace with clients; None before the first look is done."""
        if self._looked_at is None:
            return None
        views = []
        for pod, inode, agent in self._views:
            snapshot = agent.snapshot()
            if snapshot is not None:
                views.append(
                    NetworkView(
                        network=str(inode),
                        namespace=pod.namespace,
                        pod=pod.shown,
                        pod_uid=pod.uid,
                        snapshot=snapshot,
                    )
                )
        return tuple(views)

    def is_healthy(self) -> bool:
        """Whether new namespaces are still looked for."""
        if self._looked_at is None:
            return True
        late = self._clock() - self._looked_at > _LATE_LOOKS * self._settings.networks.interval
        return self._thread.is_alive() and not late

    def readings(self) -> list[tuple[str, tuple[str, ...], float]]:
        """Return how many namespaces there are, for the exposition."""
        return [
            *(
                ("brokerwire_networks", (state,), float(count))
                for state, count in self._counts.items()
            ),
            ("brokerwire_network_errors_total", (), float(self._errors)),
            ("brokerwire_hidden_processes", (), float(self._machine.hidden)),
        ]

    # ---- a look -------------------------------------------------------------------------------

    def look(self) -> None:
        """Find what is new, let go of what is gone, and wake where there are clients now."""
        there = self._machine.look()
        for inode in self._watched.keys() - there.keys():
            self._leave(inode)
        beyond = 0
        for inode, network in there.items():
            try:
                beyond += not self._tend(inode, network)
            except SourceError as error:
                self._fail(error)
                self._leave(inode)
        self._views = tuple(
            (each.pod, inode, each.agent)
            for inode, each in self._watched.items()
            if each.agent is not None
        )
        self._counts = {
            "watched": len(self._views),
            "asleep": len(self._watched) - len(self._views) - beyond,
            "beyond_limit": beyond,
        }
        self._looked_at = self._clock()

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.networks.interval):
            try:
                self.look()
            except Exception:
                # A bug must show, in the log and in a health check, and not end the thread.
                log.exception("bug in a look at the networks")

    def _tend(self, inode: int, network: Network) -> bool:
        """Look after one namespace; False where it has clients and there is no room for it."""
        watched = self._watched.get(inode)
        if watched is None:
            watched = self._watched[inode] = self._enter(network)
        if not watched.pod.name:
            watched.pod = self._pods.pod_of(network.pids)
        if watched.agent is not None:
            if watched.agent.is_healthy():
                return True
            # Entered again at the next look.
            self._leave(inode)
            return True
        if watched.table is None:
            raise AssertionError("neither asleep nor awake")
        if not _has_clients(watched.table.read()):
            return True
        if sum(each.agent is not None for each in self._watched.values()) >= (
            self._settings.networks.max_networks
        ):
            return False
        self._wake(inode, watched)
        return True

    def _enter(self, network: Network) -> _Watched:
        handle = self._machine.open(network)

        def open_socket(groups: int = 0) -> DiagSocket:
            # Also where a socket broke and is opened again, by whatever thread.
            return do_inside(handle, lambda: open_diag_socket(groups))

        try:
            table = NetlinkSocketTable(self._ports, clock=self._clock, open_socket=open_socket)
        except SourceError:
            os.close(handle)
            raise
        return _Watched(handle=handle, table=table)

    def _wake(self, inode: int, watched: _Watched) -> None:
        """Start the agent before the sleeper's ears are closed: what ends meanwhile is heard."""
        watched.agent = do_inside(watched.handle, lambda: self._started(inode))
        if watched.table is not None:
            watched.table.close()
            watched.table = None
        log.info(
            "Kafka clients found in a network namespace",
            extra={"network": inode, "namespace": watched.pod.namespace, "pod": watched.pod.shown},
        )

    def _started(self, inode: int) -> Agent:
        agent = Agent(
            self._settings,
            self._thresholds,
            clock=self._clock,
            pids=lambda: self._machine.pids_in(inode),
        )
        agent.start()
        return agent

    def _leave(self, inode: int) -> None:
        """Let go of a namespace: nothing of ours keeps it alive."""
        watched = self._watched.pop(inode, None)
        if watched is None:
            return
        if watched.agent is not None:
            watched.agent.stop()
        if watched.table is not None:
            watched.table.close()
        os.close(watched.handle)

    def _fail(self, error: SourceError) -> None:
        self._errors += 1
        if str(error) != self._error:
            log.warning("cannot watch a network namespace", extra={"error": str(error)})
        self._error = str(error)


def _has_clients(reading: KernelReading) -> bool:
    """Whether somebody is or was connected to a broker's port since the last look.

    The end of an attempt that was refused does not tell its port: it may be anybody's.
    """
    return bool(reading.sockets) or any(closed.remote.port for closed in reading.closed)
