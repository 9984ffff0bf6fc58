"""The names that exporters give to the same Java metrics: each dialect is data.

Every dialect is made of templates of metric names and the names of its labels. Where two dialects
share a metric name, the labels decide; a row that lacks a dialect's labels is not of that dialect.

Spellings that go through every dialect: the Prometheus Java client 1.x takes `_total` and `_info`
off the names of metrics that are not typed as such, 0.x kept them; so each is listed twice.
"""

from __future__ import annotations

__all__ = ["DIALECTS", "MEANINGS", "PREFIX", "Dialect", "Meaning"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from exporter.clients.java_readings import CIPHERS, ClientFigures, NodeFigure
from exporter.model import ClientKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX: Final = "kafka_"

KINDS: Final = {
    "producer": ClientKind.PRODUCER,
    "consumer": ClientKind.CONSUMER,
    "admin_client": ClientKind.ADMIN,
    "connect": ClientKind.CONNECT,
}
NODE_TOTALS: Final = {
    "outgoing_byte": NodeFigure.OUTGOING_BYTES,
    "incoming_byte": NodeFigure.INCOMING_BYTES,
    "request": NodeFigure.REQUESTS,
    "response": NodeFigure.RESPONSES,
}
CLIENT_TOTALS: Final = {
    "connection_creation": ClientFigures.CONNECTIONS_CREATED,
    "connection_close": ClientFigures.CONNECTIONS_CLOSED,
    "successful_authentication": ClientFigures.AUTHENTICATIONS,
    "successful_reauthentication": ClientFigures.REAUTHENTICATIONS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One spelling. `{kind}` stands for the kind of client, `{figure}` for the figure.

    `version_label` on a row of `version` (on every row, where there is none) holds the library's
    version. `ask_by_name` is the query parameter that reduces a page to the named metrics:
    repeated for each name where it ends in `[]`, else once with commas.
    """

    name: str
    node: str
    client: str
    client_count: tuple[str, ...]
    ciphers: str
    client_labels: tuple[str, ...]
    node_labels: tuple[str, ...]
    version: tuple[str, ...] = ()
    version_label: str | None = None
    instance_label: str | None = None
    ask_by_name: str | None = "name[]"


DIALECTS: Final = (
    # jmx_exporter without rules, or with the catch-all rule, 0.x.
    Dialect(
        name="jmx_exporter",
        node="kafka_{kind}_{kind}_node_metrics_{figure}_total",
        client="kafka_{kind}_{kind}_metrics_{figure}_total",
        client_count=("kafka_{kind}_{kind}_metrics_connection_count",),
        ciphers="kafka_{kind}_{kind}_metrics_connections",
        client_labels=("client_id",),
        node_labels=("node_id",),
        # Confluent's rules and ours; without rules no text is exported.
        version=("kafka_{kind}_app_info",),
        version_label="version",
    ),
    # The same from 1.x on, and Strimzi's metrics reporter, which also reports the version.
    Dialect(
        name="jmx_exporter-1",
        node="kafka_{kind}_{kind}_node_metrics_{figure}",
        client="kafka_{kind}_{kind}_metrics_{figure}",
        client_count=("kafka_{kind}_{kind}_metrics_connection_count",),
        ciphers="kafka_{kind}_{kind}_metrics_connections",
        client_labels=("client_id",),
        node_labels=("node_id",),
        version=("kafka_{kind}_app_info_version_info", "kafka_{kind}_app"),
        version_label="version",
    ),
    # The rules of jmx_exporter's and Strimzi's examples for Kafka Connect: `$2` of
    # `type=(.+)-metrics` is `producer-node`. `lowercaseOutputLabelNames` gives the second labels.
    Dialect(
        name="connect-rules",
        node="kafka_{kind}_node_{figure}_total",
        client="kafka_{kind}_{figure}_total",
        client_count=("kafka_{kind}_connection_count",),
        ciphers="kafka_{kind}_connections",
        client_labels=("clientId", "clientid"),
        node_labels=("nodeId", "nodeid"),
        version=("kafka_{kind}_version_info",),
        version_label="version",
    ),
    Dialect(
        name="connect-rules-1",
        node="kafka_{kind}_node_{figure}",
        client="kafka_{kind}_{figure}",
        client_count=("kafka_{kind}_connection_count",),
        ciphers="kafka_{kind}_connections",
        client_labels=("clientId", "clientid"),
        node_labels=("nodeId", "nodeid"),
        version=("kafka_{kind}_version",),
        version_label="version",
    ),
    # Micrometer's KafkaMetrics made a counter of whatever ends in `total` or `count`, so the gauge
    # of open connections was called `_count_total`; its value is still the gauge's. 1.14 does not.
    # Spring names the factory's bean, which distinguishes clients of one client id.
    Dialect(
        name="micrometer",
        node="kafka_{kind}_node_{figure}_total",
        client="kafka_{kind}_{figure}_total",
        client_count=("kafka_{kind}_connection_count_total", "kafka_{kind}_connection_count"),
        ciphers="kafka_{kind}_connections",
        client_labels=("client_id",),
        node_labels=("node_id",),
        version_label="kafka_version",
        instance_label="spring_id",
        ask_by_name="includedNames",
    ),
    # From 1.14 on it goes by the type of the measurement instead, and kafka-clients 2.1 has no
    # such types: gauges all, without `_total`.
    Dialect(
        name="micrometer-gauges",
        node="kafka_{kind}_node_{figure}",
        client="kafka_{kind}_{figure}",
        client_count=("kafka_{kind}_connection_count",),
        ciphers="kafka_{kind}_connections",
        client_labels=("client_id",),
        node_labels=("node_id",),
        version_label="kafka_version",
        instance_label="spring_id",
        ask_by_name="includedNames",
    ),
    # The OpenTelemetry Java agent's metrics reporter leaves the group out of the name, and drops
    # the client's own total where there is one for each node.
    Dialect(
        name="opentelemetry",
        node="kafka_{kind}_{figure}_total",
        client="kafka_{kind}_{figure}_total",
        client_count=("kafka_{kind}_connection_count",),
        ciphers="kafka_{kind}_connections",
        client_labels=("client_id",),
        node_labels=("node_id",),
    ),
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a metric name means in one dialect; `figure` is None for a row with a version."""

    dialect: Dialect
    kind: ClientKind
    figure: NodeFigure | ClientFigures | Literal["ciphers"] | None


def _meanings(dialect: Dialect) -> Iterator[tuple[str, Meaning]]:
    for spelling, kind in KINDS.items():
        for name, node_figure in NODE_TOTALS.items():
            metric = dialect.node.format(kind=spelling, figure=name)
            yield metric, Meaning(dialect, kind, node_figure)
        for name, client_figure in CLIENT_TOTALS.items():
            metric = dialect.client.format(kind=spelling, figure=name)
            yield metric, Meaning(dialect, kind, client_figure)
        for template in dialect.client_count:
            metric = template.format(kind=spelling)
            yield metric, Meaning(dialect, kind, ClientFigures.CONNECTION_COUNT)
        yield dialect.ciphers.format(kind=spelling), Meaning(dialect, kind, CIPHERS)
        for template in dialect.version:
            yield template.format(kind=spelling), Meaning(dialect, kind, None)


def _table() -> Mapping[str, tuple[Meaning, ...]]:
    table: dict[str, tuple[Meaning, ...]] = {}
    for dialect in DIALECTS:
        for name, meaning in _meanings(dialect):
            table[name] = (*table.get(name, ()), meaning)
    return table


MEANINGS: Final = _table()
"""Every metric name of every dialect; where dialects share one, in the order of `DIALECTS`."""
