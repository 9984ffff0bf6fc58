"""Records to the greatest and least by series and hour: what order and repetition cannot change.

Every column but the key is joined by greatest, least or bit_or, so the same function reduces
records and reduced rows alike, and MERGE joins a row with what the table has.
"""

from __future__ import annotations

__all__ = [
    "BAD",
    "GREATEST",
    "KEY",
    "LEAST",
    "bad_rows",
    "good_rows",
    "reduce_records",
    "state",
]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_rollups.schemas import COUNTERS, DIMENSIONS, INTERVALS, MINUTES, STATES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HOUR_MS: Final = 3_600_000

KEY: Final = ("hour", "agent_id", "boot_id", "kind", "series")
BAD: Final = ("raw_sha256", "reason", "raw", "raw_bytes", "source")
_STATE_COLUMNS: Final = tuple(f"state_{name}" for name in STATES)
LEAST: Final = ("since_ms", "seq_least", "at_least")
GREATEST: Final = (
    *COUNTERS,
    *INTERVALS,
    "seq_greatest",
    "at_greatest",
    *_STATE_COLUMNS,
    *DIMENSIONS,
)
_SHARED_BITS: Final = 32
_MINUTE: Final = "minute_of_hour"
_GREATEST_PEAK: Final = 2**31 - 1
"""No broker holds more, and the sums of such numbers fit in 64 bits."""


def state(name: str) -> Column:
    """Return the value that a state had in the last record of the hour, null where unknown."""
    value = F.col(f"state_{name}").bitwiseAND(F.lit(2**_SHARED_BITS - 1)) - 1
    return F.when(value >= 0, value)


def reduce_records(parsed: DataFrame) -> DataFrame:
    """Reduce what `parse` made, good and bad at once, to one row by key and dimensions.

    The dimensions are in the group's key although the series decides them: Spark hashes numbers,
    but sorts all records where it must find the greatest of texts.
    """
    # The record of 11:00:00.000 tells of the hour that ends then.
    before = F.col("at_ms") - 1
    agent = F.col("kind") == "agent"
    placed = parsed.withColumns(
        {
            "hour": F.timestamp_millis(before - F.pmod(before, F.lit(_HOUR_MS))),
            _MINUTE: F.expr("int((at_ms - 1) div 60000 % 60)"),
            "series": F.when(agent, F.lit(-1)).otherwise(F.col("series")),
        }
    )
    return placed.groupBy(*KEY, *DIMENSIONS, *BAD).agg(
        *(F.max(name).alias(name) for name in (*COUNTERS, *INTERVALS)),
        *(F.max(_packed(name)).alias(f"state_{name}") for name in STATES),
        F.bit_or(F.expr(f"shiftleft(1L, {_MINUTE})")).alias("minutes"),
        _by_minute(f"IF({_MINUTE} = {{at}}, least(peak_connections, {_GREATEST_PEAK}), NULL)"),
        F.min("since_ms").alias("since_ms"),
        F.min("seq").alias("seq_least"),
        F.max("seq").alias("seq_greatest"),
        F.min("at_ms").alias("at_least"),
        F.max("at_ms").alias("at_greatest"),
    )


def _by_minute(peak: str) -> Column:
    """Return the greatest of each minute; of who has no connections, nothing instead of 60 nulls.

    Sixty numbers and no map or list: those Spark would make by sorting all records. As one text:
    sixty columns of Python's cost a second of conversation with the JVM.
    """
    each = (f"max({peak.format(at=minute)})" for minute in range(MINUTES))
    array = F.expr(f"array({', '.join(each)})")
    return F.when(F.exists(array, F.isnotnull), array).alias("minute_peaks")


def _packed(name: str) -> Column:
    """Put `seq` above the value, so that the greatest is the value of the last record.

    A number instead of a struct, for the same reason as above. 0 in the value's place is null.
    """
    value = F.coalesce(F.col(name).cast("long") + 1, F.lit(0).cast("long"))
    return F.shiftleft(F.col("seq"), _SHARED_BITS) + value


def good_rows(reduced: DataFrame, *, twins: bool = True) -> DataFrame:
    """Return silver's rows: one a key, whatever somebody wrote into the dimensions.

    Without `twins`, rows of one series with other dimensions, there is nothing to reduce: Spark
    would sort all rows by their key to find the greatest of texts that are alone.
    """
    good = reduced.where("reason IS NULL")
    if not twins:
        return good.select(*KEY, *GREATEST, *LEAST, "minutes", "minute_peaks")
    return good.groupBy(*KEY).agg(
        *(F.max(name).alias(name) for name in GREATEST),
        *(F.min(name).alias(name) for name in LEAST),
        F.bit_or("minutes").alias("minutes"),
        _by_minute("get(minute_peaks, {at})"),
    )


def bad_rows(reduced: DataFrame) -> DataFrame:
    """Return quarantine's rows: one a text."""
    return (
        reduced.where("reason IS NOT NULL")
        .groupBy("raw_sha256")
        .agg(
            F.max("reason").alias("reason"),
            F.max("raw").alias("raw"),
            F.max("raw_bytes").alias("raw_bytes"),
            F.min("source").alias("source"),
        )
    )
