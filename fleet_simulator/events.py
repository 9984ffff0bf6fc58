"""What happens in a simulated fleet: connections with a beginning and an end, and who had them.

Both the journals and the truth are made from these values, each in its own way. Times are integer
milliseconds since the epoch; every span is half open, from its begin up to but not with its end.
"""

from __future__ import annotations

__all__ = [
    "BUSY_IDLE_MS",
    "HOUR_MS",
    "MINUTE_MS",
    "WEEK_MS",
    "Boot",
    "Broker",
    "Client",
    "Cluster",
    "Expectation",
    "Failure",
    "Finding",
    "Phase",
    "Pod",
    "Service",
]

from dataclasses import dataclass, field
from typing import NamedTuple

SECOND_MS = 1000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS

# The longest silence of a connection in use: an idle fetch asks twice a second.
BUSY_IDLE_MS = 500


class Broker(NamedTuple):
    """A broker and what it takes; a limit is None where nobody told."""

    broker_id: int
    address: str
    max_connections: int | None
    max_connections_per_ip: int | None


class Cluster(NamedTuple):
    """A Kafka cluster; an address is `ip:port`."""

    name: str
    brokers: tuple[Broker, ...]


class Service(NamedTuple):
    """Some pods of one deployment: they share a library and a way of holding connections."""

    number: int
    site: str
    """The cluster in which its pods run."""
    cluster: Cluster
    namespace: str
    name: str
    behaviour: str
    library: str
    version: str
    first_agent: int
    pods: int


class Client(NamedTuple):
    """One client as the agent names it; None is what it could not learn."""

    process: str | None
    client_id: str | None
    kind: str | None
    library: str | None
    version: str | None


class Boot(NamedTuple):
    """One run of an agent: it sees nothing before `since` and nothing from `until` on."""

    boot_id: str
    since: int
    until: int
    final: bool
    """Whether it ended by SIGTERM or a clock step, with a last record."""
    offset: int = 0
    """What the wall clock shows beyond the true time; the journal has the wall clock's times."""


class Phase(NamedTuple):
    """A stretch of a connection's life in which its class stays the same."""

    client: int
    broker: int
    connection_class: str
    role: str
    cause: str
    """Why it is waste, in the journal's words; empty where it is none, or where nobody tells."""
    begin: int
    end: int
    useful: bool
    """Whether it is one of those that the client needs, and in use."""
    rate_out: int
    """Bytes a second, which go at each whole second of the clock."""
    rate_in: int
    first_out: int
    """Bytes at the very beginning."""
    first_in: int
    quiet_since: int | None
    """Since when nothing has gone over it; None while it is in use."""
    opens: bool
    """Whether the connection was opened at `begin`."""
    born: int
    """When the connection was opened, in this phase or before."""
    closed_by: str
    """Who closed it at `end`; empty where it goes on."""


class Expectation(NamedTuple):
    """So many connections of this class a client needs to this broker, for so long."""

    client: int
    broker: int
    connection_class: str
    begin: int
    end: int
    needed: int


class Failure(NamedTuple):
    """An attempt to connect that did not get through."""

    client: int
    broker: int
    at: int


class Finding(NamedTuple):
    """What the agent found wrong with a client, for so long; `held` connections are concerned."""

    client: int
    broker: int | None
    name: str
    cause: str
    severity: str
    begin: int
    end: int
    held: int


@dataclass(slots=True)
class Pod:
    """One pod with the agent beside it, and everything that happened in it."""

    agent_id: str
    name: str
    node: str
    service: Service
    boots: tuple[Boot, ...]
    clients: list[Client] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
