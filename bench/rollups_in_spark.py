"""The rollups themselves on records in Parquet, and Spark's floors: `WHAT CORES RECORDS OUT`.

`rollups` writes `silver` and `hourly`, as the programs of the other engines do. `column` and
`columns` are the floors, `session` is what Spark costs before it does anything, `lines` and
`parsed` are the floors of the JSON, `records` makes Parquet of it.
"""

from __future__ import annotations

__all__ = ["main"]

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_rollups.jobs.sources import texts_of_files
from spark_rollups.session import spark_session
from spark_rollups.transforms.hourly import hourly, series_of
from spark_rollups.transforms.increments import increments
from spark_rollups.transforms.lattice import KEY, good_rows, reduce_records
from spark_rollups.transforms.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    """Do one thing in a session of its own."""
    what, cores, source, *rest = sys.argv[1:]
    spark = spark_session("bench", master=f"local[{cores}]", memory="3g")
    if what == "session":
        spark.range(1).collect()
    elif what == "lines":
        lines = spark.read.option("lineSep", "\n").text(source)
        lines.select(F.sum(F.octet_length("value"))).collect()
    elif what == "parsed":
        _sum(parse(texts_of_files(spark, [source])))
    elif what == "records":
        parse(texts_of_files(spark, [source])).write.parquet(rest[0])
    elif what == "rollups":
        _rollups(spark, source, rest[0])
    elif what == "column":
        spark.read.parquet(source).select(F.sum("connection_ms")).collect()
    else:
        _sum(spark.read.parquet(source))


def _sum(records: DataFrame) -> None:
    """Touch every column of every record and add up one number of it."""
    records.select(F.sum(F.pmod(F.xxhash64("*"), F.lit(1000)))).collect()


def _rollups(spark: SparkSession, source: str, out: str) -> None:
    reduced = reduce_records(spark.read.parquet(source)).persist()
    keys = reduced.groupBy(*KEY).count()
    good = good_rows(reduced, twins=not keys.where("count > 1").isEmpty())
    good.write.parquet(f"{out}/silver.parquet")
    reduced.unpersist()
    silver = spark.read.parquet(f"{out}/silver.parquet")
    hourly(series_of(increments(silver))).write.parquet(f"{out}/hourly.parquet")


if __name__ == "__main__":
    main()
