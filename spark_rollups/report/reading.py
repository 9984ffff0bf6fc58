"""From the tables to a digest: Spark adds up, what grows with the fleet is cut last."""

from __future__ import annotations

__all__ = ["read_digest"]

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.errors import UsageError
from spark_rollups.report import reading_brokers
from spark_rollups.report.digest import (
    HOUR_MS,
    OTHER,
    Cohort,
    Digest,
    Found,
    Hour,
    Lengths,
    Quarantined,
    Saving,
    ServiceWaste,
    Waste,
    Waster,
    Week,
    Weeks,
)
from spark_rollups.report.period import Period, Seen, choose
from spark_rollups.report.source import Source, columns_of, first, made, moment
from spark_rollups.transforms.top_wasters import top_wasters
from spark_rollups.transforms.version_cohorts import version_cohorts
from spark_rollups.transforms.week_over_week import week_over_week

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column

    from spark_rollups.tables import Tables

_MOST_REASONS: Final = 40
_MOST_FINDINGS: Final = 100
_MOST_WASTERS: Final = 15
_MOST_SERVICES: Final = 20
_MOST_MOVED: Final = 100
_MOST_BY_CLIENTS, _MOST_BY_WASTE = 40, 12
_LEAST_CHANGE: Final = 0.02
"""A service whose efficiency moved by less did not change."""
_AHEAD: Final = timedelta(hours=1)
"""How far ahead of this clock an hour may begin: beyond that its agent's clock is wrong."""
_BESIDE: Final = 3 * 24
"""Hours that are looked at besides those of the period, to find where it ends."""
_SERVICE: Final = ("cluster", "namespace", "service")


def read_digest(
    tables: Tables, *, days: int, until: date | None, now: datetime | None = None
) -> Digest:
    """Read what the last `days` days of the tables say, or those that end with `until`.

    Raises:
        UsageError: there is nothing to tell of.

    """
    period = _period(tables, days, until, now or datetime.now(UTC))
    source = Source(tables, period)
    waste, reasons = _waste(source)
    services_waste, wasting = _services_waste(source)
    cohorts, versions = _cohorts(source)
    surges, in_all_surges = reading_brokers.surges(source)
    openings, in_all_openings = reading_brokers.openings(source)
    moved, weeks = _weeks(source)
    findings, in_all_findings = _findings(source)
    quarantine, set_aside = _quarantine(source)
    services, clients = _counts(source)
    return Digest(
        begin=period.begin,
        end=period.end,
        day=period.day,
        whole=period.whole,
        hours=tuple(_hours(source)),
        waste=waste,
        services=services,
        clients=clients,
        wasters=tuple(_wasters(source)),
        services_waste=services_waste,
        savings=_savings(source),
        cohorts=cohorts,
        surges=surges,
        openings=openings,
        brokers=reading_brokers.brokers(source),
        moved=moved,
        weeks=weeks,
        findings=findings,
        quarantine=quarantine,
        lengths=Lengths(
            reasons=reasons,
            services=wasting,
            cohorts=versions,
            surges=in_all_surges,
            openings=in_all_openings,
            findings=in_all_findings,
            quarantine=set_aside,
        ),
    )


def _period(tables: Tables, days: int, until: date | None, now: datetime) -> Period:
    if not tables.exists("coverage"):
        raise UsageError(f"there are no tables in {tables.path('')}: run batch or stream first")
    end = datetime.combine(until, time(), UTC) + timedelta(days=1) if until else None
    # An agent whose clock is years ahead must not end the period there, alone.
    cap = now + _AHEAD if end is None else min(max(now, end) + _AHEAD, end + timedelta(days=1))
    sums = (_sum(name) for name in Seen._fields if name != "at")
    newest_first = (
        columns_of(tables, "coverage")
        .where(F.col("hour") < F.lit(cap))
        .groupBy(F.unix_seconds("hour").alias("at"))
        .agg(*sums)
        .orderBy(F.desc("at"))
    )
    hours = [made(Seen, row) for row in newest_first.limit(days * 24 + _BESIDE).collect()]
    period = choose(hours[::-1], days, end)
    if period is None:
        asked = until or f"any hour before {cap:%Y-%m-%d %H:%M} UTC"
        raise UsageError(f"nothing is known of {asked} in {tables.path('')}: see --until")
    return period


