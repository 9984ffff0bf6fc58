"""Everything that can be configured, with its default: the reference for file, docs and chart.

`exporter.config.files` reads these from YAML; a rule between fields is a ValueError in
`__post_init__`.
Field names are the keys of the file. A float is a duration in seconds, an int whose name ends in
`bytes` a size, and the text below a field is what docs/configuration.md says of it.
A rule's message begins with the `key` that it is about, so that the reader finds the line.
"""

from __future__ import annotations

__all__ = [
    "AlertmanagerSettings",
    "BrokerSettings",
    "ClassSettings",
    "ClientRule",
    "ClientSettings",
    "JavaSourceSettings",
    "JournalFileSettings",
    "JournalKafkaSettings",
    "JournalSettings",
    "KnownBroker",
    "LimitSettings",
    "LogSettings",
    "MetadataCallSettings",
    "NetworkSettings",
    "PollSettings",
    "PortRange",
    "ProcessRule",
    "Settings",
    "SourceSettings",
    "StatisticsSettings",
    "WebSettings",
]

import re
from dataclasses import dataclass, field
from typing import Literal

from exporter.config.alertmanager import AlertmanagerSettings
from exporter.config.credentials import Credentials, check_credentials
from exporter.config.journal import (
    JournalFileSettings,
    JournalKafkaSettings,
    JournalSettings,
)
from exporter.config.networks import NetworkSettings
from exporter.config.secrets import check_client, check_url
from exporter.config.types import (  # noqa: TC001  (read at run time, by `hints_of`)
    BrokerId,
    FileMode,
    Port,
    Size,
    Url,
)

