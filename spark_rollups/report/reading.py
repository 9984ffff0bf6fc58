"""From the tables to a digest: Spark adds up, and only few rows ever come here."""

from __future__ import annotations

__all__ = ["read_digest"]

from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from spark_rollups.errors import UsageError
from spark_rollups.report.digest import (
    HOUR_MS,
    BrokerLoad,
    Cohort,
    Digest,
    Found,
    Hour,
    Quarantined,
    Saving,
    Surge,
    Waste,
    Waster,
    Week,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_rollups.tables import Tables

_MOST_ROWS = 200
_MOST_BROKERS = 1000


class _Reader:
    """Asks the tables of one folder about one period; all times are UTC."""

    def __init__(self, tables: Tables, begin: datetime, end: datetime) -> None:
        self._tables = tables
        self.begin = begin
        self.end = end
        self.day = (end - timedelta(hours=1)).date()
        self.hours_of_day = 1

    def rows(self, table: str, query: str, most: int = _MOST_ROWS) -> Iterator[Any]:
        """Run a query and take `most` of its rows.

        In it `{t}` is the table, `{period}` and `{day}` are conditions.
        """
        if not self._tables.exists(table):
            return
        self._tables.read(table).createOrReplaceTempView(f"report_{table}")
        period = f"hour >= {_literal(self.begin)} AND hour < {_literal(self.end)}"
        day = f"day = DATE '{self.day.isoformat()}'"
        asked = query.format(t=f"report_{table}", period=period, day=day)
        yield from self._tables.spark.sql(asked).limit(most).collect()

    def standing(self, milliseconds: Any) -> float:
        """Return connections on average over the hours of the day that were seen."""
        return int(milliseconds or 0) / (HOUR_MS * self.hours_of_day)


def read_digest(tables: Tables, *, days: int, until: date | None) -> Digest:
    """Read what the last `days` days of the tables say, or those that end with `until`.

    Raises:
        UsageError: there is nothing to tell of.

    """
    reader = _Reader(tables, *_period(tables, days, until))
    hours = tuple(_hours(reader))
    reader.hours_of_day = sum(hour.at.date() == reader.day for hour in hours) or 1
    services, clients = _counts(reader)
    return Digest(
        begin=reader.begin,
        end=reader.end,
        day=datetime.combine(reader.day, time(), UTC),
        hours=hours,
        waste=tuple(_waste(reader)),
        services=services,
        clients=clients,
        wasters=tuple(_wasters(reader)),
        savings=tuple(_savings(reader)),
        cohorts=tuple(_cohorts(reader)),
        surges=tuple(_surges(reader)),
        brokers=tuple(_brokers(reader)),
        weeks=tuple(_weeks(reader)),
        findings=tuple(_findings(reader)),
        quarantine=tuple(_quarantine(reader)),
    )


def _period(tables: Tables, days: int, until: date | None) -> tuple[datetime, datetime]:
    """Return the first and the last moment, both whole hours of which something is known."""
    if not tables.exists("coverage"):
        raise UsageError(f"there are no tables in {tables.path('')}: run batch or stream first")
    known = tables.read("coverage").selectExpr("unix_seconds(hour) AS at")
    last = int(datetime.combine(until, time(), UTC).timestamp()) + 86_400 if until else 1 << 40
    newest = known.where(f"at < {last}").selectExpr("max(at) AS at").collect()[0]["at"]
    if newest is None:
        raise UsageError(f"nothing is known of {until or 'any hour'} in {tables.path('')}")
    end = newest + 3600
    first = known.where(f"at >= {end - days * 86_400}").selectExpr("min(at) AS at").collect()[0]
    return datetime.fromtimestamp(first["at"], UTC), datetime.fromtimestamp(end, UTC)


def _hours(reader: _Reader) -> Iterator[Hour]:
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
    for row in reader.rows(
        "coverage",
        "SELECT unix_seconds(hour) AS at, sum(agents) AS agents, sum(minutes_seen) AS seen,"
        " sum(minutes_expected) AS expected FROM {t} WHERE {period} GROUP BY hour ORDER BY hour",
    ):
        sums = held.get(row["at"]) or defaultdict(int)
        yield Hour(
            datetime.fromtimestamp(row["at"], UTC),
            _whole(sums["connection_ms"]),
            _whole(sums["useful_ms"]),
            _whole(sums["waste_ms"]),
            _whole(sums["unknown_ms"]),
            _whole(sums["opened"]),
            _whole(row["agents"]),
            _whole(row["seen"]),
            _whole(row["expected"]),
        )


def _waste(reader: _Reader) -> Iterator[Waste]:
    for row in reader.rows(
        "hourly",
        "SELECT unix_seconds(hour) AS at, coalesce(cause, class) AS reason,"
        " sum(waste_ms) AS waste_ms FROM {t} WHERE {period} AND waste_ms > 0"
        " GROUP BY hour, coalesce(cause, class) ORDER BY hour, reason",
    ):
        at = datetime.fromtimestamp(row["at"], UTC)
        yield Waste(at, row["reason"], _whole(row["waste_ms"]))


def _counts(reader: _Reader) -> tuple[int, int]:
    services = [
        row["n"]
        for row in reader.rows(
            "coverage",
            "SELECT count(DISTINCT struct(cluster, namespace, service)) AS n FROM {t}"
            " WHERE {period}",
        )
    ]
    clients = [
        row["n"]
        for row in reader.rows(
            "daily",
            "SELECT hll_sketch_estimate(hll_union_agg(clients_sketch)) AS n FROM {t} WHERE {day}",
        )
    ]
    return _whole(services and services[0]), _whole(clients and clients[0])


def _wasters(reader: _Reader) -> Iterator[Waster]:
    for row in reader.rows(
        "top_wasters", "SELECT * FROM {t} WHERE {day} ORDER BY waste_ms DESC, cluster, rank"
    ):
        yield Waster(
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
        )


def _savings(reader: _Reader) -> Iterator[Saving]:
    for row in reader.rows(
        "savings",
        "SELECT * FROM {t} WHERE {day} ORDER BY connection_ms DESC, opened_saved DESC, fix,"
        " kafka_cluster, broker",
        _MOST_BROKERS,
    ):
        yield Saving(
            row["fix"],
            row["kafka_cluster"],
            row["broker_id"],
            row["broker"],
            reader.standing(row["connection_ms"]),
            _whole(row["opened_saved"]) / reader.hours_of_day,
            _whole(row["clients"]),
            row["max_connections"],
        )


def _cohorts(reader: _Reader) -> Iterator[Cohort]:
    for row in reader.rows(
        "version_cohorts",
        "SELECT * FROM {t} WHERE {day} ORDER BY clients DESC, library, library_version,"
        " client_kind",
    ):
        yield Cohort(
            row["library"],
            row["library_version"],
            row["client_kind"],
            _whole(row["clients"]),
            reader.standing(row["connection_ms"]),
            reader.standing(row["waste_ms"]),
            row["efficiency"],
        )


def _surges(reader: _Reader) -> Iterator[Surge]:
    # A rolling restart holds some connections twice for a moment; less than half is no surge.
    for row in reader.rows(
        "surge",
        "SELECT *, unix_seconds(hour) AS at FROM {t} WHERE {period}"
        " AND surge_ratio >= 1.5 ORDER BY peak_connections - steady_connections DESC,"
        " hour, kafka_cluster, broker, namespace, service",
    ):
        yield Surge(
            datetime.fromtimestamp(row["at"], UTC),
            row["kafka_cluster"],
            row["namespace"],
            row["service"],
            row["broker_id"],
            row["steady_connections"],
            _whole(row["peak_connections"]),
            _whole(row["opened"]),
            _whole(row["boots_started"]),
        )


def _brokers(reader: _Reader) -> Iterator[BrokerLoad]:
    peaks = {
        (row["kafka_cluster"], row["broker_id"], row["broker"]): _whole(row["peak"])
        for row in reader.rows(
            "hourly",
            "SELECT kafka_cluster, broker_id, broker, max(peak) AS peak FROM"
            " (SELECT kafka_cluster, broker_id, broker, sum(peak_connections) AS peak FROM {t}"
            " WHERE {period} GROUP BY hour, kafka_cluster, broker_id, broker)"
            " GROUP BY kafka_cluster, broker_id, broker",
        )
    }
    for row in reader.rows(
        "forecast",
        "SELECT * FROM {t} WHERE {day} ORDER BY share_of_limit DESC NULLS LAST,"
        " kafka_cluster, broker_id, broker",
        _MOST_BROKERS,
    ):
        key = (row["kafka_cluster"], row["broker_id"], row["broker"])
        held = _whole(row["connections"])
        yield BrokerLoad(
            *key, held, peaks.get(key, held), _whole(row["forecast_peak"]), row["max_connections"]
        )


def _weeks(reader: _Reader) -> Iterator[Week]:
    for row in reader.rows(
        "week_over_week",
        "SELECT * FROM {t} WHERE {day} ORDER BY abs(efficiency_change) DESC NULLS LAST,"
        " cluster, namespace, service",
    ):
        yield Week(
            row["cluster"],
            row["namespace"],
            row["service"],
            row["efficiency"],
            row["previous_efficiency"],
            _whole(row["waste_ms"]),
            _whole(row["previous_waste_ms"]),
            _whole(row["connection_ms"]),
            _whole(row["previous_connection_ms"]),
        )


def _findings(reader: _Reader) -> Iterator[Found]:
    for row in reader.rows(
        "findings",
        "SELECT finding, cause, severity, sum(active_ms) AS active_ms, sum(begun) AS begun,"
        " count(DISTINCT struct(cluster, namespace, service)) AS services FROM {t}"
        " WHERE {period} GROUP BY finding, cause, severity"
        " ORDER BY active_ms DESC, finding, cause",
    ):
        yield Found(
            row["finding"],
            row["cause"],
            row["severity"],
            _whole(row["services"]),
            _whole(row["active_ms"]),
            _whole(row["begun"]),
        )


def _quarantine(reader: _Reader) -> Iterator[Quarantined]:
    for row in reader.rows(
        "quarantine",
        "SELECT reason, count(*) AS texts, sum(raw_bytes) AS size FROM {t}"
        " GROUP BY reason ORDER BY texts DESC, reason",
    ):
        yield Quarantined(row["reason"], _whole(row["texts"]), _whole(row["size"]))


def _whole(value: Any) -> int:
    """Return a sum as an int; a sum of nothing is nothing here, where hours are added up."""
    return int(value or 0)


def _literal(moment: datetime) -> str:
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}+00:00'"