def _hours(source: Source) -> Iterator[Hour]:
    """Return the hours that agents saw, also those without any client."""
    names = ("connection_ms", "useful_ms", "waste_ms", "unknown_ms", "opened")
    sums = source.hours("hourly").groupBy(F.unix_seconds("hour").alias("at")).agg(*map(_sum, names))
    held = {moment(row["at"]): row for row in sums.collect()}
    for seen in source.period.hours:
        row = held.get(seen.at)
        known = {name: int(row[name]) if row else 0 for name in names}
        yield Hour(
            at=seen.at,
            agents=seen.agents,
            minutes_seen=seen.minutes_seen,
            minutes_expected=seen.minutes_expected,
            **known,
        )


def _waste(source: Source) -> tuple[tuple[Waste, ...], int]:
    """Return the waste by hour and reason, and how many reasons there are.

    Those with most waste over the whole period keep their name: anybody may write any cause.
    """
    wasted = source.hours("hourly").where(F.col("waste_ms") > 0)
    wasted = wasted.withColumn("reason", F.coalesce("cause", "class"))
    by_reason = wasted.groupBy("reason").agg(_sum("waste_ms"))
    worst, reasons = first(by_reason, _MOST_REASONS, F.desc("waste_ms"), "reason")
    reason = F.col("reason")
    kept = reason.isin([row["reason"] for row in worst])
    by_hour = wasted.groupBy(
        F.unix_seconds("hour").alias("at"), F.when(kept, reason).otherwise(OTHER).alias("reason")
    ).agg(_sum("waste_ms"))
    found = by_hour.orderBy("at", "reason").collect()
    return tuple(made(Waste, row) for row in found), reasons


def _counts(source: Source) -> tuple[int, int]:
    """Return how many services and clients there are."""
    services = source.hours("coverage").select(F.count_distinct(F.struct(*_SERVICE))).collect()
    sketch = F.hll_sketch_estimate(F.hll_union_agg("clients_sketch"))
    clients = source.day("daily").select(sketch).collect()
    return services[0][0], clients[0][0] or 0


def _wasters(source: Source) -> Iterator[Waster]:
    """Return the groups of clients that waste most."""
    rows = (
        top_wasters(source.day("daily"))
        .orderBy(F.desc("waste_ms"), "cluster", "rank")
        .limit(_MOST_WASTERS)
        .withColumns(
            {
                "connections": source.standing("connection_ms"),
                "waste": source.standing("waste_ms"),
                "share": F.col("waste_share"),
                "reason": F.coalesce("worst_cause", "worst_class"),
            }
        )
        .collect()
    )
    keys = list(dict.fromkeys(tuple(row[name] for name in _SERVICE) for row in rows))
    wasted = source.hours("hourly").groupBy("hour", *_SERVICE)
    wasted = wasted.agg((F.sum("waste_ms").cast("double") / HOUR_MS).alias("wasted"))
    courses = source.course(wasted, keys, _SERVICE, "wasted")
    for row in rows:
        yield made(Waster, row, by_hour=courses[tuple(row[name] for name in _SERVICE)])


def _services_waste(source: Source) -> tuple[tuple[ServiceWaste, ...], int]:
    """Return what the worst services waste, and all others together; and how many waste at all."""
    wasted = source.day("daily").where(F.col("waste_ms") > 0)
    by_service = wasted.groupBy(*_SERVICE).agg(_sum("waste_ms"))
    by_service = by_service.withColumn("waste", source.standing("waste_ms"))
    rows, in_all = first(by_service, _MOST_SERVICES, F.desc("waste_ms"), *_SERVICE)
    kept = [made(ServiceWaste, row) for row in rows]
    if in_all > len(kept):
        whole = int(wasted.agg(_sum("waste_ms")).collect()[0][0])
        rest = whole - sum(int(row["waste_ms"]) for row in rows)
        kept.append(ServiceWaste(OTHER, OTHER, OTHER, rest / source.day_ms))
    return tuple(kept), in_all


