"""What the tables of a day say of services, fixes and versions."""

from __future__ import annotations

__all__ = ["LEAST_CHANGE", "cohorts", "savings", "services_waste", "wasters", "weeks"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.report.asking import whole
from spark_rollups.report.digest import (
    HOUR_MS,
    OTHER,
    Cohort,
    Saving,
    ServiceWaste,
    Waster,
    Week,
    Weeks,
)

if TYPE_CHECKING:
    from spark_rollups.report.asking import Reader

_MOST_WASTERS: Final = 15
_MOST_SERVICES: Final = 20
_MOST_MOVED: Final = 100
_MOST_BY_CLIENTS, _MOST_BY_WASTE = 40, 12
LEAST_CHANGE: Final = 0.02
"""A service whose efficiency moved by less did not change."""


def wasters(reader: Reader) -> tuple[Waster, ...]:
    """Return the groups of clients that waste most."""
    rows, _ = reader.first(
        "top_wasters",
        "SELECT * FROM {t} WHERE {day} ORDER BY waste_ms DESC, cluster, rank",
        _MOST_WASTERS,
    )
    names = ("cluster", "namespace", "service")
    keys = list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))
    hours = reader.of_period("hourly")
    courses = {}
    if hours is not None:
        wasted = hours.groupBy("hour", *names).agg(F.sum("waste_ms").alias("waste_ms"))
        courses = reader.course(wasted, keys, names, "waste_ms")
    by_hour = {
        key: tuple(None if value is None else value / HOUR_MS for value in values)
        for key, values in courses.items()
    }
    return tuple(
        Waster(
            row["cluster"],
            row["namespace"],
            row["service"],
            row["client_kind"],
            row["library"],
            row["library_version"],
            reader.standing(row["connection_ms"]),
            reader.standing(row["waste_ms"]),
            row["efficiency"],
            row["waste_share"],
            row["worst_cause"] or row["worst_class"],
            by_hour.get(tuple(row[name] for name in names), ()),
        )
        for row in rows
    )


def services_waste(reader: Reader) -> tuple[tuple[ServiceWaste, ...], int]:
    """Return what the worst services waste, and all others together; and how many waste at all."""
    rows, in_all = reader.first(
        "daily",
        "SELECT cluster, namespace, service, sum(waste_ms) AS waste_ms FROM {t}"
        " WHERE {day} AND waste_ms > 0 GROUP BY cluster, namespace, service"
        " ORDER BY waste_ms DESC, cluster, namespace, service",
        _MOST_SERVICES,
    )
    kept = [
        ServiceWaste(
            row["cluster"], row["namespace"], row["service"], reader.standing(row["waste_ms"])
        )
        for row in rows
    ]
    if in_all > len(kept):
        sums = reader.rows(
            "daily", "SELECT sum(waste_ms) AS waste_ms FROM {t} WHERE {day} AND waste_ms > 0"
        )
        rest = whole(sums[0]["waste_ms"]) - sum(whole(row["waste_ms"]) for row in rows)
        kept.append(ServiceWaste(OTHER, OTHER, OTHER, reader.standing(rest)))
    return tuple(kept), in_all


def savings(reader: Reader) -> tuple[Saving, ...]:
    """Return each fix with what it saves at all brokers."""
    found = reader.rows(
        "savings",
        "SELECT fix, sum(connection_ms) AS connection_ms, sum(opened_saved) AS opened_saved,"
        " max(struct(CAST(connection_ms AS DOUBLE) / max_connections AS share, kafka_cluster,"
        " broker_id)) FILTER (WHERE max_connections > 0) AS best FROM {t} WHERE {day}"
        " GROUP BY fix ORDER BY connection_ms DESC, opened_saved DESC, fix",
    )
    return tuple(
        Saving(
            row["fix"],
            reader.standing(row["connection_ms"]),
            whole(row["opened_saved"]) / reader.hours_of_day,
            row["best"] and row["best"]["kafka_cluster"],
            row["best"] and row["best"]["broker_id"],
            row["best"] and (row["best"]["share"] or 0.0) / (HOUR_MS * reader.hours_of_day),
        )
        for row in found
    )


def cohorts(reader: Reader) -> tuple[tuple[Cohort, ...], int]:
    """Return the versions with most clients and those that waste most for each of theirs."""
    rows = reader.rows(
        "version_cohorts",
        "SELECT * FROM (SELECT *,"
        " row_number() OVER (ORDER BY clients DESC, library, library_version, client_kind)"
        " AS by_clients, row_number() OVER (ORDER BY if(library IS NULL OR clients = 0, NULL,"
        " CAST(waste_ms AS DOUBLE) / clients) DESC NULLS LAST, library, library_version,"
        " client_kind) AS by_waste,"
        " count_if(library IS NOT NULL AND clients > 0) OVER () AS in_all FROM {t}"
        " WHERE {day}) WHERE by_clients <= {by_clients} OR by_waste <= {by_waste}"
        " ORDER BY by_clients",
        by_clients=_MOST_BY_CLIENTS,
        by_waste=_MOST_BY_WASTE,
    )
    made = (
        Cohort(
            row["library"],
            row["library_version"],
            row["client_kind"],
            whole(row["clients"]),
            reader.standing(row["connection_ms"]),
            reader.standing(row["waste_ms"]),
            row["efficiency"],
            reader.standing(row["bootstrap_waste_ms"]),
        )
        for row in rows
    )
    return tuple(made), rows[0]["in_all"] if rows else 0


def weeks(reader: Reader) -> tuple[tuple[Week, ...], Weeks]:
    """Return the services that changed most, and what became of all."""
    tally = reader.rows(
        "week_over_week",
        "SELECT count_if(efficiency_change >= {least}) AS better,"
        " count_if(efficiency_change <= -{least}) AS worse,"
        " count_if(abs(efficiency_change) < {least}) AS stayed FROM {t}",
        least=LEAST_CHANGE,
    )
    moved, _ = reader.first(
        "week_over_week",
        "SELECT * FROM {t} WHERE abs(efficiency_change) >= {least}"
        " ORDER BY abs(efficiency_change) DESC, cluster, namespace, service",
        _MOST_MOVED,
        least=LEAST_CHANGE,
    )
    rows = (
        Week(
            row["cluster"],
            row["namespace"],
            row["service"],
            row["efficiency"],
            row["previous_efficiency"],
        )
        for row in moved
    )
    return tuple(rows), Weeks(**tally[0].asDict()) if tally else Weeks()
