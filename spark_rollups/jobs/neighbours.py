"""Neighbours in `silver`: the rows that differences begin at, and those that begin at them."""

from __future__ import annotations

__all__ = ["affected", "rows_with_bases"]

from bisect import bisect_right
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.schemas import NULLABLE
from spark_rollups.tables import hours_of
from spark_rollups.transforms.increments import without_base
from spark_rollups.transforms.lattice import state

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame

    from spark_rollups.tables import Tables

_BOOT: Final = ("agent_id", "boot_id")
_SERIES: Final = (*_BOOT, "kind", "series")
_HOURS_OF_DAY: Final = 24
_FIRST_LOOK_HOURS: Final = 48
_HOUR_MS: Final = 3_600_000


def affected(tables: Tables, touched: Collection[int]) -> list[int]:
    """Return the touched hours, and those whose differences begin at a row of one of them.

    Those are nearly always the next hours: a series is written at least once an hour. So the search
    goes forward in steps that grow, until each series has been met again or its boot is over.
    """
    later = tables.hours("silver", after=min(touched))
    begins = set(touched)
    if begins.issuperset(later):
        return sorted(begins)
    silver = tables.read("silver").select("hour", *_SERIES, *NULLABLE, "state_final", "since_ms")
    agents = tables.only(silver, "hour", begins).select("agent_id").distinct()
    step = _FIRST_LOOK_HOURS
    while True:
        near = _next_hours(later, begins, step)
        rows = tables.only(silver, "hour", near | begins).join(agents, "agent_id", "left_semi")
        follows = _follows(rows.withColumn("changed", _is_one_of(begins))).persist()
        try:
            if begins.union(near).issuperset(later) or not _goes_on(follows).head(1):
                return sorted(begins.union(hours_of(follows.where("follows AND NOT changed"))))
        finally:
            follows.unpersist()
        step *= 4


def _next_hours(later: Sequence[int], begins: Collection[int], step: int) -> set[int]:
    """Return, after each of some hours, so many of the later ones."""
    ends = (bisect_right(later, begin) for begin in begins)
    return {hour for end in set(ends) for hour in later[end : end + step]}


def _is_one_of(hours: Collection[int]) -> Column:
    return F.expr("unix_seconds(hour) div 3600").isin(sorted(hours))


def _follows(rows: DataFrame) -> DataFrame:
    """Add whether a row's differences begin at a row that has changed, and whether it is met again.

    A counter's begin where it was last known: that may be rows before.
    """
    in_order = Window.partitionBy(*_SERIES).orderBy("hour")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    after = in_order.rowsBetween(1, Window.unboundedFollowing)
    known = [
        F.col(name).isNotNull()
        & F.last(F.when(F.col(name).isNotNull(), F.col("changed")), ignorenulls=True).over(before)
        for name in NULLABLE
    ]
    # Enough is a row after it that knows each counter that this one knows.
    again = [
        F.col(name).isNull() | F.coalesce(F.max(F.col(name).isNotNull()).over(after), F.lit(False))
        for name in NULLABLE
    ]
    follows = reduce(or_, known, F.lag("changed").over(in_order))
    met = F.lead("hour").over(in_order).isNotNull()
    return rows.withColumns(
        {
            "follows": F.coalesce(follows, F.lit(False)),
            "met": reduce(and_, again, met),
        }
    )


def _goes_on(follows: DataFrame) -> DataFrame:
    """Return changed rows that are not met again though their boot may go on.

    It does not where its last batch was the final one, or where its agent has begun another boot.
    """
    agents = follows.where("kind = 'agent'").groupBy(*_BOOT)
    boots = agents.agg(F.max(state("final")).alias("final"), F.min("since_ms").alias("began"))
    newest = boots.groupBy("agent_id").agg(F.max("began").alias("newest"))
    over = boots.join(newest, "agent_id").where("final = 1 OR began < newest")
    return follows.where("changed AND NOT met").join(over, list(_BOOT), "left_anti")


def rows_with_bases(tables: Tables, hours: Collection[int]) -> DataFrame:
    """Return silver of these hours, with the row before it of each of their series."""
    silver = tables.read("silver")
    near = {*hours, *(hour - 1 for hour in hours)}
    rows = tables.only(silver, "hour", near)
    orphans = (
        tables.only(without_base(rows), "hour", hours)
        .groupBy(*_SERIES)
        .agg(
            F.min("hour").alias("first"),
            F.min("since_ms").alias("since_ms"),
            *(F.bool_or(f"wants_{name}").alias(f"wants_{name}") for name in NULLABLE),
        )
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
    keys = tables.read("silver").select("hour", *_SERIES, *NULLABLE)
    found, lost, step = set[int](), orphans, _FIRST_LOOK_HOURS
    # A row will do that knows all that is wanted.
    enough = [~F.col(f"wants_{name}") | F.col(name).isNotNull() for name in NULLABLE]
    while True:
        since = lost.agg(F.min("since_ms")).head()[0]
        if since is None:
            return sorted(found)
        # Nobody has a row before its own start, unless its clock was set back: for that, a day.
        begin = (since - 1) // _HOUR_MS - _HOURS_OF_DAY
        near = [hour for hour in tables.hours("silver", after=begin) if hour < end][-step:]
        if not near:
            return sorted(found)
        hits = tables.only(keys, "hour", near).join(lost.drop("since_ms"), [*_SERIES])
        hits = hits.where("hour < first")
        found.update(hours_of(hits))
        lost = lost.join(hits.where(reduce(and_, enough)), list(_SERIES), "left_anti")
        end, step = near[0], step * 4
