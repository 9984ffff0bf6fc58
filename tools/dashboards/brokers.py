"""*Brokers*: what the clients hold to each broker, what fails, and how near its limits are."""

from __future__ import annotations

__all__ = ["PAGE"]

from exporter.alerts.words import HELD
from tools.dashboards.layout import Page, Row, in_thirds
from tools.dashboards.limits import of_addresses, of_brokers
from tools.dashboards.links import of_row, of_series
from tools.dashboards.panels import (
    bars,
    coloured,
    dashed,
    limited,
    lines,
    numbers,
    stacked,
    with_unit,
)
from tools.dashboards.queries import (
    LIVE,
    OF_BROKER,
    OF_CLUSTER,
    WASTED_AT_BROKER,
    Query,
    or_none,
    series,
)
from tools.dashboards.tables import Column, table
from tools.dashboards.thresholds import THRESHOLDS, above

_UID = "brokerwire-brokers"
_CLIENTS = "brokerwire-clients"
_ALL = series("kafka_client_connections", OF_BROKER)
_OPEN = series("kafka_client_connections", OF_BROKER, HELD)
_EXPECTED = series("kafka_client_connections_expected", OF_BROKER)
_WASTED = series("kafka_client_connections", OF_BROKER, WASTED_AT_BROKER)
_CONNECTING = series("kafka_client_connections", OF_BROKER, 'class="connecting"')
_STALE = series("kafka_client_connections", OF_BROKER, 'class="stale"')
_FAILED = series("kafka_client_connect_failures_total", OF_BROKER)
_SILENT = series("kafka_client_finding_connections", OF_BROKER, 'finding="KafkaClientFrozenPeer"')
_DROPPED = series(
    "kafka_client_connections_closed_total", OF_BROKER, LIVE, 'closed_by=~"broker|abort"'
)
_OPENED = series("kafka_client_connections_opened_total", OF_BROKER, LIVE)
_PROBES = series("kafka_client_probes_total", OF_BROKER)
_MOST = series("kafka_client_broker_max_connections", OF_CLUSTER)
_OF_ALL = series("kafka_client_connections", OF_CLUSTER, HELD)
_WASTE = above(THRESHOLDS.zombie_connections)
_NEAR = THRESHOLDS.near_limit_percent


def _glance() -> Row:
    normal = numbers(
        "Is this number normal?",
        "Connections that the watched clients have open to the chosen brokers, those that they need"
        " by the rules of their libraries, and those that serve nobody (zombie, excess, stale; half"
        " closed ones and ghosts cost the client alone). What no agent watches is not in here: the"
        " brokers' own count may be higher.",
        Query(f"sum({_OPEN})", "open"),
        Query(f"sum({_EXPECTED})", "expected"),
        Query(or_none(_WASTED, _ALL), "wasted"),
    )
    with_unit(normal, "wasted", "short", _WASTE)
    owners = bars(
        "Who owns these?",
        "The processes with most connections to the chosen brokers, all their replicas together.",
        Query(f"topk(8, sum by (job, process) ({_OPEN}) > 0)", "{{process}} ({{job}})"),
    ).data_links([of_series(_CLIENTS, "job", "process")])
    trouble = bars(
        "What does not get through?",
        "Attempts that are under way now, attempts that failed in five minutes, connections to an"
        " address that is no broker's any more. 0 is good."
        f" KafkaClientBrokerUnreachable fires at {THRESHOLDS.connecting_connections} under way, or"
        f" {THRESHOLDS.failed_connects} failed where nothing else is open.",
        Query(or_none(_CONNECTING, _ALL), "connecting now"),
        Query(f"sum(increase({_FAILED}[5m]))", "failed in 5 minutes"),
        Query(or_none(_STALE, _ALL), "to an old address"),
    ).thresholds(above(1))
    limits = bars(
        "Will I hit a limit?",
        "How much of max.connections all watched clients use together, and how much of"
        " max.connections.per.ip the busiest address. Shown where the agents know the limits:"
        " brokers.max_connections and brokers.max_connections_per_ip in their configuration. The"
        f" alerts fire at {_NEAR} %.",
        of_brokers(),
        of_addresses(),
    )
    limits.unit("percent").max(100).thresholds(above(_NEAR, full=100))
    return Row(
        title="At a glance",
        panels=[each.span(6).height(9) for each in (normal, owners, trouble, limits)],
    )