def _savings(source: Source) -> tuple[Saving, ...]:
    """Return each fix with what it saves at all brokers, and the one where that is most."""
    share = source.standing("connection_ms") / F.col("max_connections")
    place = F.struct(share.alias("share"), "kafka_cluster", "broker_id")
    opened = F.coalesce(F.sum("opened_saved"), F.lit(0)).cast("double")
    rows = (
        source.day("savings")
        .groupBy("fix")
        .agg(
            _sum("connection_ms"),
            (opened / F.lit(source.period.hours_of_day)).alias("opened"),
            F.max(F.when(F.col("max_connections") > 0, place)).alias("best"),
        )
        .select(
            "fix", "opened", source.standing("connection_ms").alias("connections"), "best.*"
        )
        .orderBy(F.desc("connections"), F.desc("opened"), "fix")
    )  # fmt: skip
    return tuple(made(Saving, row) for row in rows.collect())


def _cohorts(source: Source) -> tuple[tuple[Cohort, ...], int]:
    """Return the versions with most clients and those that waste most for each of theirs."""
    names = ("library", "library_version", "client_kind")
    known = F.col("library").isNotNull() & (F.col("clients") > 0)
    each = F.when(known, F.col("waste_ms").cast("double") / F.col("clients"))
    by_clients = Window.orderBy(F.desc("clients"), *names)
    by_waste = Window.orderBy(each.desc_nulls_last(), *names)
    ranked = version_cohorts(source.day("daily")).withColumns(
        {
            "by_clients": F.row_number().over(by_clients),
            "by_waste": F.row_number().over(by_waste),
            "in_all": F.count_if(known).over(Window.partitionBy()),
            "connections": source.standing("connection_ms"),
            "waste": source.standing("waste_ms"),
            "bootstrap_waste": source.standing("bootstrap_waste_ms"),
        }
    )
    shown = (F.col("by_clients") <= _MOST_BY_CLIENTS) | (F.col("by_waste") <= _MOST_BY_WASTE)
    rows = ranked.where(shown).orderBy("by_clients").collect()
    return tuple(made(Cohort, row) for row in rows), rows[0]["in_all"] if rows else 0


def _weeks(source: Source) -> tuple[tuple[Week, ...], Weeks]:
    """Return the services that changed most, and what became of all."""
    weeks = week_over_week(source.all("daily"), source.period.day.date())
    change = F.col("efficiency_change")
    tally = weeks.agg(
        F.count_if(change >= _LEAST_CHANGE).alias("better"),
        F.count_if(change <= -_LEAST_CHANGE).alias("worse"),
        F.count_if(F.abs(change) < _LEAST_CHANGE).alias("stayed"),
    )
    changed = weeks.where(F.abs(change) >= _LEAST_CHANGE)
    moved = changed.orderBy(F.abs(change).desc(), *_SERVICE).limit(_MOST_MOVED).collect()
    return tuple(made(Week, row) for row in moved), made(Weeks, tally.collect()[0])


def _findings(source: Source) -> tuple[tuple[Found, ...], int]:
    services = F.count_distinct(F.struct(*_SERVICE)).alias("services")
    found = source.hours("findings").groupBy("finding", "cause", "severity")
    found = found.agg(_sum("active_ms"), _sum("begun"), services)
    rows, in_all = first(found, _MOST_FINDINGS, F.desc("active_ms"), "finding", "cause")
    return tuple(made(Found, row) for row in rows), in_all


def _quarantine(source: Source) -> tuple[tuple[Quarantined, ...], int]:
    texts = source.all("quarantine")
    sums = F.count(F.lit(1)).alias("texts"), F.coalesce(F.sum("raw_bytes"), F.lit(0)).alias("size")
    by_reason = texts.groupBy("reason").agg(*sums)
    rows, in_all = first(by_reason, _MOST_REASONS, F.desc("texts"), "reason")
    kept = [made(Quarantined, row) for row in rows]
    if in_all > len(kept):
        whole = texts.agg(*sums).collect()[0]
        rest = whole["texts"] - sum(each.texts for each in kept)
        kept.append(Quarantined(OTHER, rest, whole["size"] - sum(each.size for each in kept)))
    return tuple(kept), in_all


def _sum(name: str) -> Column:
    """Sum what may be unknown in all rows: nothing is added to a total then."""
    return F.coalesce(F.sum(name), F.lit(0)).alias(name)
