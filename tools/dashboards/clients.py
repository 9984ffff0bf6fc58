"""*Client connections*: what the clients of a service hold, whether it is normal, and why not."""

from __future__ import annotations

__all__ = ["PAGE"]

from exporter.alerts.words import KNOWN, OF_KNOWN
from exporter.config.settings import ClassSettings
from tools.dashboards.layout import Page, Row, in_thirds
from tools.dashboards.limits import of_addresses, of_brokers, of_files
from tools.dashboards.links import RUNBOOK, of_row, of_series
from tools.dashboards.panels import (
    bars,
    coloured,
    dashed,
    heatmap,
    in_words,
    limited,
    lines,
    numbers,
    stacked,
    with_unit,
)
from tools.dashboards.queries import (
    LIVE,
    NOT_NEEDED,
    OF_CLIENT,
    OF_FINDING,
    OF_PAIR,
    WASTED,
    Query,
    or_none,
    ratio,
    series,
)
from tools.dashboards.tables import Column, table
from tools.dashboards.thresholds import THRESHOLDS, above, below
from tools.dashboards.words import REMEDIES, SUMMARIES

_UID = "brokerwire-clients"
_OPEN = series("kafka_client_connections", OF_PAIR)
_EXPECTED = series("kafka_client_connections_expected", OF_PAIR)
_WASTED = series("kafka_client_connections", OF_PAIR, WASTED)
_NOT_NEEDED = series("kafka_client_connections", OF_PAIR, NOT_NEEDED)
_UNUSED = series("kafka_client_connections_unused", OF_PAIR)
_IDLE = series("kafka_client_connection_idle_seconds_max", OF_CLIENT)
_USEFUL_SECONDS = series("kafka_client_connection_useful_seconds_total", OF_CLIENT, OF_KNOWN)
_KNOWN_SECONDS = series("kafka_client_connection_seconds_total", OF_CLIENT, KNOWN)
_OPENED = series("kafka_client_connections_opened_total", OF_PAIR, LIVE)
_CLOSED = series("kafka_client_connections_closed_total", OF_PAIR, LIVE)
_LIFETIMES = series("kafka_client_connection_lifetime_seconds_bucket", OF_CLIENT, LIVE)
_FINDINGS = series("kafka_client_finding_connections", OF_FINDING)
_OWNER = "{{process}} {{client_id}}"
_WASTE = above(THRESHOLDS.zombie_connections)
_LOW = below(THRESHOLDS.efficiency_percent)
_NEAR = THRESHOLDS.near_limit_percent


def _glance() -> Row:
    normal = numbers(
        "Is this number normal?",
        "Open connections, those that the clients need by the rules of their libraries, wasted"
        " ones (zombie, excess, half_closed, stale, ghost), and those that have carried nothing"
        " since they were opened. Some more than expected are normal in a client's first nine"
        " minutes: bootstrap connections, which its idle timeout closes. Of clients without metrics"
        " every connection in use is expected. Efficiency is the share of useful"
        " connection-seconds in the last hour.",
        Query(f"sum({_OPEN})", "open"),
        Query(f"sum({_EXPECTED})", "expected"),
        Query(or_none(_WASTED, _OPEN), "wasted"),
        Query(f"sum({_UNUSED})", "unused"),
        Query(
            ratio(f"rate({_USEFUL_SECONDS}[1h])", f"rate({_KNOWN_SECONDS}[1h])"),
            "efficiency",
        ),
    )
    with_unit(normal, "wasted", "short", _WASTE)
    with_unit(normal, "efficiency", "percent", _LOW)
    owners = bars(
        "Who owns these?",
        "The processes and clients that hold most connections. A client without metrics is shown by"
        " its process.",
        Query(f"topk(8, sum by (process, client_id) ({_OPEN}) > 0)", _OWNER),
    ).data_links([of_series(_UID, "process", "client_id")])
    reasons = bars(
        "Why are they not closed?",
        "Open connections that nobody uses, by their class: what keeps each of them open. 0 is"
        " good. Bootstrap connections close by themselves after connections.max.idle.ms (nine"
        " minutes in Java), unless that is off.",
        Query(f"sum by (class) ({_NOT_NEEDED})", "{{class}}"),
    )
    limits = bars(
        "Will I hit a limit?",
        "How much is used of the limits that end connections: a process's open files, a broker's"
        " max.connections (by the clients of all services that are watched) and"
        " max.connections.per.ip. A broker's limits show where brokers.max_connections and"
        " brokers.max_connections_per_ip are in the agents' configuration. The alerts fire at"
        f" {THRESHOLDS.descriptor_percent} % and {_NEAR} %.",
        of_files(),
        of_brokers(),
        of_addresses(),
    )
    limits.unit("percent").max(100).thresholds(above(_NEAR, full=100))
    return Row(
        title="At a glance",
        panels=[each.span(6).height(9) for each in (normal, owners, in_words(reasons), limits)],
    )


