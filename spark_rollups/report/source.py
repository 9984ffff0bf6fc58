"""The tables as the report sees them: of one period, with the columns that it reads."""

from __future__ import annotations

__all__ = ["Source", "columns_of", "first", "made", "moment", "values_of"]

from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_rollups.report.digest import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from spark_rollups.report.period import Period
    from spark_rollups.tables import Tables

_HOUR: Final = 3600
_SERVICE: Final = "cluster string, namespace string, service string"
_BROKER: Final = "kafka_cluster string, broker_id int, broker string"
_SUMS: Final = ", ".join(
    f"{name} decimal(38,0)"
    for name in ("connection_ms", "useful_ms", "waste_ms", "unknown_ms", "opened")
)
_READ: Final = {
    "coverage": f"hour timestamp, {_SERVICE}, agents bigint, agents_at_end bigint,"
    " boots_started bigint, covered_ms decimal(38,0), minutes_seen decimal(38,0),"
    " minutes_expected decimal(38,0)",
    "hourly": f"hour timestamp, {_SERVICE}, {_BROKER}, class string, cause string, {_SUMS},"
    " peak_connections decimal(38,0), peak_opened bigint, peak_opened_sum decimal(38,0)",
    "brokers": f"hour timestamp, {_BROKER}, connections decimal(38,0), expected decimal(38,0),"
    " max_connections bigint, series bigint, minute_connections array<decimal(38,0)>",
    "daily": f"day date, {_SERVICE}, client_kind string, library string, library_version string,"
    f" class string, cause string, {_SUMS}, clients_sketch binary",
    "savings": f"day date, {_BROKER}, fix string, max_connections bigint,"
    " connection_ms decimal(38,0), opened_saved decimal(38,0)",
    "forecast": f"day date, {_BROKER}, connections decimal(38,0), forecast_peak decimal(38,0),"
    " max_connections bigint",
    "findings": f"hour timestamp, {_SERVICE}, finding string, cause string, severity string,"
    " active_ms decimal(38,0), begun decimal(38,0)",
    "quarantine": "reason string, raw_bytes bigint",
}
"""A table that is not there yet is an empty one; of a column that an older one lacks, nothing is
known."""

_T = TypeVar("_T")


def columns_of(tables: Tables, table: str) -> DataFrame:
    """Return a table with all columns that the report reads of it, and no others."""
    if not tables.exists(table):
        return tables.spark.createDataFrame([], _READ[table])
    rows = tables.read(table)
    columns = (
        F.col(field.name) if field.name in rows.columns
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in StructType.fromDDL(_READ[table]).fields
    )  # fmt: skip
    return rows.select(*columns)


class Source:
    """The tables of one folder, asked about one period; all times are UTC."""

    def __init__(self, tables: Tables, period: Period) -> None:
        self._tables = tables
        self._frames: dict[str, DataFrame] = {}
        self.period = period
        self.day_ms = HOUR_MS * period.hours_of_day
        """How much of the day is in its tables."""

    def all(self, table: str) -> DataFrame:
        """Return a whole table, as it was when it was first asked for."""
        if table not in self._frames:
            self._frames[table] = columns_of(self._tables, table)
        return self._frames[table]

    def hours(self, table: str) -> DataFrame:
        """Return the hours of the period."""
        hour = F.col("hour")
        begin, end = F.lit(self.period.begin), F.lit(self.period.end)
        return self.all(table).where((hour >= begin) & (hour < end))

    def day(self, table: str) -> DataFrame:
        """Return the last day of the period."""
        return self.all(table).where(F.col("day") == F.lit(self.period.day.date()))

    def standing(self, milliseconds: str) -> Column:
        """Return connections on average over the hours of the day that were seen."""
        return F.coalesce(milliseconds, F.lit(0)).cast("double") / F.lit(self.day_ms)

    def course(
        self, rows: DataFrame, keys: Sequence[tuple[Any, ...]], names: Sequence[str], figure: str
    ) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Return a figure hour by hour for some keys; 0 where others were seen, else None.

        `rows` has a row for each hour and key; a null in a key is a value of its own.
        """
        wanted = [
            reduce(and_, (F.col(n).eqNullSafe(F.lit(v)) for n, v in zip(names, key, strict=True)))
            for key in keys
        ]
        if not wanted:
            return {}
        begin, end = (int(at.timestamp()) for at in (self.period.begin, self.period.end))
        seen = {int(hour.at.timestamp()) for hour in self.period.hours}
        nothing = [0 if at in seen else None for at in range(begin, end, _HOUR)]
        found: dict[tuple[Any, ...], list[Any]] = {key: list(nothing) for key in keys}
        columns = F.unix_seconds("hour").alias("at"), *names, figure
        for row in rows.where(reduce(or_, wanted)).select(*columns).collect():
            at = (row["at"] - begin) // _HOUR
            found[tuple(row[name] for name in names)][at] = _plain(row[figure])
        return {key: tuple(values) for key, values in found.items()}


def first(rows: DataFrame, most: int, *order: Any) -> tuple[list[Any], int]:
    """Return the first rows of an order, and how many there are in all."""
    found = rows.orderBy(*order).limit(most).collect()
    return found, len(found) if len(found) < most else rows.count()


def made(kind: type[_T], row: Any, **given: Any) -> _T:
    """Make a value from the columns of a row that have its fields' names."""
    return kind(**(values_of(kind, row) | given))


def values_of(kind: type, row: Any) -> dict[str, Any]:
    """Return the columns of a row that have the names of a NamedTuple's fields."""
    columns = row.asDict()
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    values = {name: _plain(columns[name]) for name in fields if name in columns}
    if "at" in values:
        values["at"] = moment(values["at"])
    return values


def moment(seconds: int) -> datetime:
    """Return a time from what Spark says of it."""
    return datetime.fromtimestamp(seconds, UTC)


def _plain(value: Any) -> Any:
    """Return an exact sum as the int that it is."""
    return int(value) if isinstance(value, Decimal) else value
