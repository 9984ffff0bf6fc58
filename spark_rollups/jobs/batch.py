"""The batch job: what is new in folders, or a range of a topic, into the tables."""

from __future__ import annotations

__all__ = ["batch_files", "batch_kafka"]

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spark_rollups.jobs.ingest import Ingested, ingest
from spark_rollups.jobs.sources import (
    damaged_file,
    mark_read,
    new_files,
    passed_over,
    text_of_kafka,
    texts_of_files,
    texts_still_there,
)
from spark_rollups.jobs.stale import StaleHours, catch_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rollups.tables import Tables

_BYTES_AT_ONCE: Final = 2 * 2**30
"""Files are read in portions of this size: as much as a kill loses, and as one waits for a word."""
_BYTES_BETWEEN_REFRESHES: Final = 64 * 2**30
"""The tables behind silver are made at the end, and before that only in a run beyond this size."""


class _Load:
    """Texts into silver, and later the hours that they changed into the tables behind it.

    The hours are written down beside the tables before silver has them: files and topics may be
    gone when the next run looks, and nothing else would tell it that a killed one left work.
    """

    def __init__(self, tables: Tables, say: Callable[[str], None]) -> None:
        self._tables = tables
        self._say = say
        self._stale = StaleHours(tables.spark, tables.root)
        # Kept here too: another run that makes the same hours would forget them for both.
        self._touched: set[int] = set()
        left = self._stale.all()
        if left:
            say(f"{len(left)} hours wait from a run that was interrupted")

    def take(self, texts: DataFrame) -> Ingested:
        """Join texts into silver."""
        loaded = ingest(self._tables, texts, about_to_change=self._change)
        self._say(
            f"{loaded.rows} rows in {len(loaded.hours)} hours, {loaded.quarantined} quarantined"
        )
        return loaded

    def _change(self, hours: Sequence[int]) -> None:
        self._touched.update(hours)
        self._stale.add(hours)

    def refresh(self) -> None:
        """Make the other tables for all hours that wait, those of an interrupted run too."""
        catch_up(self._tables, self._stale, self._say, self._touched)
        self._touched.clear()


def batch_files(
    tables: Tables, inputs: Sequence[str], say: Callable[[str], None]
) -> list[Ingested]:
    """Read every file that is new, remember the files, and bring the tables up to date."""
    hidden = list(passed_over(inputs, tables.root))
    if hidden:
        say(f"passed over {len(hidden)} names that begin with . or _, such as {hidden[0]}")
    files = new_files(tables, inputs).orderBy("modified", "path").collect()
    load, done = _Load(tables, say), []
    rest, unmade = len(files), 0
    for portion in _portions(files):
        size = sum(file["length"] for file in portion)
        rest -= len(portion)
        say(f"reading {len(portion)} files of {size / 1e6:.1f} MB, {rest} to go")
        done += _take(load, tables, portion, say)
        unmade += size
        if unmade > _BYTES_BETWEEN_REFRESHES:
            load.refresh()
            unmade = 0
    load.refresh()
    return done


def _take(
    load: _Load, tables: Tables, files: Sequence[Any], say: Callable[[str], None]
) -> list[Ingested]:
    """Read files and remember them; one that is damaged is read by itself, as far as it goes."""
    texts, found = texts_still_there(tables.spark, files)
    if len(found) < len(files):
        say(f"{len(files) - len(found)} files have gone since they were listed")
    if texts is None:
        return []
    try:
        done = [load.take(texts)]
    except Exception as error:
        damaged = damaged_file(error, found)
        if damaged is None:
            raise
        if len(found) == 1:
            done = [_take_damaged(load, tables, found[0], say)]
        else:
            apart = damaged or found[: len(found) // 2]
            rest = [file for file in found if file not in apart]
            return [*_take(load, tables, rest, say), *_take(load, tables, apart, say)]
    mark_read(tables, tables.spark.createDataFrame(found))
    return done


def _take_damaged(load: _Load, tables: Tables, file: Any, say: Callable[[str], None]) -> Ingested:
    """Read what comes before the damage, and set the file itself aside."""
    path = file["path"]
    say(f"{path} is damaged or cut short: what could be read of it is used")
    loaded = load.take(texts_of_files(tables.spark, [path], damaged=True))
    digest = hashlib.sha256(f"{path} {file['length']}".encode()).hexdigest()
    row = (digest, "a file that is damaged or cut short", "", file["length"], path)
    aside = tables.spark.createDataFrame(
        [row], "raw_sha256 string, reason string, raw string, raw_bytes long, source string"
    )
    tables.join("quarantine", aside, key=("raw_sha256",), updates={"source": "s.source"})
    return replace(loaded, quarantined=loaded.quarantined + 1)


def batch_kafka(
    tables: Tables, options: Mapping[str, str], say: Callable[[str], None]
) -> list[Ingested]:
    """Read a range of a topic; which one, the options say. Read twice it changes nothing."""
    messages = tables.spark.read.format("kafka").options(**options).load()
    load = _Load(tables, say)
    done = [load.take(text_of_kafka(messages))]
    load.refresh()
    return done


def _portions(files: Sequence[Any]) -> Iterator[list[Any]]:
    """Cut files into runs of at most so many bytes; a larger file is one by itself."""
    portion: list[Any] = []
    size = 0
    for file in files:
        if portion and size + file["length"] > _BYTES_AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += file["length"]
    if portion:
        yield portion