def _changes() -> Row:
    found = table(
        "What to change",
        "What the agents have found, whose it is, and the setting to change; the name is the"
        " alert's and leads to its runbook. Of churn the number is of connections that came and"
        " went. Empty is good: there is nothing to change.",
        Column(title="Finding", label="finding", width=310, link=RUNBOOK),
        Column(title="What it is", label="summary", words=SUMMARIES, width=280, wrap=True),
        Column(title="Process", label="process", width=150),
        Column(
            title="Client",
            label="client_id",
            width=150,
            link=of_row(_UID, "process", "client_id"),
        ),
        Column(
            title="Broker",
            label="broker",
            width=170,
            link=of_row("brokerwire-brokers", "broker"),
        ),
        Column(title="Cause", label="cause", width=150),
        Column(
            title="Connections",
            width=110,
            query="sum by (finding, summary, remedy, process, client_id, broker, cause) (\n"
            "  label_replace(label_replace(\n"
            f"    {_FINDINGS},\n"
            '    "summary", "$1", "finding", "(.*)"), "remedy", "$1", "finding", "(.*)")\n)',
        ),
        Column(title="Change", label="remedy", words=REMEDIES, wrap=True),
        sort="Connections",
    )
    return Row(title="What to change", panels=[found.span(24).height(9)])


def _held() -> Row:
    by_class = coloured(
        stacked(
            "Connections by class",
            "What the open connections are for. The dashed line is what the clients need: above it"
            " is waste, or a start less than nine minutes ago.",
            Query(f"sum by (class) ({_OPEN}) > 0", "{{class}}"),
            Query(f"sum({_EXPECTED})", "expected"),
        )
    )
    by_broker = table(
        "Connections by client and broker",
        "Open and expected side by side: which client holds more than it needs, and where.",
        Column(title="Process", label="process"),
        Column(title="Kind", label="client_kind", width=90),
        Column(title="Client", label="client_id", link=of_row(_UID, "process", "client_id")),
        Column(title="Broker", label="broker", link=of_row("brokerwire-brokers", "broker")),
        Column(title="Open", width=70, query=_by_row(_OPEN)),
        Column(title="Expected", width=90, query=_by_row(_EXPECTED)),
        Column(
            title="Wasted",
            width=80,
            query=f"{_by_row(_WASTED)}\nor\n0 * {_by_row(_OPEN)}",
            colours=_WASTE,
        ),
        Column(title="Unused", width=80, query=_by_row(_UNUSED)),
        sort="Open",
    )
    efficiency = lines(
        "Efficiency by client",
        "The share of connection-seconds that was of use, of clients whose metrics the agent reads."
        f" KafkaClientLowEfficiency fires below {THRESHOLDS.efficiency_percent} % of an hour.",
        Query(
            ratio(
                f"rate({_USEFUL_SECONDS}[$__rate_interval])",
                f"rate({_KNOWN_SECONDS}[$__rate_interval])",
                by="process, client_id",
            ),
            _OWNER,
        ),
    )
    limited(efficiency, _LOW).unit("percent").max(100)
    broker = stacked(
        "Connections by broker",
        "Open connections to each broker, and the dashed line is what is expected to all of them."
        " One broker far above the others is a coordinator of many groups, or the first name in"
        " bootstrap.servers.",
        Query(f"sum by (broker) ({_OPEN})", "{{broker}}"),
        Query(f"sum({_EXPECTED})", "expected"),
    )
    return Row(
        title="What is open",
        panels=[
            dashed(by_class, "expected").span(12).height(9),
            by_broker.span(12).height(9),
            dashed(broker, "expected").span(12).height(8),
            efficiency.span(12).height(8),
        ],
    )


