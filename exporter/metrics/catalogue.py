"""Every metric of brokerwire, written once: exposition, documentation and rules read it here."""

from __future__ import annotations

__all__ = ["CATALOGUE", "CLIENT", "CLIENT_BROKER", "SPECS", "Kind", "MetricSpec"]

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of OpenMetrics that are used here, by their names there."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric.

    `by` is the last label where one owner of the other labels has several series.
    A metric that `expires` is about clients: it is dropped, not frozen, once the snapshot is too
    old. The agent's own metrics stay.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    by: str = ""
    unit: str = ""
    expires: bool = False

    @property
    def family(self) -> str:
        """OpenMetrics names a family without the suffix of its samples."""
        if self.kind is Kind.COUNTER:
            return self.name.removesuffix("_total")
        return self.name.removesuffix("_info") if self.kind is Kind.INFO else self.name

    @property
    def declared_unit(self) -> str:
        """The unit for a UNIT line, which must be the suffix of the family's name."""
        return self.unit if self.unit and self.family.endswith(f"_{self.unit}") else ""


CLIENT = ("client_id", "client_kind", "process")
CLIENT_BROKER = (*CLIENT, "broker_id", "broker")
BROKER = ("broker",)
_SOURCE = ("source", "kind")


def _of_clients(
    name: str, kind: Kind, text: str, *, by: str = "", unit: str = "", of: tuple[str, ...] = ()
) -> MetricSpec:
    labels = of or CLIENT_BROKER
    return MetricSpec(
        name=f"kafka_client_{name}",
        kind=kind,
        help=text,
        labels=(*labels, by) if by else labels,
        by=by,
        unit=unit,
        expires=True,
    )


def _of_agent(
    name: str, kind: Kind, text: str, *, labels: tuple[str, ...] = (), unit: str = ""
) -> MetricSpec:
    return MetricSpec(name=f"brokerwire_{name}", kind=kind, help=text, labels=labels, unit=unit)