HIGHEST_PORT = 65535
LARGEST_PAGE = 16 * 1024 * 1024
LARGEST_STATISTICS = 4 * 1024 * 1024
SHORTEST_INTERVAL = 0.01
LISTEN_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, order=True)
class PortRange:
    """Ports `first` to `last`, both included; in the file `9092` or `9092-9098`."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last <= HIGHEST_PORT:
            raise ValueError(f"must be a port or a range such as 9092-9098, not {self}")

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and self.first <= port <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def _check_size(key: str, size: int, largest: int) -> None:
    if size > largest:
        raise ValueError(
            f"`{key}` must be {largest // 1024**2}MiB or less: whoever may send that much takes"
            " many times as much of the agent's memory"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PollSettings:
    """How often the socket table is read."""

    interval: float = 1.0
    """Poll interval: how often the socket table is read."""

    def __post_init__(self) -> None:
        if self.interval < SHORTEST_INTERVAL:
            raise ValueError("`interval` must be 10ms or more: each poll looks at all sockets")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBroker:
    """A static broker; a `host` that is a name is resolved every `resolve_interval`."""

    id: BrokerId
    """The broker's id (`node.id`)."""
    host: str
    """Its advertised name or address."""
    port: Port
    """Its advertised port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCallSettings:
    """One AdminClient call for the list of brokers, on a connection that is closed at once."""

    bootstrap_servers: str
    """Where to ask, as in a client: `broker-1:9092,broker-2:9092`."""
    interval: float = 600.0
    """Interval between calls."""
    timeout: float = 10.0
    """Timeout of the call."""
    client: dict[str, str] = field(default_factory=dict)
    """Settings of librdkafka for that call; a value `file:/path` is read from that file."""

    def __post_init__(self) -> None:
        check_client(self.client)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Which remote ports are brokers', and which brokers are known."""

    # 9092 to 9098 are Kafka's, Strimzi's and MSK's listeners; 19092 and 29092 those of the usual
    # compose files.
    ports: tuple[PortRange, ...] = (
        PortRange(9091, 9098),
        PortRange(19092, 19092),
        PortRange(29092, 29092),
    )
    """Remote ports that brokers listen on: a port or a range such as 9092-9098."""
    known: tuple[KnownBroker, ...] = ()
    """Static brokers; the others are learned from the clients' metrics."""
    resolve_interval: float = 30.0
    """How often broker names are resolved."""
    max_connections: int | None = None
    """The brokers' `max.connections`, for metrics and alerts on the headroom."""
    max_connections_per_ip: int | None = None
    """The brokers' `max.connections.per.ip`, for metrics and alerts on the headroom."""
    metadata: MetadataCallSettings | None = None
    """Ask the brokers themselves for their list; off unless this section is there."""

    def __post_init__(self) -> None:
        if not self.ports:
            raise ValueError("`ports` must name at least one port")
        ids = [broker.id for broker in self.known]
        doubled = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if doubled:
            raise ValueError(f"`known` has broker id {doubled[0]} more than once")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRule:
    """Which processes are Kafka clients: regular expressions, both must match where both stand.

    `any_port` reads all their TCP connections, not only those to `brokers.ports`.
    """

    name: str | None = None
    """Regular expression that must match somewhere in the process name."""
    command: str | None = None
    """Regular expression that must match somewhere in the command line."""
    any_port: bool = False
    """Read all TCP connections of these processes, not only those to `brokers.ports`."""

    def __post_init__(self) -> None:
        if self.name is None and self.command is None:
            raise ValueError("needs `name` or `command`")
        for key in ("name", "command"):
            try:
                re.compile(getattr(self, key) or "")
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"`{key}` must be a regular expression: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRule:
    """What the operator knows of clients; `client_id` and `process` are shell patterns.

    `connections_max_idle` is the client's idle limit in seconds, 0 for `off`, None where unknown.
    `instances` is how many clients a process should have: later ones are excess.
    """

    client_id: str = "*"
    """Shell pattern of the client ids to which this rule applies."""
    process: str = "*"
    """Shell pattern of the process or container names to which this rule applies."""
    connections_max_idle: float | None = None
    """The client's `connections.max.idle.ms`; `off` where it is -1."""
    instances: int | None = None
    """How many clients one process should have; later ones are excess."""
    connections_per_broker: int | None = None
    """How many connections one client needs to a broker, if the library's rule is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Which processes are clients, and what is known of them. Default: all that use brokers."""

    processes: tuple[ProcessRule, ...] = ()
    """Which processes are Kafka clients; empty: every process that connects to a broker."""
    rules: tuple[ClientRule, ...] = ()
    """Rules about clients; the first that matches applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaSourceSettings(Credentials):
    """One page of a Java client's metrics. Secrets come from files, never from this file."""

    name: str
    """Name of this source, the value of the label `source`."""
    url: Url
    """The page: http or https, without user or password."""
    format: Literal["auto", "prometheus", "jolokia"] = "auto"
    """Format of the page; `auto` detects it from the response."""
    interval: float = 10.0
    """Interval between reads; a read costs the client's JVM about 20 ms."""
    timeout: float = 2.0
    """Total timeout of a read."""
    max_bytes: Size = 2 * 1024 * 1024
    """A larger answer is refused; 16MiB at most. Reading may take 20 times as much memory."""

    def __post_init__(self) -> None:
        check_credentials(self)
        check_url(self.url)
        _check_size("max_bytes", self.max_bytes, LARGEST_PAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsSettings:
    """How librdkafka's statistics reach the agent."""

    http: bool = True
    """Accept `POST /api/v1/statistics` from this host (or with authentication)."""
    unix_socket: str | None = None
    """Path of a Unix socket that accepts statistics; off unless it is named."""
    unix_socket_mode: FileMode = 0o660
    """Who may send: 0660 the agent's uid and group, 0666 everyone who can reach the path."""
    files: tuple[str, ...] = ()
    """Files that clients write their statistics to; shell patterns are allowed."""
    max_bytes: Size = 2 * 1024 * 1024
    """A larger document is refused; 4MiB at most. 1,000 partitions make a document of 1 MiB."""
    stale_after: float = 60.0
    """A client that has sent nothing for this long expires."""

    def __post_init__(self) -> None:
        _check_size("max_bytes", self.max_bytes, LARGEST_STATISTICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where the clients' own metrics come from."""

    java: tuple[JavaSourceSettings, ...] = ()
    """Metrics pages of Java clients."""
    discover: bool = True
    """Read the page that a JVM's `-javaagent` option declares; off where `java` lists pages."""
    pod_annotations: str | None = None
    """Folder with the files `port`, `path`, `scheme` and `scrape`, the pod's annotations
    `prometheus.io/...` by the downward API: that page is read, unless a process declares one. Off
    without `discover`."""
    librdkafka: StatisticsSettings = StatisticsSettings()

    def __post_init__(self) -> None:
        names = [source.name for source in self.java]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"`java` has the name {doubled[0]!r} more than once")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSettings:
    """The classifier's times."""

    # Java closes after 9 minutes; one more for a poll that comes late (KAFKA_CLIENTS, S4).
    zombie_after: float = 600.0
    """A superseded connection older than this has outlived idle closing: zombie."""
    # A client is done with its first requests within a second, slow TLS and metadata within ten.
    settle_after: float = 10.0
    """A connection younger than this may still be starting up."""
    # Connecting longer than Linux needs for two SYN retries does not get through.
    connecting_after: float = 3.0
    """A connection attempt longer than this is reported."""
    # Health checks time out within ten seconds (Kubernetes: one by default).
    probe_within: float = 10.0
    """A connection without Kafka traffic that closes within this time is a probe."""
    # Three reads of a client's metrics at their default interval.
    excess_after: float = 30.0
    """A client beyond the allowed number is excess once it has existed this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """What keeps the agent small whatever the clients do; the rest is summed as `other`."""

    clients: int = 200
    """Clients with their own series; the rest is summed as `other`."""
    series: int = 10_000
    """Series per scrape; the rest is summed as `other`."""
    label_bytes: Size = 128
    """Longer label values are truncated."""
    # 6 KiB each: with the worst input beside them within the chart's limit (bench.worst_input).
    connections: int = 10_000
    """Maximum number of tracked connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """What the agent serves. `config_file` is the exporter-toolkit's web config file."""

    listen_addresses: tuple[str, ...] = (":10920",)
    """Addresses to listen on, as `host:port`, `[ipv6]:port` or `:port` for all."""
    hosts: tuple[str, ...] = ()
    """Public host names of the agent, besides addresses, private names and its own."""
    telemetry_path: str = "/metrics"
    """Path of the metrics."""
    config_file: str | None = None
    """A web config file of the Prometheus exporter-toolkit: TLS and users."""
    max_connections: int = 64
    """Maximum number of concurrent HTTP connections; more are rejected."""

    def __post_init__(self) -> None:
        if not self.listen_addresses:
            raise ValueError("`listen_addresses` must name at least one address")
        for address in self.listen_addresses:
            match = LISTEN_ADDRESS.fullmatch(address)
            if match is None or int(match[1]) > HIGHEST_PORT:
                raise ValueError(
                    "`listen_addresses` must be written as host:port, [ipv6]:port or :port,"
                    f" not {address!r}"
                )
        if not re.fullmatch(r"/[A-Za-z0-9._~/-]+", self.telemetry_path):
            raise ValueError(
                f"`telemetry_path` must be a path such as /metrics, not {self.telemetry_path!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How the agent logs."""

    level: Literal["debug", "info", "warn", "error"] = "info"
    """Minimum level of the lines that are written."""
    format: Literal["logfmt", "json"] = "logfmt"
    """Format of a line; one event is always one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole configuration; the defaults work with no file at all."""

    poll: PollSettings = PollSettings()
    networks: NetworkSettings = NetworkSettings()  # noqa: RUF009 - frozen
    brokers: BrokerSettings = BrokerSettings()
    clients: ClientSettings = ClientSettings()
    sources: SourceSettings = SourceSettings()
    classes: ClassSettings = ClassSettings()
    limits: LimitSettings = LimitSettings()
    web: WebSettings = WebSettings()
    alertmanager: AlertmanagerSettings | None = None
    """Post alerts to Alertmanagers; off unless this section is there."""
    journal: JournalSettings | None = None
    """Write a journal for the rollups; off unless this section is there."""
    log: LogSettings = LogSettings()

    def __post_init__(self) -> None:
        if self.journal is not None and self.journal.interval < self.poll.interval:
            raise ValueError("`journal` must not have an interval shorter than poll.interval")
        if self.networks.follow == "all":
            self._check_for_all_networks()

    def _check_for_all_networks(self) -> None:
        """Refuse what knows one network only: silence would look like a client without waste."""
        if self.journal is not None:
            raise ValueError(
                "`journal` cannot be used with networks.follow: all: a node does not know which"
                " service a pod is of, and the fleet's tables are about services"
            )
        pushed = self.sources.librdkafka
        if pushed.unix_socket is not None or pushed.files:
            raise ValueError(
                "`sources` must not have librdkafka's unix_socket or files with networks.follow:"
                " all: their network would be unknown"
            )
        if any(rule.any_port for rule in self.clients.processes):
            raise ValueError("`clients` must not have any_port with networks.follow: all")
