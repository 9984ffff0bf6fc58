"""*Fleet efficiency*: what all services waste together, where, why, and what would save it."""

from __future__ import annotations

__all__ = ["PAGE"]

from spark_rollups.report.words import FIXES
from tools.dashboards.layout import Page, Row, in_thirds
from tools.dashboards.links import of_series
from tools.dashboards.panels import bars, dashed, limited, lines, numbers, stacked, with_unit
from tools.dashboards.queries import Query, series
from tools.dashboards.tables import Column, table
from tools.dashboards.thresholds import THRESHOLDS, above, below

_UID = "brokerwire-fleet"
_FLEET = "kafka_client_fleet_"
_OF_SERVICE = ("cluster", "namespace")
_OF_BROKER = ("kafka_cluster",)
_BROKER = "kafka_cluster, broker_id"
_ALL = series(f"{_FLEET}connections")
_WASTED = series(f"{_FLEET}wasted_connections")
_EFFICIENCY = series(f"{_FLEET}efficiency_ratio")
_OPENED = series(f"{_FLEET}opened_per_hour")
_OF_SERVICES = series(f"{_FLEET}service_wasted_connections", _OF_SERVICE)
_PEAK = series(f"{_FLEET}broker_peak_connections", _OF_BROKER)
_FORECAST = series(f"{_FLEET}broker_forecast_connections", _OF_BROKER)
_MOST = series(f"{_FLEET}broker_max_connections", _OF_BROKER)
_COVERAGE = series("brokerwire_rollup_coverage_ratio")
_NEAR = THRESHOLDS.near_limit_percent
_WEEK = "a week ago"
# Twice the hour that is still being written.
_LATE_SECONDS = 2 * 3600.0
_GOOD_COVERAGE = 0.9


def _used(what: str) -> str:
    by = f"by ({_BROKER})"
    return f"100 * max {by} ({what})\n/ max {by} ({_MOST})"


def _glance() -> Row:
    normal = numbers(
        "Is this number normal?",
        "Connections that all services held on average in the last whole hour of the rollups,"
        " those that served nobody, and the share of connection-time that was of use. A healthy"
        " fleet wastes next to nothing; each restart of a client costs nine minutes of bootstrap"
        " connections.",
        Query(f"max({_ALL})", "held"),
        Query(f"sum(max by (reason) ({_WASTED}))", "wasted"),
        Query(f"max({series(f'{_FLEET}unknown_connections')})", "unknown"),
        Query(f"max({_EFFICIENCY})", "efficiency"),
    )
    normal.decimals(0)
    with_unit(normal, "efficiency", "percentunit", below(THRESHOLDS.efficiency_percent / 100))
    owners = bars(
        "Who owns the waste?",
        "Services that wasted most on the last day, on average. All but the 20 that waste most are"
        " `other`.",
        Query(
            f"topk(8, max by (cluster, namespace, service) ({_OF_SERVICES}))",
            "{{service}} in {{namespace}}",
        ),
    ).data_links([of_series("brokerwire-clients", "namespace", of_fleet=True)])
    reasons = bars(
        "Why are they not closed?",
        "Wasted connections by reason: the cause, or the class where no cause is known.",
        Query(f"topk(8, max by (reason) ({_WASTED}))", "{{reason}}"),
    )
    limits = bars(
        "Will I hit a limit?",
        "What each broker would have of its max.connections if every client restarted, one after"
        f" the other. The alerts on the running number fire at {_NEAR} %. Brokers whose limit the"
        " agents were not told are not here.",
        Query(f"topk(8, {_used(_FORECAST)})", "broker {{broker_id}} of {{kafka_cluster}}"),
    )
    limits.unit("percent").max(100).thresholds(above(_NEAR, full=100))
    return Row(
        title="At a glance",
        panels=[each.span(6).height(9) for each in (normal, owners, reasons, limits)],
    )


def _savings() -> Row:
    fixes = table(
        "What each fix would save",
        "Connections and openings that a change in the clients would save, on average on the last"
        " day, over the whole fleet. The report of the rollups says where each saves most.",
        Column(
            title="Fix",
            label="fix",
            width=280,
            words={name: fix.title for name, fix in FIXES.items()},
        ),
        Column(
            title="Why",
            label="why",
            words={name: fix.advice for name, fix in FIXES.items()},
            wrap=True,
        ),
        Column(
            title="Connections",
            width=120,
            query="label_replace(max by (fix) "
            f'({series(f"{_FLEET}fix_saves_connections")}), "why", "$1", "fix", "(.*)")',
        ),
        Column(
            title="Openings an hour",
            width=150,
            query="label_replace(max by (fix) "
            f'({series(f"{_FLEET}fix_saves_opened_per_hour")}), "why", "$1", "fix", "(.*)")',
        ),
        sort="Connections",
    )
    versions = bars(
        "Which versions waste most?",
        "Wasted connections for each client of a library's version on the last day: what an update"
        " may save. Of the 40 versions with most clients.",
        Query(
            "topk(10, max by (library, library_version, client_kind) "
            f"({series(f'{_FLEET}version_wasted_connections_per_client')}))",
            "{{library}} {{library_version}} {{client_kind}}",
        ),
    ).decimals(1)
    return Row(
        title="What would help",
        panels=[fixes.span(15).height(9), versions.span(9).height(9)],
    )