_CLIENTS = (
    _of_clients(
        "connections",
        Kind.GAUGE,
        "TCP connections that a client holds to a broker now, by class; 0 for a class that it had.",
        by="class",
    ),
    _of_clients(
        "connections_expected",
        Kind.GAUGE,
        "Connections that this client needs to this broker, by the rules of its library; for a"
        " minute also to a broker that ended them.",
    ),
    _of_clients(
        "connections_unused",
        Kind.GAUGE,
        "Connections that have carried nothing since the seconds of their opening, of any class;"
        " without those whose opening was not seen and whose counters do not prove it.",
    ),
    _of_clients(
        "connection_seconds_total",
        Kind.COUNTER,
        "Seconds that connections were open, by class: the integral of kafka_client_connections.",
        by="class",
        of=CLIENT,
        unit="seconds",
    ),
    _of_clients(
        "connection_useful_seconds_total",
        Kind.COUNTER,
        "Seconds of useful connections, where that is known. Its rate over that of"
        " connection_seconds is efficiency.",
        unit="seconds",
        of=CLIENT,
    ),
    _of_clients(
        "connection_efficiency_ratio",
        Kind.GAUGE,
        "Useful seconds over all connection seconds since the agent's start; 1 is no waste.",
        unit="ratio",
        of=CLIENT,
    ),
    _of_clients(
        "connections_opened_total", Kind.COUNTER, "Connections opened since the agent's start."
    ),
    _of_clients(
        "connections_closed_total",
        Kind.COUNTER,
        "Connections closed since the agent's start, by the side that ended them; 0 from the first"
        " for broker and abort.",
        by="closed_by",
    ),
    _of_clients(
        "connection_lifetime_seconds",
        Kind.HISTOGRAM,
        "Lifetime of closed connections.",
        unit="seconds",
        of=CLIENT,
    ),
    _of_clients(
        "sent_bytes_total",
        Kind.COUNTER,
        "Bytes that the clients handed to the kernel for a broker, TLS included.",
        unit="bytes",
        of=BROKER,
    ),
    _of_clients(
        "received_bytes_total",
        Kind.COUNTER,
        "Bytes that the clients took from the kernel, TLS included.",
        unit="bytes",
        of=BROKER,
    ),
    _of_clients(
        "connection_idle_seconds_max",
        Kind.GAUGE,
        "Time since the last byte in either direction, of the connection that is idle longest.",
        unit="seconds",
        of=CLIENT,
    ),
    _of_clients(
        "connection_rtt_seconds",
        Kind.GAUGE,
        "The kernel's smoothed round trip: of each client the connection that was used last, of all"
        " clients the slowest.",
        unit="seconds",
        of=BROKER,
    ),
    _of_clients(
        "retransmits_total",
        Kind.COUNTER,
        "Segments retransmitted by the clients' side (tcp_info).",
        of=BROKER,
    ),
    _of_clients(
        "connect_failures_total",
        Kind.COUNTER,
        "Connection attempts that failed; by client in closed_by refused.",
        of=BROKER,
    ),
    _of_clients(
        "info",
        Kind.INFO,
        "Library of a client whose id or number is known, and its version where its metrics show"
        " one; always 1.",
        of=(*CLIENT, "library", "version"),
    ),
    _of_clients(
        "probes_total",
        Kind.COUNTER,
        "Short connections without a Kafka conversation that no client owns: health checks.",
        of=("broker",),
    ),
    _of_clients(
        "process_open_fds",
        Kind.GAUGE,
        "Open descriptors of a process that holds connections; of several processes of one name,"
        " those of the one that is nearest to its limit.",
        of=("process",),
    ),
    _of_clients(
        "process_max_fds",
        Kind.GAUGE,
        "The soft limit of open descriptors of that same process.",
        of=("process",),
    ),
    _of_clients(
        "broker_max_connections",
        Kind.GAUGE,
        "The configured brokers.max_connections; absent where it is not set.",
        of=("broker",),
    ),
    _of_clients(
        "broker_max_connections_per_ip",
        Kind.GAUGE,
        "The configured brokers.max_connections_per_ip.",
        of=("broker",),
    ),
    _of_clients(
        "finding_connections",
        Kind.GAUGE,
        "Connections that an open finding is about (of churn: those that came and went), with the"
        " labels of its alert.",
        of=(*CLIENT_BROKER, "cause"),
        by="finding",
    ),
    MetricSpec(
        name="brokerwire_findings",
        kind=Kind.GAUGE,
        help="Open findings: what somebody should change. The name is the alert's.",
        labels=("finding", "severity"),
        expires=True,
    ),
    MetricSpec(
        name="brokerwire_owned_connections",
        kind=Kind.GAUGE,
        help="Connections by owner lookup method, all methods included.",
        labels=("rung",),
        expires=True,
    ),
)

