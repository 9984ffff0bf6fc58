"""From the tables to a digest: Spark adds up, and only few rows ever come here."""

from __future__ import annotations

__all__ = ["MOST_REASONS", "read_digest"]

from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.errors import UsageError
from spark_rollups.report import reading_brokers, reading_services
from spark_rollups.report.asking import Reader, known, moment, whole
from spark_rollups.report.digest import OTHER, Digest, Found, Hour, Lengths, Quarantined, Waste
from spark_rollups.report.period import Period, Seen, choose
from spark_rollups.tables import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_rollups.tables import Tables

MOST_REASONS: Final = 40
_MOST_FINDINGS: Final = 100
_AHEAD: Final = timedelta(hours=1)
"""How far ahead of this clock an hour may begin: beyond that its agent's clock is wrong."""
_BESIDE: Final = 3 * 24
"""Hours that are looked at besides those of the period, to find where it ends."""


def read_digest(
    tables: Tables, *, days: int, until: date | None, now: datetime | None = None
) -> Digest:
    """Read what the last `days` days of the tables say, or those that end with `until`.

    Raises:
        UsageError: there is nothing to tell of.

    """
    period = _period(tables, days, until, now or datetime.now(UTC))
    reader = Reader(tables, period)
    waste, reasons = _waste(reader)
    found, findings = _findings(reader)
    set_aside, quarantine = _quarantine(reader)
    services, clients = _counts(reader)
    wasters = reading_services.wasters(reader)
    services_waste, wasting = reading_services.services_waste(reader)
    cohorts, versions = reading_services.cohorts(reader)
    moved, weeks = reading_services.weeks(reader)
    surges, more_surges = reading_brokers.surges(reader)
    openings, more_openings = reading_brokers.openings(reader)
    return Digest(
        begin=period.begin,
        end=period.end,
        day=period.day,
        whole=period.whole,
        hours=tuple(_hours(reader, period)),
        waste=waste,
        services=services,
        clients=clients,
        wasters=wasters,
        services_waste=services_waste,
        savings=reading_services.savings(reader),
        cohorts=cohorts,
        surges=surges,
        openings=openings,
        brokers=reading_brokers.brokers(reader),
        moved=moved,
        weeks=weeks,
        findings=found,
        quarantine=set_aside,
        lengths=Lengths(
            reasons=reasons,
            services=wasting,
            cohorts=versions,
            surges=more_surges,
            openings=more_openings,
            findings=findings,
            quarantine=quarantine,
        ),
    )


def _period(tables: Tables, days: int, until: date | None, now: datetime) -> Period:
    if not tables.exists("coverage"):
        raise UsageError(f"there are no tables in {tables.path('')}: run batch or stream first")
    end = datetime.combine(until, time(), UTC) + timedelta(days=1) if until else None
    # An agent whose clock is years ahead must not end the period there, alone.
    cap = now + _AHEAD if end is None else min(max(now, end) + _AHEAD, end + timedelta(days=1))
    names = ("agents", "agents_at_end", "covered_ms", "minutes_seen", "minutes_expected")
    newest_first = (
        known(tables, "coverage")
        .where(f"hour < {literal(cap)}")
        .groupBy("hour")
        .agg(dict.fromkeys(names, "sum"))
        .selectExpr("unix_seconds(hour) AS at", *(f"`sum({name})` AS {name}" for name in names))
        .orderBy("at", ascending=False)
    )
    hours = [
        Seen(moment(row["at"]), *(whole(row[name]) for name in names))
        for row in newest_first.limit(days * 24 + _BESIDE).collect()
    ]
    period = choose(hours[::-1], days, end)
    if period is None:
        asked = until or f"any hour before {cap:%Y-%m-%d %H:%M} UTC"
        raise UsageError(f"nothing is known of {asked} in {tables.path('')}: see --until")
    return period


