"""Asks the tables about one period: Spark adds up, and what grows with the fleet is cut last."""

from __future__ import annotations

__all__ = ["Reader", "known", "moment", "whole"]

from datetime import UTC, datetime
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from spark_rollups.report.digest import HOUR_MS
from spark_rollups.tables import literal
from spark_rollups.transforms.surge import surge
from spark_rollups.transforms.top_wasters import top_wasters
from spark_rollups.transforms.version_cohorts import version_cohorts
from spark_rollups.transforms.week_over_week import week_over_week

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from spark_rollups.report.period import Period
    from spark_rollups.tables import Tables

_HOUR: Final = 3600
_LATER: Final = {
    "hourly": {"peak_opened_sum": "decimal(38,0)"},
    "coverage": {"agents_at_end": "bigint"},
}
"""Columns that tables of before an upgrade lack until something is written to them."""

_SOURCES: Final = {
    "surge": ("hourly", "coverage"),
    "top_wasters": ("daily",),
    "version_cohorts": ("daily",),
    "week_over_week": ("daily",),
}
"""What follows from tables by adding up: made here for one period, kept nowhere."""


class Reader:
    """Asks the tables of one folder about one period; all times are UTC."""

    def __init__(self, tables: Tables, period: Period) -> None:
        self._tables = tables
        self._conditions = {
            "period": f"hour >= {literal(period.begin)} AND hour < {literal(period.end)}",
            "day": f"day = {literal(period.day.date())}",
        }
        self._made: dict[str, Callable[[], DataFrame]] = {
            "surge": lambda: surge(self._of("hourly", "period"), self._of("coverage", "period")),
            "top_wasters": lambda: top_wasters(self._of("daily", "day")),
            "version_cohorts": lambda: version_cohorts(self._of("daily", "day")),
            "week_over_week": lambda: week_over_week(known(tables, "daily"), period.day.date()),
        }
        self.hours_of_day = period.hours_of_day
        self._begin = int(period.begin.timestamp())
        self._length = (int(period.end.timestamp()) - self._begin) // _HOUR
        self._seen = {(int(hour.at.timestamp()) - self._begin) // _HOUR for hour in period.hours}

    def rows(self, table: str, query: str, **values: float) -> list[Any]:
        """Return all rows of a query: of one that does not grow with the fleet.

        In it `{t}` is the table, `{period}` and `{day}` are conditions, `{name}` a number of ours.
        Texts of others never are: Delta's parser knows no parameters.
        """
        if not self._has(table):
            return []
        found: list[Any] = self.asked(table, query, **values).collect()
        return found

    def first(self, table: str, query: str, most: int, **values: float) -> tuple[list[Any], int]:
        """Return the first rows of a query that has an order, and how many there are in all."""
        if not self._has(table):
            return [], 0
        asked = self.asked(table, query, **values)
        rows = asked.limit(most).collect()
        return rows, len(rows) if len(rows) < most else asked.count()

    def course(
        self, rows: DataFrame, keys: Sequence[tuple[Any, ...]], names: Sequence[str], figure: str
    ) -> dict[tuple[Any, ...], tuple[float | None, ...]]:
        """Return a figure hour by hour for some keys; 0 where others were seen, else None.

        `rows` has a row for each hour and key; a null in a key is a value of its own.
        """
        wanted = [
            reduce(and_, (F.col(n).eqNullSafe(F.lit(v)) for n, v in zip(names, key, strict=True)))
            for key in keys
        ]
        if not wanted:
            return {}
        found: dict[tuple[Any, ...], list[float | None]] = {
            key: [0.0 if at in self._seen else None for at in range(self._length)] for key in keys
        }
        columns = rows.where(reduce(or_, wanted)).select(
            F.unix_seconds("hour").alias("at"), *names, figure
        )
        for row in columns.collect():
            at = (row["at"] - self._begin) // _HOUR
            value = row[figure]
            found[tuple(row[name] for name in names)][at] = None if value is None else float(value)
        return {key: tuple(values) for key, values in found.items()}

    def standing(self, milliseconds: Any) -> float:
        """Return connections on average over the hours of the day that were seen."""
        return int(milliseconds or 0) / (HOUR_MS * self.hours_of_day)

    def of_period(self, table: str) -> DataFrame | None:
        """Return the rows of a table of hours of the period; None where it is not there."""
        if not self._tables.exists(table):
            return None
        return self._of(table, "period")

    def asked(self, table: str, query: str, **values: float) -> DataFrame:
        """Return what a query would; the table must be there."""
        made = self._made.get(table)
        rows = made() if made else known(self._tables, table)
        rows.createOrReplaceTempView(f"report_{table}")
        return self._tables.spark.sql(
            query.format(t=f"report_{table}", **self._conditions, **values)
        )

    def _has(self, table: str) -> bool:
        return all(map(self._tables.exists, _SOURCES.get(table, (table,))))

    def _of(self, table: str, when: str) -> DataFrame:
        return known(self._tables, table).where(self._conditions[when])


def known(tables: Tables, table: str) -> DataFrame:
    """Return a table with every column that it has by now; null is what nobody has written."""
    rows = tables.read(table)
    missing = {name: of for name, of in _LATER.get(table, {}).items() if name not in rows.columns}
    return rows.select("*", *(F.lit(None).cast(of).alias(name) for name, of in missing.items()))


def whole(value: Any) -> int:
    """Return a sum as an int; a sum of nothing is nothing here, where hours are added up."""
    return int(value or 0)


def moment(seconds: int) -> datetime:
    """Return a time from what Spark says of it."""
    return datetime.fromtimestamp(seconds, UTC)