_AGENT = (
    _of_agent(
        "build_info",
        Kind.INFO,
        "Version of brokerwire and of its Python.",
        labels=("version", "python_version"),
    ),
    _of_agent("source_up", Kind.GAUGE, "1 if the source's last read was good.", labels=_SOURCE),
    _of_agent(
        "source_duration_seconds",
        Kind.GAUGE,
        "How long the source's last read took.",
        labels=_SOURCE,
        unit="seconds",
    ),
    _of_agent("source_reads_total", Kind.COUNTER, "Reads of a source.", labels=_SOURCE),
    _of_agent(
        "source_errors_total", Kind.COUNTER, "Reads of a source that failed.", labels=_SOURCE
    ),
    _of_agent(
        "source_dropped_reads_total",
        Kind.COUNTER,
        "Successful reads of a source that were dropped because the poll fell behind.",
        labels=_SOURCE,
    ),
    _of_agent(
        "source_last_success_timestamp_seconds",
        Kind.GAUGE,
        "When the source was last read without an error.",
        labels=_SOURCE,
        unit="seconds",
    ),
    _of_agent("source_clients", Kind.GAUGE, "Clients reported by the source.", labels=_SOURCE),
    _of_agent("polls_total", Kind.COUNTER, "Polls of the socket table."),
    _of_agent("poll_failures_total", Kind.COUNTER, "Polls that could not read the socket table."),
    _of_agent("poll_duration_seconds", Kind.GAUGE, "How long the last poll took.", unit="seconds"),
    _of_agent("poll_interval_seconds", Kind.GAUGE, "Time between two polls.", unit="seconds"),
    _of_agent(
        "last_poll_timestamp_seconds",
        Kind.GAUGE,
        "When the socket table was last read: the time of all kafka_client series.",
        unit="seconds",
    ),
    _of_agent(
        "read_method",
        Kind.GAUGE,
        "1 for the method in use to read the socket table, 0 for the others.",
        labels=("method",),
    ),
    _of_agent("events_available", Kind.GAUGE, "1 if the kernel reports each closed connection."),
    _of_agent("events_lost_total", Kind.COUNTER, "Times that the kernel dropped close events."),
    _of_agent(
        "client_groups_available",
        Kind.GAUGE,
        "1 if client groups (the epoll instances of a JVM) can be read, which takes the uid of the"
        " client's process and a shared pid namespace.",
    ),
    _of_agent(
        "grouped_connections",
        Kind.GAUGE,
        "Connections whose client is known by its client group, with or without metrics.",
    ),
    _of_agent(
        "unattributed_closed_total",
        Kind.COUNTER,
        "Connections that closed before their owner was known.",
    ),
    _of_agent(
        "folded_clients",
        Kind.GAUGE,
        "Clients beyond limits.clients in the last 15 minutes, summed as other.",
    ),
    _of_agent(
        "folded_series",
        Kind.GAUGE,
        "Pairs of client and broker beyond limits.series, summed as other.",
    ),
    _of_agent(
        "http_requests_total",
        Kind.COUNTER,
        "Requests that the agent's server answered.",
        labels=("handler", "code"),
    ),
    _of_agent("http_connections", Kind.GAUGE, "Connections that the agent's server holds."),
    _of_agent(
        "http_rejected_connections_total",
        Kind.COUNTER,
        "Connections that the agent's server rejected or aborted.",
        labels=("reason",),
    ),
    _of_agent(
        "config_last_reload_successful",
        Kind.GAUGE,
        "1 if the last reload succeeded, else 0: the last valid configuration stays in use.",
        labels=("file",),
    ),
    _of_agent(
        "config_last_reload_success_timestamp_seconds",
        Kind.GAUGE,
        "When the configuration in use was loaded.",
        labels=("file",),
        unit="seconds",
    ),
    _of_agent(
        "config_reload_failures_total",
        Kind.COUNTER,
        "Reloads that failed because the file was invalid.",
        labels=("file",),
    ),
    _of_agent(
        "alerts",
        Kind.GAUGE,
        "Alerts that the agent follows for its Alertmanagers; every state always.",
        labels=("state",),
    ),
    _of_agent(
        "alerts_sent_total",
        Kind.COUNTER,
        "Alerts that an Alertmanager took, each time they were sent.",
        labels=("alertmanager",),
    ),
    _of_agent(
        "alert_request_failures_total",
        Kind.COUNTER,
        "Requests that an Alertmanager did not take; they are tried again.",
        labels=("alertmanager",),
    ),
    _of_agent(
        "alerts_dropped_total",
        Kind.COUNTER,
        "Alerts that were not sent to an Alertmanager: alertmanager.max_alerts was reached.",
        labels=("alertmanager",),
    ),
    _of_agent(
        "alerts_queued",
        Kind.GAUGE,
        "Alerts that wait for an Alertmanager.",
        labels=("alertmanager",),
    ),
    _of_agent(
        "alerts_last_success_timestamp_seconds",
        Kind.GAUGE,
        "When an Alertmanager last took alerts.",
        labels=("alertmanager",),
        unit="seconds",
    ),
    _of_agent(
        "journal_records_total",
        Kind.COUNTER,
        "Records of the journal that are safe: on disk (file, spool) or acknowledged (kafka).",
        labels=("sink",),
    ),
    _of_agent(
        "journal_bytes_total",
        Kind.COUNTER,
        "Bytes of those records, before compression.",
        labels=("sink",),
        unit="bytes",
    ),
    _of_agent(
        "journal_failures_total",
        Kind.COUNTER,
        "Writes and sends of the journal that failed; they are tried again.",
        labels=("sink",),
    ),
    _of_agent(
        "journal_dropped_records_total",
        Kind.COUNTER,
        "Records of the journal that were given up, the oldest first: there was no room to wait.",
        labels=("sink",),
    ),
    _of_agent(
        "journal_last_success_timestamp_seconds",
        Kind.GAUGE,
        "When records of the journal were last made safe.",
        labels=("sink",),
        unit="seconds",
    ),
    _of_agent(
        "journal_spool_bytes",
        Kind.GAUGE,
        "Room that records take on disk which brokers do not have yet.",
        unit="bytes",
    ),
    _of_agent("journal_spool_batches", Kind.GAUGE, "Batches that brokers do not have yet."),
    _of_agent("journal_series", Kind.GAUGE, "Series of the journal, as of its last batch."),
    _of_agent(
        "own_broker_connections",
        Kind.GAUGE,
        "Connections to brokers that the agent itself holds, for its journal. No client has them.",
    ),
    _of_agent(
        "own_broker_connections_opened_total",
        Kind.COUNTER,
        "Connections to brokers that the agent itself began to open, failed attempts included.",
    ),
    _of_agent(
        "networks",
        Kind.GAUGE,
        "Network namespaces of the machine, with networks.follow: all: watched, asleep (no client),"
        " or beyond networks.max_networks.",
        labels=("state",),
    ),
    _of_agent(
        "network_errors_total",
        Kind.COUNTER,
        "Network namespaces that could not be entered or read; the next look tries again.",
    ),
    _of_agent(
        "hidden_processes",
        Kind.GAUGE,
        "Processes whose network namespace may not be seen, with networks.follow: all.",
    ),
    _of_agent(
        "certificate_expiry_timestamp_seconds",
        Kind.GAUGE,
        "When the server's certificate ends.",
        unit="seconds",
    ),
)

# The names and help texts of every Prometheus client library.
_PROCESS = (
    MetricSpec(
        name="process_cpu_seconds_total",
        kind=Kind.COUNTER,
        help="Total user and system CPU time spent in seconds.",
        unit="seconds",
    ),
    MetricSpec(
        name="process_resident_memory_bytes",
        kind=Kind.GAUGE,
        help="Resident memory size in bytes.",
        unit="bytes",
    ),
    MetricSpec(
        name="process_virtual_memory_bytes",
        kind=Kind.GAUGE,
        help="Virtual memory size in bytes.",
        unit="bytes",
    ),
    MetricSpec(
        name="process_start_time_seconds",
        kind=Kind.GAUGE,
        help="Start time of the process since unix epoch in seconds.",
        unit="seconds",
    ),
    MetricSpec(name="process_open_fds", kind=Kind.GAUGE, help="Number of open file descriptors."),
    MetricSpec(
        name="process_max_fds", kind=Kind.GAUGE, help="Maximum number of open file descriptors."
    ),
)

CATALOGUE: tuple[MetricSpec, ...] = (*_CLIENTS, *_AGENT, *_PROCESS)
SPECS: dict[str, MetricSpec] = {spec.name: spec for spec in CATALOGUE}
