"""Silver's rows to what each series did in its hour: differences of the greatest values."""

from __future__ import annotations

__all__ = ["increments", "without_base"]

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.schemas import COUNTERS, NULLABLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SERIES: Final = ("agent_id", "boot_id", "kind", "series")


def increments(rows: DataFrame, known_from_ms: int | None = None) -> DataFrame:
    """Replace the counters by what they grew in the hour, and add how much of it was seen.

    `rows` must hold, for each row that counts, the series' last row before it. Only that one
    counts: where a counter falls (it must not), the answer must not depend on what else is there.
    Rows of before `known_from_ms` may have been deleted: a series that is older and has no row
    before has grown by nobody knows how much.
    """
    return rows.withColumns(
        {
            **{name: _growth(name, _before(name), known_from_ms) for name in COUNTERS},
            "minutes_seen": F.bit_count("minutes").cast("long"),
            "minutes_expected": _minutes(_before("at_greatest"), known_from_ms),
        }
    )


def _before(name: str) -> Column:
    """Return the value of the series' row before; of what may be unknown, the last one known."""
    in_order = Window.partitionBy(*_SERIES).orderBy("hour")
    if name not in NULLABLE:
        return F.lag(name).over(in_order)
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    return F.last(name, ignorenulls=True).over(earlier)


def _growth(name: str, before: Column, known_from_ms: int | None) -> Column:
    # A counter that was not known before began at 0 when it was: agents count from then on.
    nothing = F.lit(0)
    if known_from_ms is not None:
        nothing = F.when(F.col("since_ms") >= known_from_ms, nothing)
    # Not a bare greatest(difference, 0): that would make 0 of a difference that is not known.
    grown = F.col(name) - F.coalesce(before, nothing)
    return F.when(grown.isNotNull(), F.greatest(grown, F.lit(0)))


def _minutes(before: Column, known_from_ms: int | None) -> Column:
    """Count the minutes since the last batch that is known, or since the boot's start."""
    since = F.col("since_ms")
    if known_from_ms is not None:
        since = F.greatest(since, F.lit(known_from_ms))
    # A batch at a whole minute closes it; a boot that begins in a minute has that one as its first.
    base = F.coalesce(_minute(before - 1), _minute(since) - 1)
    return F.greatest(_minute(F.col("at_greatest") - 1) - base, F.lit(0).cast("long"))


def _minute(at_ms: Column) -> Column:
    """Count whole minutes in integers: what a double rounds, nobody would find."""
    return F.call_function("div", at_ms, F.lit(60_000))


def without_base(rows: DataFrame) -> DataFrame:
    """Keep the rows whose series may have a row before them that `rows` lacks.

    `rows` must hold, of each of its hours that counts, the hour before as well. A series whose
    counters were 0 then has nothing older, and each series is written at least once an hour:
    what is kept are rows whose hour before was lost, or did not know a counter that they know;
    `wants_NAME` says which.
    """
    previous = F.col("hour") - F.expr("INTERVAL 1 HOUR")
    began = F.timestamp_millis(F.col("since_ms"))
    oldest = F.min("hour").over(Window.partitionBy(*_SERIES))
    lost = ~F.col("earlier").eqNullSafe(previous) & (began < previous)
    found = rows.withColumns(
        {
            "earlier": _before("hour"),
            "older": began < oldest,
            **{f"known_{name}": _before(name) for name in NULLABLE},
        }
    ).withColumn("lost", lost)
    wants = {
        f"wants_{name}": F.col(name).isNotNull()
        & (F.col("lost") | (F.col("older") & F.col(f"known_{name}").isNull()))
        for name in NULLABLE
    }
    any_of = reduce(or_, (F.col(name) for name in wants), F.col("lost"))
    return found.withColumns(wants).where(any_of)