def _each() -> Row:
    brokers = table(
        "Each broker",
        "One line a broker: what is open and expected, how much of it is waste, how often"
        " connections are opened, and what fails.",
        Column(title="Broker", label="broker", link=of_row(_CLIENTS, "broker")),
        Column(title="Open", query=f"sum by (broker) ({_OPEN})"),
        Column(title="Expected", query=f"sum by (broker) ({_EXPECTED})"),
        Column(title="Wasted", query=or_none(_WASTED, _ALL, by="broker"), colours=_WASTE),
        Column(
            title="Opened a minute",
            unit="cpm",
            query=f"60 * sum by (broker) (rate({_OPENED}[5m]))",
        ),
        Column(
            title="Failed in 5 min",
            query=f"sum by (broker) (increase({_FAILED}[5m]))",
            colours=above(THRESHOLDS.failed_connects),
        ),
        Column(
            title="Dropped in 5 min",
            query=f"sum by (broker) (increase({_DROPPED}[5m]))",
            colours=above(THRESHOLDS.storm_connections),
        ),
        Column(title="Limit", query=f"min by (broker) ({_MOST})"),
        sort="Open",
    )
    by_class = coloured(
        stacked(
            "Connections by class",
            "What the connections to the chosen brokers are for. The dashed line is what the"
            " clients need.",
            Query(f"sum by (class) ({_ALL}) > 0", "{{class}}"),
            Query(f"sum({_EXPECTED})", "expected"),
        )
    )
    return Row(
        title="Each broker",
        panels=[brokers.span(14).height(9), dashed(by_class, "expected").span(10).height(9)],
    )


def _headroom() -> Row:
    held = lines(
        "Connections of all watched clients",
        "What counts against a broker's max.connections, and that limit as the agents know it."
        " Clients of all namespaces count, whatever is chosen above.",
        Query(f"sum by (broker) ({_OF_ALL})", "{{broker}}"),
        Query(f"min by (broker) ({_MOST})", "limit of {{broker}}"),
    )
    used = lines(
        "Used of the limits",
        f"The same in percent, and max.connections.per.ip. The alerts fire at {_NEAR} %. Empty"
        " where the agents do not know the limits.",
        of_brokers(10),
        of_addresses(10),
    )
    return Row(
        title="Headroom",
        panels=[
            held.span(12).height(8),
            limited(used, above(_NEAR)).unit("percent").span(12).height(8),
        ],
    )


def _trouble() -> Row:
    connecting = lines(
        "Connecting and failing",
        "Attempts that are under way, and attempts a minute that never got through. A broker that"
        " is down, a network policy, or an advertised listener that clients cannot reach.",
        Query(f"sum by (broker) ({_CONNECTING})", "under way to {{broker}}"),
        Query(
            f"60 * sum by (broker) (rate({_FAILED}[$__rate_interval]))",
            "failed a minute to {{broker}}",
        ),
    )
    dropped = lines(
        "Dropped in five minutes",
        "Connections that the broker's side ended or that were reset. A restart of a broker costs"
        " each of its connections once; KafkaClientReconnectStorm fires from"
        f" {THRESHOLDS.storm_connections} on, where each was lost {THRESHOLDS.storm_rounds} times.",
        Query(f"sum by (broker) (increase({_DROPPED}[5m]))", "{{broker}}"),
    )
    lost = lines(
        "Old addresses and silence",
        "Connections to an address that is no longer the broker's, and connections on which"
        " requests go out and nothing comes back. Both should be at 0 or absent.",
        Query(or_none(_STALE, _ALL, by="broker"), "old address {{broker}}"),
        Query(f"sum by (broker) ({_SILENT})", "no answer from {{broker}}"),
    )
    return Row(
        title="What goes wrong",
        panels=in_thirds(connecting, limited(dropped, above(THRESHOLDS.storm_connections)), lost),
    )


def _traffic() -> Row:
    sent = series("kafka_client_sent_bytes_total", OF_BROKER)
    received = series("kafka_client_received_bytes_total", OF_BROKER)
    again = series("kafka_client_retransmits_total", OF_BROKER)
    trip = series("kafka_client_connection_rtt_seconds", OF_BROKER)
    volume = lines(
        "Bytes",
        "What the clients send to and receive from each broker, as the kernel counts it: with TLS"
        " and the protocol's own bytes, without IP headers.",
        Query(f"sum by (broker) (rate({sent}[$__rate_interval]))", "to {{broker}}"),
        Query(f"sum by (broker) (rate({received}[$__rate_interval]))", "from {{broker}}"),
    )
    times = lines(
        "Round trip",
        "The kernel's smoothed round trip of the slowest client of each broker. It is the network's"
        " time, not the broker's: a slow answer to a request does not show here.",
        Query(f"max by (broker) ({trip})", "{{broker}}"),
    )
    lost = lines(
        "Sent again, and probes",
        "Segments a minute that the clients' side had to send again, and health checks a minute:"
        " short connections without a Kafka conversation.",
        Query(f"60 * sum by (broker) (rate({again}[$__rate_interval]))", "again to {{broker}}"),
        Query(f"60 * sum by (broker) (rate({_PROBES}[$__rate_interval]))", "probes of {{broker}}"),
    )
    return Row(
        title="Network",
        panels=in_thirds(volume.unit("Bps"), times.unit("s"), lost.unit("cpm")),
        folded=True,
    )


PAGE = Page(
    uid=_UID,
    text="What the watched clients hold to each broker: how many connections against what they"
    " need, what fails or is dropped, and how much of the brokers' limits is used.",
    labels=("cluster", "namespace", "job", "broker"),
    rows=(_glance(), _each(), _headroom(), _trouble(), _traffic()),
    since="now-3h",
)
