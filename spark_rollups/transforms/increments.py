"""Silver's rows to what each series did in its hour: differences of the greatest values."""

from __future__ import annotations

__all__ = ["increments", "without_base"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_rollups.schemas import COUNTERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SERIES: Final = ("agent_id", "boot_id", "kind", "series")


def increments(rows: DataFrame) -> DataFrame:
    """Replace the counters by what they grew in the hour, and add how much of it was seen.

    `rows` must hold, for each row that counts, the series' last row before it. Only that one
    counts: where a counter falls (it must not), the answer must not depend on what else is there.
    """
    in_order = Window.partitionBy(*_SERIES).orderBy("hour")
    return rows.withColumns(
        {
            **{name: _growth(name, F.lag(name).over(in_order)) for name in COUNTERS},
            "minutes_seen": F.bit_count("minutes").cast("long"),
            "minutes_expected": _minutes(F.lag("at_greatest").over(in_order)),
        }
    )


def _growth(name: str, before: Column) -> Column:
    # A counter that was not known before began at 0 when it was: agents count from then on.
    # Not a bare greatest(difference, 0): that would make 0 of a difference that is not known.
    grown = F.col(name) - F.coalesce(before, F.lit(0))
    return F.when(grown.isNotNull(), F.greatest(grown, F.lit(0)))


def _minutes(before: Column) -> Column:
    """Count the minutes since the last batch that is known, or since the boot's start."""
    # A batch at a whole minute closes it; a boot that begins in a minute has that one as its first.
    base = F.coalesce(_minute(before - 1), _minute(F.col("since_ms")) - 1)
    return F.greatest(_minute(F.col("at_greatest") - 1) - base, F.lit(0).cast("long"))


def _minute(at_ms: Column) -> Column:
    """Count whole minutes in integers: what a double rounds, nobody would find."""
    return F.call_function("div", at_ms, F.lit(60_000))


def without_base(rows: DataFrame) -> DataFrame:
    """Keep the rows whose series may have a row before them that `rows` lacks.

    `rows` must hold, of each of its hours that counts, the hour before as well. A series whose
    counters were 0 then has nothing older, and each series is written at least once an hour:
    what is kept are rows whose hour before was lost.
    """
    earlier = F.lag("hour").over(Window.partitionBy(*_SERIES).orderBy("hour"))
    before = F.col("hour") - F.expr("INTERVAL 1 HOUR")
    began = F.timestamp_millis(F.col("since_ms"))
    return rows.withColumn("earlier", earlier).where(
        ~F.col("earlier").eqNullSafe(before) & (began < before)
    )
