"""Broker names and addresses, and the ports to watch.

Everything that takes its time (name servers, a metadata call, a look at the whole socket table)
happens in threads or rarely, and the last good answer stays.
"""

from __future__ import annotations

__all__ = ["Surroundings"]

import ipaddress
import logging
import threading
from typing import TYPE_CHECKING

from exporter.brokers.metadata import brokers_by_metadata
from exporter.config.settings import PortRange
from exporter.errors import SourceError
from exporter.http.names import Resolver
from exporter.model import Endpoint
from exporter.snapshot import SourceStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from exporter.brokers.directory import Directory
    from exporter.config.settings import KnownBroker, MetadataCallSettings, Settings

log = logging.getLogger("brokerwire.sources")

METADATA_SOURCE = "broker metadata"

# Name servers answer within milliseconds; dead names of one client must not hold up another's.
CLIENT_NAME_SECONDS = 1.0
# A sender who invents names leaves room for those of others.
NAMES_OF_ONE_SENDER = 250


class Surroundings:
    """Knows names, brokers and ports, and updates the directory when they change."""

    def __init__(self, settings: Settings, wall_clock: Callable[[], float]) -> None:
        self._known = settings.brokers.known
        self.ports = settings.brokers.ports
        """Every port to watch: the listed ones, and those of known brokers and of processes."""
        self.add_ports(broker.port for broker in self._known)
        self._resolver = Resolver(
            [broker.host for broker in self._known],
            interval_seconds=settings.brokers.resolve_interval,
        )
        # Apart: what clients invent cannot delay the names that the operator gave.
        self._client_names = Resolver(
            interval_seconds=settings.brokers.resolve_interval,
            timeout_seconds=CLIENT_NAME_SECONDS,
            most_of_one=NAMES_OF_ONE_SENDER,
        )
        self._resolved: Mapping[str, frozenset[str]] = {}
        self._given: Mapping[str, frozenset[str]] = {}
        self._told: dict[str, Mapping[int, frozenset[Endpoint]]] = {}
        metadata = settings.brokers.metadata
        self._asker = None if metadata is None else _MetadataAsker(metadata, wall_clock)

    def start(self) -> None:
        """Start the threads."""
        self._resolver.start()
        self._client_names.start()
        if self._asker is not None:
            self._asker.start()

    def stop(self) -> None:
        """End the threads; one that waits for an answer is left to its deadline."""
        self._resolver.stop()
        self._client_names.stop()
        if self._asker is not None:
            self._asker.stop()

    def add_ports(self, ports: Iterable[int]) -> None:
        """Watch these ports too."""
        new = [port for port in sorted(set(ports)) if not any(port in each for each in self.ports)]
        if new:
            self.ports += tuple(PortRange(port, port) for port in new)

    def addresses_of(self, host: str, asker: Hashable) -> frozenset[str]:
        """Return the addresses of a name that a client gave; `asker` is whose statistics they are.

        Empty while it is not resolved, which says nothing.
        """
        if host in self._resolved:
            return self._resolved[host]
        self._client_names.ask(host, asker)
        return self._given.get(host, frozenset())

    @property
    def client_names(self) -> frozenset[str]:
        """The names that are looked up because clients gave them."""
        return frozenset(self._client_names.answers())

    def tell(self, directory: Directory) -> None:
        """Return the directory what configuration and metadata say now, where that has changed."""
        self._resolved = self._resolver.addresses()
        self._given = self._client_names.addresses()
        self._tell(directory, "configuration", self._known)
        if self._asker is not None and self._asker.brokers:
            self.add_ports(broker.port for broker in self._asker.brokers)
            self._tell(directory, METADATA_SOURCE, self._asker.brokers)

    def statuses(self) -> tuple[SourceStatus, ...]:
        """Return how the metadata call is doing, where there is one."""
        return () if self._asker is None else (self._asker.status(),)

    def _tell(self, directory: Directory, name: str, brokers: Iterable[KnownBroker]) -> None:
        places = {
            broker.id: frozenset(
                Endpoint(address, broker.port) for address in self._addresses_of_known(broker.host)
            )
            for broker in brokers
        }
        if places and places != self._told.get(name):
            self._told[name] = places
            directory.set_known(name, places)

    def _addresses_of_known(self, host: str) -> frozenset[str]:
        try:
            return frozenset({str(ipaddress.ip_address(host))})
        except ValueError:
            self._resolver.ask(host, METADATA_SOURCE)
            return self._resolved.get(host, frozenset())


class _MetadataAsker:
    """Asks the cluster for its brokers again and again."""

    def __init__(self, settings: MetadataCallSettings, wall_clock: Callable[[], float]) -> None:
        self._settings = settings
        self._wall_clock = wall_clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokerwire-meta", daemon=True)
        self.brokers: tuple[KnownBroker, ...] = ()
        self._reads = 0
        self._errors = 0
        self._error: str | None = None
        self._last_success: float | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def status(self) -> SourceStatus:
        return SourceStatus(
            name=METADATA_SOURCE,
            kind="metadata",
            up=self._error is None and self._reads > 0,
            duration_seconds=None,
            reads=self._reads,
            errors=self._errors,
            error=self._error,
            clients=0,
            last_success_wall_time=self._last_success,
        )

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.brokers = brokers_by_metadata(self._settings)
                self._error = None
                self._last_success = self._wall_clock()
            except SourceError as error:
                if str(error) != self._error:
                    log.warning("no broker list", extra={"error": str(error)})
                self._error = str(error)
                self._errors += 1
            self._reads += 1
            self._stopped.wait(self._settings.interval)