def _silent() -> Row:
    silent = ClassSettings().zombie_after
    idle = lines(
        "Idle for",
        "How long the most silent connection of each client has been silent. A healthy client's"
        " own idle closing ends it after connections.max.idle.ms (540 s in Java); at the dashed"
        f" line ({silent:.0f} s, classes.zombie_after) it counts as a zombie.",
        Query(f"max by (process, client_id) ({_IDLE})", _OWNER),
    )
    limited(idle, above(silent)).unit("s")
    wasted = coloured(
        lines(
            "Wasted connections",
            "Half closed: the broker has closed, the client has not. Ghost: a descriptor whose"
            " socket is dead, which ss and netstat do not show. Stale: to an address that is no"
            " broker's any more. Zombie: never used again and never closed. Excess: more than the"
            " client needs. Every class should be at 0.",
            Query(f"sum by (class) ({_WASTED})", "{{class}}"),
        )
    )
    owners = lines(
        "Owners of wasted connections",
        "The clients with wasted connections. Empty is good.",
        Query(f"topk(10, sum by (process, client_id) ({_WASTED}) > 0)", _OWNER),
    )
    return Row(
        title="Waste and silence",
        panels=in_thirds(wasted, owners, idle),
    )


def _churn() -> Row:
    opened = lines(
        "Opened a minute",
        "How many connections each process opens. A healthy client opens a few when it starts and"
        " then one now and then: a steady rate is churn (a client for each request, a health check,"
        " an idle limit below the refresh of metadata).",
        Query(
            f"label_replace(60 * sum by (process) (rate({_OPENED}[$__rate_interval])),\n"
            '  "process", "nobody known", "process", "")',
            "{{process}}",
        ),
    )
    closed = stacked(
        "Who closes them, a minute",
        "Which side ended the connections. The client: its idle closing, or close(). The broker:"
        " its idle limit, or a restart. abort: a reset. refused: never got through.",
        Query(f"60 * sum by (closed_by) (rate({_CLOSED}[$__rate_interval]))", "{{closed_by}}"),
    )
    lived = heatmap(
        "How long they lived",
        "Lifetimes of the connections that were closed. A dark band at the bottom is churn; one at"
        " nine minutes is Java's idle closing of bootstrap connections, which is normal.",
        Query(f"sum by (le) (increase({_LIFETIMES}[$__rate_interval]))", "{{le}}"),
    )
    return Row(
        title="Opened and closed",
        panels=in_thirds(opened.unit("cpm"), closed.unit("cpm"), lived),
    )


def _limits() -> Row:
    files = lines(
        "Open files of the clients' processes",
        "Share of its limit of open files that each process has used up; beyond the limit no"
        " connection opens. KafkaClientNearDescriptorLimit fires at"
        f" {THRESHOLDS.descriptor_percent} %.",
        of_files(10),
    )
    brokers = lines(
        "Limits of the brokers",
        "Share of max.connections that all watched clients use together, and of"
        " max.connections.per.ip that the busiest address uses. The alerts fire at"
        f" {_NEAR} %. Empty where the agents do not know the brokers' limits"
        " (brokers.max_connections in their configuration).",
        of_brokers(10),
        of_addresses(10),
    )
    return Row(
        title="Limits",
        panels=[
            limited(files, above(THRESHOLDS.descriptor_percent)).unit("percent").span(12).height(8),
            limited(brokers, above(_NEAR)).unit("percent").span(12).height(8),
        ],
        folded=True,
    )


def _by_row(what: str) -> str:
    return f"sum by (process, client_kind, client_id, broker) ({what})"


PAGE = Page(
    uid=_UID,
    text="What the Kafka clients of a pod or service hold: connections by class and broker against"
    " what they need, who owns them, why they are not closed, and what to change.",
    labels=("cluster", "namespace", "job", "pod", "process", "client_id", "broker"),
    rows=(_glance(), _changes(), _held(), _silent(), _churn(), _limits()),
)
