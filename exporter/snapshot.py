"""One finished poll, as the sinks see it: frozen, so that any thread may format it.

The agent makes one per poll; a sink that holds it while the next one is made sees no change.
"""

from __future__ import annotations

__all__ = [
    "LIFETIME_BUCKETS",
    "BrokerLimits",
    "ClientBroker",
    "ClientLibrary",
    "Expectation",
    "Finding",
    "Histogram",
    "Late",
    "NetworkView",
    "OpenFiles",
    "PollStatus",
    "ProcessClients",
    "Severity",
    "Snapshot",
    "SourceStatus",
    "Timing",
    "Totals",
]

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from exporter.history import History
from exporter.model import UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView

    from exporter.model import (
        ClientThreads,
        ClosedBy,
        Connection,
        ConnectionClass,
        Library,
        OwnerRung,
        ReadMethod,
    )

# Seconds. 0.1 to 1 shows probes; 10 the refused reconnects and backoffs; 300 is Kafka's metadata
# refresh, 540 the Java client's idle limit, 600 the broker's.
LIFETIME_BUCKETS = (0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 540.0, 600.0, 3600.0, 86400.0)


Key = TypeVar("Key")
Value = TypeVar("Value")


class Late(Mapping[Key, Value]):
    """A mapping that is made when somebody asks: most snapshots are read by nobody."""

    def __init__(self, make: Callable[[], Mapping[Key, Value]]) -> None:
        self._make = make
        self._made: Mapping[Key, Value] | None = None

    def _all(self) -> Mapping[Key, Value]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, key: Key) -> Value:
        return self._all()[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def keys(self) -> KeysView[Key]:
        """Return the keys of what was made."""
        return self._all().keys()

    def values(self) -> ValuesView[Value]:
        """Return the values of what was made."""
        return self._all().values()

    def items(self) -> ItemsView[Key, Value]:
        """Return the items of what was made."""
        return self._all().items()


class ClientBroker(NamedTuple):
    """The labels of a client's series: whose connections, and to which broker.

    `client_id` is "" where it is unknown, or `#` and the number that the agent gave to the client
    within its process; `broker_id` is "" where it is unknown. `process` is the owner's name and
    `broker` the remote `ip:port`. Beyond the limit of clients all but `broker*` are "other".
    """

    client_id: str
    client_kind: str
    process: str
    broker_id: str
    broker: str

    @classmethod
    def of(cls, connection: Connection) -> ClientBroker:
        """Return the labels of one connection's client, before any folding."""
        return cls(
            connection.client_id or "",
            connection.client_kind,
            connection.owner.name,
            "" if connection.broker_id is None else str(connection.broker_id),
            connection.broker,
        )


class Timing(NamedTuple):
    """The times of one client's connections to one broker, in seconds; None where none is known."""

    longest_idle: float
    round_trip: float | None
    """Of the connection that was used last: an idle one's is as old as its last byte."""
    unused: int = 0
    """Connections that have carried nothing since the seconds of their opening."""


class ClientLibrary(NamedTuple):
    """A library and, where the client's metrics show it, its version."""

    library: Library
    version: str | None


class OpenFiles(NamedTuple):
    """The descriptors of one process; `limit` is None where it is not known, or there is none."""

    used: int
    limit: int | None

    @property
    def share(self) -> float:
        """How much of the limit is used; 0 without a limit."""
        return self.used / self.limit if self.limit else 0.0


class ProcessClients(NamedTuple):
    """How many clients a process runs, by the names of its threads.

    `is_told_apart`: whether the kernel shows which connections are one client; None where that is
    no question, as for librdkafka.
    """

    process: str
    pid: int | None
    threads: ClientThreads
    is_told_apart: bool | None


class BrokerLimits(NamedTuple):
    """How many connections each broker takes, as the operator knows it; None: not known."""

    max_connections: int | None = None
    max_connections_per_ip: int | None = None


class Severity(StrEnum):
    """How soon somebody should look (the values of the label `severity`)."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Expectation:
    """How many connections one client should hold to one broker, and by which rules."""

    count: int
    rules: tuple[tuple[str, str], ...]
    """(rule id, reason) for each connection that is expected."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations at or below each of LIFETIME_BUCKETS (not cumulated), those above last."""

    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that somebody should change: what, whose, why, and how.

    `name` is the alert's name and `labels` its labels, so that a finding and an alert are one.
    """

    name: str
    severity: Severity
    labels: Mapping[str, str]
    summary: str
    description: str
    remedy: str
    value: float
    cookies: tuple[int, ...] = ()
    begun_at: float | None = None
    """Since when it has been so (as `Snapshot.at`), where it was not reported at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """How one source is doing. `error` is the last failure in words, None while it is up.

    `dropped` are reads that were good and came faster than the poll could take them.
    `found_by` says why it is read where it is not configured.
    """

    name: str
    kind: str
    up: bool
    duration_seconds: float | None
    reads: int
    errors: int
    error: str | None
    clients: int
    last_success_wall_time: float | None
    dropped: int = 0
    found_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollStatus:
    """What the agent itself did: figures since its start unless said otherwise.

    `duration_seconds` is the last poll's. `owner_rungs` counts today's connections by the rung
    that found their owner; `capabilities` names what was open to the agent, for the page.
    `groups_available`: the client groups of some process can be read; `grouped_connections` are
    those whose client they show.
    """

    polls: int
    failed_polls: int
    duration_seconds: float
    method: ReadMethod
    events_available: bool
    events_lost: int
    owner_rungs: Mapping[OwnerRung, int]
    unattributed_closed: int
    capabilities: tuple[str, ...]
    folded_clients: int
    groups_available: bool = False
    grouped_connections: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counters since the agent's start; they only grow."""

    connection_seconds: Mapping[tuple[ClientBroker, ConnectionClass], float] = field(
        default_factory=dict
    )
    useful_seconds: Mapping[ClientBroker, float] = field(default_factory=dict)
    opened: Mapping[ClientBroker, int] = field(default_factory=dict)
    closed: Mapping[tuple[ClientBroker, ClosedBy], int] = field(default_factory=dict)
    lifetimes: Mapping[ClientBroker, Histogram] = field(default_factory=dict)
    outgoing_bytes: Mapping[ClientBroker, int] = field(default_factory=dict)
    incoming_bytes: Mapping[ClientBroker, int] = field(default_factory=dict)
    retransmits: Mapping[ClientBroker, int] = field(default_factory=dict)
    connect_failures: Mapping[ClientBroker, int] = field(default_factory=dict)
    probes: Mapping[str, int] = field(default_factory=dict)
    """Short connections without a Kafka conversation that no client owns, by broker `ip:port`."""

    def known_seconds(self) -> dict[ClientBroker, float]:
        """Return the connection-seconds that efficiency is a share of.

        What is unknown is neither useful nor waste: a client of which nothing is known is absent.
        """
        known: dict[ClientBroker, float] = {}
        for (pair, connection_class), seconds in self.connection_seconds.items():
            if connection_class not in UNDECIDED and seconds > 0:
                known[pair] = known.get(pair, 0.0) + seconds
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All connections at one moment with their classes, and what has added up so far.

    `counts` has every client and broker of the last polls with every class, zeros included.
    `open_files` is by process name, of processes of one name the one nearest to its limit; a
    process whose descriptors cannot be seen is not there.
    """

    at: float
    wall_time: float
    interval_seconds: float
    connections: Sequence[Connection]
    counts: Mapping[ClientBroker, Mapping[ConnectionClass, int]]
    expected: Mapping[ClientBroker, Expectation]
    timings: Mapping[ClientBroker, Timing]
    totals: Totals
    findings: tuple[Finding, ...]
    sources: tuple[SourceStatus, ...]
    poll: PollStatus
    libraries: Mapping[ClientBroker, frozenset[ClientLibrary]] = field(default_factory=dict)
    """What is known of the libraries behind a client's connections; usually it is one."""
    open_files: Mapping[str, OpenFiles] = field(default_factory=dict)
    broker_limits: BrokerLimits = field(default_factory=BrokerLimits)
    process_clients: tuple[ProcessClients, ...] = ()
    history: History = field(default_factory=History)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkView:
    """One network namespace of a machine, and its snapshot: for an agent that watches many.

    `network` is the namespace's inode as `lsns` shows it. `namespace` is Kubernetes' and empty
    where it is not known; `pod` is then the pod's uid, or the first digits of a container's id.
    """

    network: str
    namespace: str
    pod: str
    pod_uid: str
    snapshot: Snapshot

    @property
    def labels(self) -> dict[str, str]:
        """What its series and its alerts have; an empty label is none at all to Prometheus."""
        named = {"network": self.network, "namespace": self.namespace, "pod": self.pod}
        return {name: value for name, value in named.items() if value}