def _weeks() -> Row:
    wasted = stacked(
        "Wasted connections by reason",
        "What the waste is made of, hour by hour: a reason that grows is one that somebody"
        " deployed.",
        Query(f"max by (reason) ({_WASTED})", "{{reason}}"),
    )
    efficiency = lines(
        "Efficiency, week against week",
        "The share of connection-time that was of use, and (dashed) the same a week earlier: a"
        " deployment that made it worse shows as a gap between the lines.",
        Query(f"max({_EFFICIENCY})", "now"),
        Query(f"max({_EFFICIENCY} offset 1w)", _WEEK),
    )
    limited(efficiency, below(THRESHOLDS.efficiency_percent / 100)).unit("percentunit").max(1)
    opened = lines(
        "Opened an hour, week against week",
        "Connections that were opened in each hour, and (dashed) a week earlier. A step up is churn"
        " that somebody deployed.",
        Query(f"max({_OPENED})", "now"),
        Query(f"max({_OPENED} offset 1w)", _WEEK),
    )
    return Row(
        title="Over time",
        panels=in_thirds(wasted, dashed(efficiency, _WEEK), dashed(opened, _WEEK), height=9),
    )


def _headroom() -> Row:
    brokers = table(
        "Headroom by broker",
        "The most connections of watched clients in any hour of the period, what there would be if"
        " every client restarted, and the broker's limit. Clients that no agent watches are not"
        " counted: leave room for them.",
        Column(title="Kafka cluster", label="kafka_cluster"),
        Column(title="Broker", label="broker_id", width=80),
        Column(title="Peak", query=f"max by ({_BROKER}) ({_PEAK})"),
        Column(title="If all restart", query=f"max by ({_BROKER}) ({_FORECAST})"),
        Column(title="Limit", query=f"max by ({_BROKER}) ({_MOST})"),
        Column(
            title="Used",
            unit="percent",
            query=_used(_FORECAST),
            colours=above(_NEAR, full=100),
        ),
        sort="If all restart",
    )
    peaks = lines(
        "Peak by broker",
        "How the peak of each broker grows: when it will reach the limit is read from its slope.",
        Query(
            f"topk(10, max by ({_BROKER}) ({_PEAK}))", "broker {{broker_id}} of {{kafka_cluster}}"
        ),
    )
    return Row(
        title="Headroom",
        panels=[brokers.span(12).height(9), peaks.span(12).height(9)],
    )


def _trust() -> Row:
    whole = numbers(
        "Can these figures be trusted?",
        "Coverage: minutes that the journals told of, of those that were expected in the last whole"
        " hour. Age: how long ago that hour ended; beyond two hours the rollups are late, and all"
        " of this page is old. Quarantined: texts that could not be read.",
        Query(f"max({_COVERAGE})", "coverage"),
        Query(f"max({series('brokerwire_rollup_agents')})", "agents"),
        Query(f"time() - max({series('brokerwire_rollup_last_hour_timestamp_seconds')})", "age"),
        Query(
            f"sum(max by (reason) ({series('brokerwire_rollup_quarantined_texts')})) or vector(0)",
            "quarantined",
        ),
    )
    with_unit(whole, "coverage", "percentunit", below(_GOOD_COVERAGE))
    with_unit(whole, "age", "s", above(_LATE_SECONDS))
    with_unit(whole, "quarantined", "short", above(1))
    coverage = lines(
        "Coverage",
        "The share of expected minutes that the journals told of. Where it is low, sums are too"
        " small; averages are over what was seen.",
        Query(f"max({_COVERAGE})", "coverage"),
    )
    refused = lines(
        "Quarantined texts",
        "Lines of journals that the rollups set aside, by reason: a newer agent than they know, or"
        " a file that was cut. Empty is good.",
        Query(f"max by (reason) ({series('brokerwire_rollup_quarantined_texts')})", "{{reason}}"),
    )
    return Row(
        title="What it is based on",
        panels=in_thirds(whole, coverage.unit("percentunit").max(1), refused),
    )


PAGE = Page(
    uid=_UID,
    text="What all services together hold and waste, by the rollups: who wastes, why, what each fix"
    " would save, which versions, how near each broker is to its limit, and week against week.",
    labels=("cluster", "namespace", "kafka_cluster"),
    rows=(_glance(), _savings(), _weeks(), _headroom(), _trust()),
    since="now-7d",
    refresh="15m",
    of_fleet=True,
)
