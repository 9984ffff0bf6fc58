"""Makes the tables behind `silver` anew for the hours that changed, and for no others."""

from __future__ import annotations

__all__ = ["refresh"]

from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.errors import RollupsError
from spark_rollups.tables import Tables, hours_of
from spark_rollups.transforms import forecast as forecast_of
from spark_rollups.transforms import week_over_week as weeks
from spark_rollups.transforms.coverage import coverage
from spark_rollups.transforms.daily import daily
from spark_rollups.transforms.findings import findings
from spark_rollups.transforms.hourly import hourly
from spark_rollups.transforms.increments import increments, without_base
from spark_rollups.transforms.savings import savings
from spark_rollups.transforms.surge import surge
from spark_rollups.transforms.top_wasters import top_wasters
from spark_rollups.transforms.version_cohorts import version_cohorts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame

_BOOT: Final = ("agent_id", "boot_id")
_SERIES: Final = (*_BOOT, "kind", "series")
_TRIES: Final = 8
_HOURS_OF_DAY: Final = 24
_FIRST_LOOK_HOURS: Final = 48
_HOUR_MS: Final = 3_600_000


def refresh(tables: Tables, touched: Collection[int], say: Callable[[str], None]) -> None:
    """Write every table anew for the hours of silver that were touched, and what hangs on them.

    Raises:
        RollupsError: another writer changed the same hours again and again meanwhile.

    """
    if not touched:
        return

    def make_hours() -> list[int]:
        hours = _affected(tables, touched)
        say(f"making {len(hours)} hours anew")
        _write_hours(tables, hours)
        return hours

    hours = _undisturbed(tables, "silver", make_hours)
    days = sorted({datetime.fromtimestamp(hour * 3600, UTC).date() for hour in hours})

    def make_days() -> list[int]:
        say(f"making {len(days)} days anew")
        _write_days(tables, days)
        return hours

    def make_days_that_look_back() -> list[int]:
        _write_days_that_look_back(tables, days)
        return hours

    _undisturbed(tables, "hourly", make_days)
    _undisturbed(tables, "daily", make_days_that_look_back)


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


def _affected(tables: Tables, touched: Collection[int]) -> list[int]:
    """Return the touched hours, and those whose differences begin at a row of one of them."""
    later = tables.hours("silver", after=min(touched))
    if all(hour in touched for hour in later):
        return sorted(touched)
    silver = tables.read("silver").select("hour", *_SERIES)
    changed = tables.only(silver, "hour", touched).withColumn("changed", F.lit(True))
    rest = tables.only(silver, "hour", [hour for hour in later if hour not in touched])
    boots = changed.select(*_BOOT).distinct()
    rest = rest.join(boots, list(_BOOT), "left_semi").withColumn("changed", F.lit(False))
    from pyspark.sql import Window

    in_order = Window.partitionBy(*_SERIES).orderBy("hour")
    follows = changed.unionByName(rest).withColumn("after", F.lag("changed").over(in_order))
    return sorted({*touched, *hours_of(follows.where("after AND NOT changed"))})


def _rows(tables: Tables, hours: Collection[int]) -> DataFrame:
    """Return silver of these hours, with the row before it of each of their series."""
    silver = tables.read("silver")
    near = {*hours, *(hour - 1 for hour in hours)}
    rows = tables.only(silver, "hour", near)
    orphans = (
        tables.only(without_base(rows), "hour", hours)
        .groupBy(*_SERIES)
        .agg(F.min("hour").alias("first"), F.min("since_ms").alias("since_ms"))
        .persist()
    )
    try:
        far = [hour for hour in _hours_with_bases(tables, orphans, max(hours)) if hour not in near]
        if not far:
            return rows
        history = tables.only(silver, "hour", far)
        return rows.unionByName(history.join(orphans, list(_SERIES), "left_semi"))
    finally:
        orphans.unpersist()


def _hours_with_bases(tables: Tables, orphans: DataFrame, end: int) -> list[int]:
    """Return the hours before an end where series have the rows that their differences begin at.

    From the newest hour back, in steps that grow, until each series has a row before its first one
    here: an agent may be a year old, and one lost hour must not cost a look at that year.
    """
    keys = tables.read("silver").select("hour", *_SERIES)
    found, lost, step = set[int](), orphans.select(*_SERIES, "first", "since_ms"), _FIRST_LOOK_HOURS
    while True:
        since = lost.agg(F.min("since_ms")).head()[0]
        if since is None:
            return sorted(found)
        # Nobody has a row before its own start, unless its clock was set back: for that, a day.
        begin = (since - 1) // _HOUR_MS - _HOURS_OF_DAY
        near = [hour for hour in tables.hours("silver", after=begin) if hour < end][-step:]
        if not near:
            return sorted(found)
        hits = tables.only(keys, "hour", near).join(lost.select(*_SERIES, "first"), [*_SERIES])
        found.update(hours_of(hits))
        lost = lost.join(hits.where("hour < first"), list(_SERIES), "left_anti")
        end, step = near[0], step * 4


def _write_hours(tables: Tables, hours: Collection[int]) -> None:
    """Write the tables of hours.

    What one table is made from another is taken from memory: to read a table back that was just
    written costs more than to make it, where there is little in it.
    """
    with ExitStack() as kept:
        grown = _kept(kept, tables.only(increments(_rows(tables, hours)), "hour", hours))
        of_hours, covered = _kept(kept, hourly(grown)), _kept(kept, coverage(grown))
        tables.replace("hourly", of_hours, "hour", hours)
        tables.replace("coverage", covered, "hour", hours)
        tables.replace("findings", findings(grown), "hour", hours)
        tables.replace("surge", surge(of_hours, covered), "hour", hours)


def _write_days(tables: Tables, days: Collection[date]) -> None:
    of_days = tables.only(tables.read("hourly"), "hour", _hours_of(days))
    with ExitStack() as kept:
        day_rows = _kept(kept, daily(of_days))
        tables.replace("daily", day_rows, "day", days)
        tables.replace("top_wasters", top_wasters(day_rows), "day", days)
        tables.replace("savings", savings(day_rows), "day", days)
        tables.replace("version_cohorts", version_cohorts(day_rows), "day", days)


def _write_days_that_look_back(tables: Tables, days: Collection[date]) -> None:
    """Late data changes the days after it too, where they look back so far."""
    last = max(days) + timedelta(days=max(forecast_of.DAYS_BACK, weeks.DAYS_BACK))
    near = tables.read("daily").where(F.col("day").between(min(days), last))
    known = {row["day"] for row in near.select("day").distinct().collect()}
    for name, back in (("forecast", forecast_of.DAYS_BACK), ("week_over_week", weeks.DAYS_BACK)):
        after = {day + timedelta(days=ahead) for day in days for ahead in range(back + 1)}
        wanted = after & known | set(days)
        before = {day - timedelta(days=ago) for day in wanted for ago in range(back + 1)}
        with ExitStack() as kept:
            if name == "forecast":
                hours = tables.only(tables.read("hourly"), "hour", _hours_of(before))
                few = _kept(kept, hours.select(*forecast_of.COLUMNS))
                rows = forecast_of.forecast(few, _frame(tables, wanted))
            else:
                history = tables.only(tables.read("daily"), "day", before)
                rows = weeks.week_over_week(history, _frame(tables, wanted))
            tables.replace(name, rows, "day", wanted)


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
