"""The tables in their folder: read, joined by key, and replaced by the hour or day."""

from __future__ import annotations

__all__ = ["Tables", "hours_of", "literal"]

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from spark_rollups.errors import RollupsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TRIES: Final = 8


class Tables:
    """Delta tables below one folder (or bucket), by name."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        # Delta takes a relative location for one below Spark's warehouse, and a relative path for
        # one below the working directory.
        path: Any = spark._jvm.org.apache.hadoop.fs.Path(root)  # noqa: SLF001 -- no public way
        files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        self.root = str(files.makeQualified(path).toString()).rstrip("/")

    def path(self, name: str) -> str:
        """Return where a table lies."""
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        """Tell whether a table has been made."""
        from delta.tables import DeltaTable

        return bool(DeltaTable.isDeltaTable(self.spark, self.path(name)))

    def read(self, name: str) -> DataFrame:
        """Return a table as it is now."""
        return self.spark.read.format("delta").load(self.path(name))

    def version(self, name: str) -> int:
        """Return the number of a table's last commit, without a Spark job for it."""
        jvm = self.spark._jvm  # noqa: SLF001 -- PySpark has no other way to Delta's log
        session = self.spark._jsparkSession  # noqa: SLF001
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, self.path(name))
        nothing = jvm.scala.Option.empty()
        return int(log.update(False, nothing, nothing).version())

    def open(self, name: str, columns: StructType, partition: str | None = None) -> None:
        """Make an empty table unless it is there; add the columns that an older one lacks.

        By appending no rows: CREATE TABLE fails where another writer, or one that was killed, has
        made the folder and not yet committed.
        """

        def append_nothing() -> None:
            if self.exists(name) and set(columns.names) <= set(self.read(name).columns):
                return
            nothing = self.spark.createDataFrame([], columns).write.format("delta").mode("append")
            nothing = nothing.partitionBy(partition) if partition else nothing
            nothing.option("mergeSchema", "true").save(self.path(name))

        self._retried(append_nothing)

    def join(
        self,
        name: str,
        rows: DataFrame,
        *,
        key: Sequence[str],
        updates: Mapping[str, str],
        within: str = "true",
    ) -> None:
        """Join rows into a table by key: what is there is changed by `updates`, the rest is new.

        One atomic commit that sees what others commit meanwhile (or begins anew). A replay writes
        the same rows again: Delta copies the files of all rows that match, changed or not, so a
        condition would only make the plan longer. `within` limits the part of the table that is
        looked at; `t` is the table, `s` the rows.
        """
        from delta.tables import DeltaTable

        same = " AND ".join(f"t.{column} <=> s.{column}" for column in key)

        def merge() -> None:
            merge = (
                DeltaTable.forPath(self.spark, self.path(name))
                .alias("t")
                .merge(rows.alias("s"), f"({within}) AND {same}")
            )
            if updates:
                merge = merge.whenMatchedUpdate(set=dict(updates))
            merge.whenNotMatchedInsertAll().withSchemaEvolution().execute()

        self._retried(merge)

    def forget(self, name: str, rows: DataFrame, *, key: str) -> None:
        """Delete the rows of a table that have the key of one of these."""
        from delta.tables import DeltaTable

        def merge() -> None:
            (
                DeltaTable.forPath(self.spark, self.path(name))
                .alias("t")
                .merge(rows.alias("s"), f"t.{key} = s.{key}")
                .whenMatchedDelete()
                .execute()
            )

        self._retried(merge)

    def join_hours(
        self,
        name: str,
        rows: DataFrame,
        hours: Collection[int],
        *,
        key: Sequence[str],
        updates: Mapping[str, str],
    ) -> None:
        """Join rows of these hours; the rest of the table is not even looked at."""
        within = f"t.hour IN ({_literals(hours)})"
        self.join(name, rows, key=key, updates=updates, within=within)

    def replace(
        self, name: str, rows: DataFrame, column: str, values: Collection[int] | Collection[date]
    ) -> None:
        """Write the rows of these hours or days in place of all that the table has of them."""
        if not values:
            return
        where = f"{column} IN ({_literals(values)})"

        def write() -> None:
            (
                rows.write.format("delta")
                .mode("overwrite")
                .partitionBy(column)
                .option("replaceWhere", where)
                .option("mergeSchema", "true")
                # A file an hour where there is little in it, not one for each task: opening them
                # again is what a day costs.
                .option("optimizeWrite", "true")
                .save(self.path(name))
            )

        self._retried(write)

    def hours(self, name: str, *, after: int | None = None) -> list[int]:
        """Return the hours that a table has, counted from the epoch; only those after one."""
        rows = self.read(name)
        return hours_of(rows if after is None else rows.where(f"hour > {literal(after)}"))

    def hours_changed(self, name: str, since: int) -> list[int]:
        """Return the hours that commits after a version have written, from Delta's log."""
        news = range(since + 1, self.version(name) + 1)
        if not news:
            return []
        commits = [f"{self.path(name)}/_delta_log/{number:020}.json" for number in news]
        lines = self.spark.read.schema("add struct<partitionValues: map<string, string>>")
        hour = F.col("add.partitionValues")["hour"].cast("timestamp").alias("hour")
        return hours_of(lines.json(commits).where("add IS NOT NULL").select(hour))

    def properties(self, name: str) -> dict[str, str]:
        """Return the properties of a table."""
        from delta.tables import DeltaTable

        detail = DeltaTable.forPath(self.spark, self.path(name)).detail()
        return dict(detail.select("properties").head()[0])

    def set_property(self, name: str, key: str, value: str) -> None:
        """Set a property of a table; Delta has no function for it."""
        path = self.path(name).replace("`", "``")
        self._retried(
            lambda: self.spark.sql(
                f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{key}' = '{value}')"
            )
        )

    def delete_before(self, name: str, column: str, hour: int) -> None:
        """Delete the hours before one, or the days that end before it: whole partitions."""
        from delta.tables import DeltaTable

        first = literal(hour) if column == "hour" else f"CAST({literal(hour)} AS DATE)"
        table = DeltaTable.forPath(self.spark, self.path(name))
        self._retried(lambda: table.delete(f"{column} < {first}"))

    def compact(self, name: str) -> tuple[int, int]:
        """Put the small files of each partition together; return how many went, and came."""
        from delta.tables import DeltaTable

        made: list[Any] = []

        def optimize() -> None:
            table = DeltaTable.forPath(self.spark, self.path(name))
            made[:] = table.optimize().executeCompaction().select("metrics.*").collect()

        self._retried(optimize)
        return (
            sum(int(row["numFilesRemoved"]) for row in made),
            sum(int(row["numFilesAdded"]) for row in made),
        )

    def vacuum(self, name: str) -> None:
        """Delete the files that no version of the last seven days has: Delta's own limit.

        A job that began to read such a version earlier would fail; one of another length is the
        table's property `delta.deletedFileRetentionDuration`.
        """
        from delta.tables import DeltaTable

        DeltaTable.forPath(self.spark, self.path(name)).vacuum()

    def count(self, name: str) -> int:
        """Return how many rows a table has; 0 where there is none."""
        return self.read(name).count() if self.exists(name) else 0

    @staticmethod
    def only(rows: DataFrame, column: str, values: Collection[int] | Collection[date]) -> DataFrame:
        """Keep the rows of these hours or days, in a way that reads no other files."""
        if not values:
            return rows.where(F.lit(False))
        return rows.where(f"{column} IN ({_literals(values)})")

    @staticmethod
    def _retried(write: Callable[[], Any]) -> None:
        """Begin again when another writer was first; Delta's classes for it are all siblings."""
        from delta import exceptions

        conflicts = tuple(getattr(exceptions, name) for name in exceptions.__all__)
        for _ in range(_TRIES):
            try:
                write()
            except conflicts as error:
                last = error
            else:
                return
        raise RollupsError("other writers kept changing the same hours") from last


def hours_of(rows: DataFrame) -> list[int]:
    """Return the distinct hours of rows, counted from the epoch, in order."""
    hours = rows.select(F.expr("unix_seconds(hour) div 3600").alias("hour")).distinct()
    return sorted(row["hour"] for row in hours.collect())


def _literals(values: Collection[int] | Collection[date]) -> str:
    """Return hours (counted from the epoch) or days as literals that no time zone can move."""
    return ", ".join(sorted(literal(value) for value in values))


def literal(value: int | date) -> str:
    """Return a time, an hour (counted from the epoch) or a day as a literal of Spark's SQL.

    No time zone can move it.
    """
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}+00:00'"
    if isinstance(value, date):
        return f"DATE '{value:%Y-%m-%d}'"
    return literal(datetime.fromtimestamp(value * 3600, UTC))
