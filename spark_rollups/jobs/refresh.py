"""Makes the tables behind `silver` anew for the hours that changed, and for no others."""

from __future__ import annotations

__all__ = ["refresh"]

from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import functions as F

from spark_rollups.errors import RollupsError
from spark_rollups.jobs.neighbours import affected, rows_with_bases
from spark_rollups.jobs.retention import first_kept
from spark_rollups.schemas import silver_type
from spark_rollups.transforms import forecast as forecast_of
from spark_rollups.transforms.brokers import brokers
from spark_rollups.transforms.coverage import coverage
from spark_rollups.transforms.daily import daily
from spark_rollups.transforms.findings import findings
from spark_rollups.transforms.hourly import hourly, series_of
from spark_rollups.transforms.increments import increments
from spark_rollups.transforms.savings import savings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pyspark.sql import DataFrame

    from spark_rollups.tables import Tables

_TRIES: Final = 8
_HOURS_OF_DAY: Final = 24
_HOUR_MS: Final = 3_600_000
_HOURS_AT_ONCE, _DAYS_AT_ONCE = 168, 31
"""A year is no single job: what is kept in memory meanwhile is that of a week."""
_T = TypeVar("_T")


def refresh(tables: Tables, touched: Collection[int], say: Callable[[str], None]) -> None:
    """Write every table anew for the hours of silver that were touched, and what hangs on them.

    Raises:
        RollupsError: another writer changed the same hours again and again meanwhile.

    """
    if not touched:
        return
    tables.open("silver", silver_type(), "hour")
    begins = first_kept(tables)
    wanted = [hour for hour in touched if begins is None or hour > begins]
    if len(wanted) < len(touched):
        say(f"{len(touched) - len(wanted)} hours stay as they are: what retain keeps begins later")
    if not wanted:
        return

    def make_hours() -> list[int]:
        hours = affected(tables, wanted)
        for portion in _portions(hours, _HOURS_AT_ONCE):
            say(f"making {len(portion)} hours again")
            _write_hours(tables, portion, begins)
        return hours

    hours = _undisturbed(tables, "silver", make_hours)
    days = sorted({datetime.fromtimestamp(hour * 3600, UTC).date() for hour in hours})

    def make_days() -> list[int]:
        for portion in _portions(days, _DAYS_AT_ONCE):
            say(f"making {len(portion)} days again")
            _write_days(tables, portion)
        return hours

    def make_forecast() -> list[int]:
        for portion in _portions(days, _DAYS_AT_ONCE):
            _write_forecast(tables, portion)
        return hours

    _undisturbed(tables, "hourly", make_days)
    _undisturbed(tables, "daily", make_forecast)


def _portions(values: Sequence[_T], most: int) -> Iterator[Sequence[_T]]:
    for begin in range(0, len(values), most):
        yield values[begin : begin + most]


def _undisturbed(tables: Tables, source: str, make: Callable[[], list[int]]) -> list[int]:
    """Make tables from a source until nobody has changed it meanwhile; return the hours made.

    What another writer committed after ours had read is not in what ours wrote, perhaps over
    the other's. The other one cannot know; whoever is last looks again.
    """
    for _ in range(_TRIES):
        version = tables.version(source)
        hours = make()
        if tables.version(source) == version:
            return hours
        # An hour follows from those before it, never from later ones, which a stream keeps adding.
        if source == "silver" and all(
            hour > max(hours) for hour in tables.hours_changed(source, version)
        ):
            return hours
    raise RollupsError(f"{source} kept changing: is one of the writers running wild?")


def _write_hours(tables: Tables, hours: Collection[int], begins: int | None) -> None:
    """Write the tables of hours.

    What one table is made from another is taken from memory: to read a table back that was just
    written costs more than to make it, where there is little in it.
    """
    with ExitStack() as kept:
        known_from_ms = None if begins is None else begins * _HOUR_MS
        differences = increments(rows_with_bases(tables, hours), known_from_ms)
        grown = _kept(kept, tables.only(differences, "hour", hours))
        series = _kept(kept, series_of(grown))
        tables.replace("hourly", hourly(series), "hour", hours)
        tables.replace("brokers", brokers(series), "hour", hours)
        tables.replace("coverage", coverage(grown), "hour", hours)
        tables.replace("findings", findings(grown), "hour", hours)


def _write_days(tables: Tables, days: Collection[date]) -> None:
    of_days = tables.only(tables.read("hourly"), "hour", _hours_of(days))
    with ExitStack() as kept:
        day_rows = _kept(kept, daily(of_days))
        tables.replace("daily", day_rows, "day", days)
        tables.replace("savings", savings(day_rows), "day", days)


def _write_forecast(tables: Tables, days: Collection[date]) -> None:
    """Late data changes the days after it too, as far as they look back."""
    back = forecast_of.DAYS_BACK
    near = tables.read("daily").where(
        F.col("day").between(min(days), max(days) + timedelta(days=back))
    )
    known = {row["day"] for row in near.select("day").distinct().collect()}
    after = {day + timedelta(days=ahead) for day in days for ahead in range(back + 1)}
    wanted = after & known | set(days)
    before = {day - timedelta(days=ago) for day in wanted for ago in range(back + 1)}
    with ExitStack() as kept:
        hours = tables.only(tables.read("hourly"), "hour", _hours_of(before))
        few = _kept(kept, hours.select(*forecast_of.COLUMNS))
        loads = _kept(kept, tables.only(tables.read("brokers"), "hour", _hours_of(before)))
        rows = forecast_of.forecast(few, loads, _frame(tables, wanted))
        tables.replace("forecast", rows, "day", wanted)


def _kept(stack: ExitStack, rows: DataFrame) -> DataFrame:
    """Keep rows in memory until the stack ends: they are made once for all that follows."""
    kept = rows.persist()
    stack.callback(kept.unpersist)
    return kept


def _frame(tables: Tables, days: Collection[date]) -> DataFrame:
    return tables.spark.createDataFrame([(day,) for day in sorted(days)], "day date")


def _hours_of(days: Collection[date]) -> list[int]:
    starts = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in days]
    return [int(at.timestamp()) // 3600 + hour for at in starts for hour in range(_HOURS_OF_DAY)]