def _hours(reader: Reader, period: Period) -> Iterator[Hour]:
    held = {
        row["at"]: row
        for row in reader.rows(
            "hourly",
            "SELECT unix_seconds(hour) AS at, sum(connection_ms) AS connection_ms,"
            " sum(useful_ms) AS useful_ms, sum(waste_ms) AS waste_ms,"
            " sum(unknown_ms) AS unknown_ms, sum(opened) AS opened"
            " FROM {t} WHERE {period} GROUP BY hour",
        )
    }
    # The agents' own rows: an hour without any client was seen all the same.
    for seen in period.hours:
        sums = held.get(int(seen.at.timestamp())) or defaultdict(int)
        yield Hour(
            seen.at,
            whole(sums["connection_ms"]),
            whole(sums["useful_ms"]),
            whole(sums["waste_ms"]),
            whole(sums["unknown_ms"]),
            whole(sums["opened"]),
            seen.agents,
            seen.minutes_seen,
            seen.minutes_expected,
        )


def _waste(reader: Reader) -> tuple[tuple[Waste, ...], int]:
    """Return the waste by hour and reason, and how many reasons there are.

    Those with most waste over the whole period keep their name: anybody may write any cause.
    """
    worst, reasons = reader.first(
        "hourly",
        "SELECT coalesce(cause, class) AS reason, sum(waste_ms) AS waste_ms FROM {t}"
        " WHERE {period} AND waste_ms > 0 GROUP BY coalesce(cause, class)"
        " ORDER BY waste_ms DESC, reason",
        MOST_REASONS,
    )
    if not worst:
        return (), 0
    asked = reader.asked(
        "hourly",
        "SELECT unix_seconds(hour) AS at, coalesce(cause, class) AS reason, waste_ms FROM {t}"
        " WHERE {period} AND waste_ms > 0",
    )
    reason = F.col("reason")
    kept = reason.isin([row["reason"] for row in worst])
    found = (
        asked.withColumn("reason", F.when(kept, reason).otherwise(OTHER))
        .groupBy("at", "reason")
        .agg(F.sum("waste_ms").alias("waste_ms"))
        .orderBy("at", "reason")
        .collect()
    )
    waste = (Waste(moment(row["at"]), row["reason"], whole(row["waste_ms"])) for row in found)
    return tuple(waste), reasons


def _counts(reader: Reader) -> tuple[int, int]:
    services = reader.rows(
        "coverage",
        "SELECT count(DISTINCT struct(cluster, namespace, service)) AS n FROM {t} WHERE {period}",
    )
    clients = reader.rows(
        "daily",
        "SELECT hll_sketch_estimate(hll_union_agg(clients_sketch)) AS n FROM {t} WHERE {day}",
    )
    return whole(services and services[0]["n"]), whole(clients and clients[0]["n"])


def _findings(reader: Reader) -> tuple[tuple[Found, ...], int]:
    rows, in_all = reader.first(
        "findings",
        "SELECT finding, cause, severity, sum(active_ms) AS active_ms, sum(begun) AS begun,"
        " count(DISTINCT struct(cluster, namespace, service)) AS services FROM {t}"
        " WHERE {period} GROUP BY finding, cause, severity"
        " ORDER BY active_ms DESC, finding, cause",
        _MOST_FINDINGS,
    )
    found = (
        Found(
            row["finding"],
            row["cause"],
            row["severity"],
            whole(row["services"]),
            whole(row["active_ms"]),
            whole(row["begun"]),
        )
        for row in rows
    )
    return tuple(found), in_all


def _quarantine(reader: Reader) -> tuple[tuple[Quarantined, ...], int]:
    rows, in_all = reader.first(
        "quarantine",
        "SELECT reason, count(*) AS texts, sum(raw_bytes) AS size FROM {t}"
        " GROUP BY reason ORDER BY texts DESC, reason",
        MOST_REASONS,
    )
    kept = [Quarantined(row["reason"], whole(row["texts"]), whole(row["size"])) for row in rows]
    if in_all > len(kept):
        sums = reader.rows("quarantine", "SELECT count(*) AS n, sum(raw_bytes) AS size FROM {t}")
        texts = whole(sums[0]["n"]) - sum(each.texts for each in kept)
        size = whole(sums[0]["size"]) - sum(each.size for each in kept)
        kept.append(Quarantined(OTHER, texts, size))
    return tuple(kept), in_all
