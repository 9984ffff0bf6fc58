"""Hours whose tables are behind `silver`: written down so that a killed run's work is not lost."""

from __future__ import annotations

__all__ = ["StaleHours", "catch_up"]

from typing import TYPE_CHECKING, Any

from spark_rollups.jobs.refresh import refresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from spark_rollups.tables import Tables


class StaleHours:
    """A folder with an empty file for each hour that is to be made anew.

    A stream's lies in its checkpoint: if that is lost, all messages come again and so do their
    hours. A batch's lies beside the tables. Only names are written, so a kill cannot
    leave half of one; through Hadoop, so that any store that holds tables will do.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._path: Any = spark._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001 -- no public way
        self._folder = self._path(folder, "stale_hours")
        self._files = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def add(self, hours: Iterable[int]) -> None:
        """Remember hours; done twice it changes nothing."""
        for hour in hours:
            self._files.create(self._path(self._folder, str(hour)), True).close()

    def all(self) -> list[int]:
        """Return the hours that wait."""
        if not self._files.exists(self._folder):
            return []
        return sorted(
            int(each.getPath().getName()) for each in self._files.listStatus(self._folder)
        )

    def remove(self, hours: Iterable[int]) -> None:
        """Forget hours that have been made anew."""
        for hour in hours:
            self._files.delete(self._path(self._folder, str(hour)), False)


def catch_up(
    tables: Tables, stale: StaleHours, say: Callable[[str], None], also: Iterable[int] = ()
) -> None:
    """Make the tables behind `silver` anew for all hours that wait, and for others."""
    waiting = stale.all()
    refresh(tables, sorted({*waiting, *also}), say)
    stale.remove(waiting)
