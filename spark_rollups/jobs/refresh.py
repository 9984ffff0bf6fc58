"""Makes the tables behind `silver` anew for the hours that changed, and for no others."""

from __future__ import annotations

__all__ = ["refresh"]

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


def refresh(tables: Tables, touched: Collection[int], say: Callable[[str], None]) -> None:
    """Write every table anew for the hours of silver that were touched, and what hangs on them.

    Raises:
        RollupsError: another writer changed silver again and again meanwhile.

    """
    if not touched:
        return
    for _ in range(_TRIES):
        version = tables.version("silver")
        hours = _affected(tables, touched)
        say(f"making {len(hours)} hours anew")
        _write_hours(tables, hours)
        days = sorted({datetime.fromtimestamp(hour * 3600, UTC).date() for hour in hours})
        say(f"making {len(days)} days anew")
        _write_days(tables, days)
        # Another writer's rows may have come in after ours were read; it may also have written
        # its hours before we wrote ours. Whoever is last looks again.
        if tables.version("silver") == version:
            return
    raise RollupsError("silver kept changing: is one of the writers running wild?")


def _affected(tables: Tables, touched: Collection[int]) -> list[int]:
    """Return the touched hours, and those whose differences begin at a row of one of them."""
    later = [hour for hour in tables.hours("silver") if hour > min(touched)]
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
    orphans = tables.only(without_base(rows), "hour", hours).select(*_BOOT).distinct().persist()
    try:
        if orphans.isEmpty():
            return rows
        far = [hour for hour in tables.hours("silver") if hour < max(hours) and hour not in near]
        history = tables.only(silver, "hour", far)
        return rows.unionByName(history.join(orphans, list(_BOOT), "left_semi"))
    finally:
        orphans.unpersist()


def _write_hours(tables: Tables, hours: Collection[int]) -> None:
    grown = tables.only(increments(_rows(tables, hours)), "hour", hours).persist()
    try:
        tables.replace("hourly", hourly(grown), "hour", hours)
        tables.replace("coverage", coverage(grown), "hour", hours)
        tables.replace("findings", findings(grown), "hour", hours)
    finally:
        grown.unpersist()
    of_hours = tables.only(tables.read("hourly"), "hour", hours)
    covered = tables.only(tables.read("coverage"), "hour", hours)
    tables.replace("surge", surge(of_hours, covered), "hour", hours)


def _write_days(tables: Tables, days: Collection[date]) -> None:
    of_days = tables.only(tables.read("hourly"), "hour", _hours_of(days))
    tables.replace("daily", daily(of_days), "day", days)
    day_rows = tables.only(tables.read("daily"), "day", days).persist()
    try:
        tables.replace("top_wasters", top_wasters(day_rows), "day", days)
        tables.replace("savings", savings(day_rows), "day", days)
        tables.replace("version_cohorts", version_cohorts(day_rows), "day", days)
    finally:
        day_rows.unpersist()
    _write_days_that_look_back(tables, days)


def _write_days_that_look_back(tables: Tables, days: Collection[date]) -> None:
    """Late data changes the days after it too, where they look back so far."""
    known = {row["day"] for row in tables.read("daily").select("day").distinct().collect()}
    for name, back in (("forecast", forecast_of.DAYS_BACK), ("week_over_week", weeks.DAYS_BACK)):
        after = {day + timedelta(days=ahead) for day in days for ahead in range(back + 1)}
        wanted = after & known | set(days)
        before = {day - timedelta(days=ago) for day in wanted for ago in range(back + 1)}
        if name == "forecast":
            hours = tables.only(tables.read("hourly"), "hour", _hours_of(before))
            rows = forecast_of.forecast(hours, _frame(tables, wanted))
        else:
            history = tables.only(tables.read("daily"), "day", before)
            rows = weeks.week_over_week(history, _frame(tables, wanted))
        tables.replace(name, rows, "day", wanted)


def _frame(tables: Tables, days: Collection[date]) -> DataFrame:
    return tables.spark.createDataFrame([(day,) for day in sorted(days)], "day date")


def _hours_of(days: Collection[date]) -> list[int]:
    starts = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in days]
    return [int(at.timestamp()) // 3600 + hour for at in starts for hour in range(_HOURS_OF_DAY)]
