"""What the tables say of brokers and moments: loads, peaks, bursts."""

from __future__ import annotations

__all__ = ["brokers", "openings", "surges"]

from typing import TYPE_CHECKING, Any, Final

from spark_rollups.report.asking import moment, whole
from spark_rollups.report.digest import BrokerLoad, Opening, Surge

if TYPE_CHECKING:
    from datetime import datetime

    from spark_rollups.report.asking import Reader

_MOST: Final = 10


def surges(reader: Reader) -> tuple[tuple[Surge, ...], int]:
    """Return the hours with most connections above the usual, and how many such hours there are."""
    # A rolling restart holds some connections twice for a moment; less than half is no surge.
    rows, in_all = reader.first(
        "surge",
        "SELECT *, unix_seconds(hour) AS at FROM {t} WHERE {period} AND surge_ratio >= 1.5"
        " ORDER BY peak_connections - steady_connections DESC, hour, kafka_cluster, broker,"
        " cluster, namespace, service",
        _MOST,
    )
    made = (
        Surge(
            *_place(row),
            row["steady_connections"],
            whole(row["peak_connections"]),
            whole(row["opened"]),
            whole(row["boots_started"]),
        )
        for row in rows
    )
    return tuple(made), in_all


def openings(reader: Reader) -> tuple[tuple[Opening, ...], int]:
    """Return the hours whose rate of openings was most above its mean, and how many there are."""
    # Ten handshakes within a second no broker feels; and most of what is rare is ten times its
    # mean in the second in which it happens.
    rows, in_all = reader.first(
        "surge",
        "SELECT *, unix_seconds(hour) AS at, CAST(opened AS DOUBLE) / 3600 AS mean FROM {t}"
        " WHERE {period} AND opened_ratio >= 10 AND peak_opened_sum >= 10"
        " ORDER BY peak_opened_sum - mean DESC, hour, kafka_cluster, broker, cluster, namespace,"
        " service",
        _MOST,
    )
    made = (
        Opening(
            *_place(row),
            row["mean"],
            whole(row["peak_opened_sum"]),
            whole(row["boots_started"]),
        )
        for row in rows
    )
    return tuple(made), in_all


def _place(
    row: Any,
) -> tuple[datetime, str | None, str | None, str | None, str | None, int | None]:
    """Return what Surge and Opening begin with: when, whose, and at which broker."""
    return (
        moment(row["at"]),
        row["kafka_cluster"],
        row["cluster"],
        row["namespace"],
        row["service"],
        row["broker_id"],
    )


def brokers(reader: Reader) -> tuple[BrokerLoad, ...]:
    """Return every broker: there are as many as somebody runs, whatever the size of the fleet."""
    peaks = {
        (row["kafka_cluster"], row["broker_id"], row["broker"]): whole(row["peak"])
        for row in reader.rows(
            "hourly",
            "SELECT kafka_cluster, broker_id, broker, max(peak) AS peak FROM"
            " (SELECT kafka_cluster, broker_id, broker, sum(peak_connections) AS peak FROM {t}"
            " WHERE {period} GROUP BY hour, kafka_cluster, broker_id, broker)"
            " GROUP BY kafka_cluster, broker_id, broker",
        )
    }
    loads = []
    for row in reader.rows(
        "forecast",
        "SELECT * FROM {t} WHERE {day} ORDER BY share_of_limit DESC NULLS LAST,"
        " kafka_cluster, broker_id, broker",
    ):
        key = (row["kafka_cluster"], row["broker_id"], row["broker"])
        held = whole(row["connections"])
        load = BrokerLoad(
            *key, held, peaks.get(key, held), whole(row["forecast_peak"]), row["max_connections"]
        )
        loads.append(load)
    return tuple(loads)
