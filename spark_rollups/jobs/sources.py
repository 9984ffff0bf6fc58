"""Where texts come from: files that are new, and topics."""

from __future__ import annotations

__all__ = [
    "LONGEST_LINE",
    "damaged_file",
    "kafka_options",
    "mark_read",
    "new_files",
    "passed_over",
    "text_of_kafka",
    "texts_of_files",
    "texts_still_there",
]

import glob
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_rollups.tables import Tables

_FILES: Final = "inputs"
_FILE: Final = ("path", "length", "modified")
_PATTERN: Final = re.compile(r"[\[\]{}*?\\]")
_SCHEME: Final = re.compile(r"\w+:")
_DAMAGED: Final = re.compile(
    r"FAILED_READ_FILE\.(?!FILE_NOT_EXIST)\w+\] Encountered error while reading file (\S+?)\.?\s"
)
LONGEST_LINE: Final = 2**20
"""Bytes. An agent's lines have some thousand."""


def new_files(tables: Tables, inputs: Sequence[str]) -> DataFrame:
    """List the files below folders or patterns that were not read as they are now.

    A file that has grown since is new as a whole: what was in it before changes nothing.
    The tables themselves may lie below: they are no journals.
    """
    found = (
        tables.spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .load(list(inputs))
        .select("path", "length", F.unix_millis("modificationTime").alias("modified"))
        .where("length > 0")
        .where(~F.col("path").startswith(f"{tables.root}/"))
    )
    tables.open(_FILES, found.schema)
    return found.join(tables.read(_FILES), list(_FILE), "left_anti")


def passed_over(inputs: Sequence[str], tables_root: str = "") -> Iterator[str]:
    """Name what Spark does not read: names that begin with `.` or `_` are not data to it.

    Not what the tables keep under such names, should they lie below. Only of folders of this
    machine: elsewhere it would cost another listing.
    """
    own = Path(tables_root.removeprefix("file:")).resolve()
    for each in inputs:
        if _SCHEME.match(each.removeprefix("file:")):
            continue
        for root in glob.glob(each.removeprefix("file:")):  # noqa: PTH207 -- absolute or not
            if _is_hidden(Path(root).name):
                yield root
                continue
            for folder, folders, files in os.walk(root):
                if tables_root and Path(folder).resolve() == own:
                    folders.clear()
                    continue
                yield from (f"{folder}/{name}" for name in (*folders, *files) if _is_hidden(name))
                folders[:] = [name for name in folders if not _is_hidden(name)]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def texts_of_files(
    spark: SparkSession, paths: Sequence[str], *, damaged: bool = False
) -> DataFrame:
    """Return the lines of files and which file each is from.

    These are names and no patterns: what means something in a pattern is made to mean itself.
    Of `damaged` files what comes before the damage is returned.
    """
    names = [_PATTERN.sub(r"\\\g<0>", path) for path in paths]
    # Only \\n ends a record: a reader that also ends lines at \\r would cut texts that hold one.
    reader = spark.read.option("lineSep", "\n").option("ignoreMissingFiles", "true")
    reader = reader.option("ignoreCorruptFiles", str(damaged).lower())
    # A few kB of gzip can be a line of 300 MB. Hadoop's reader leaves out what is longer than this.
    reader = reader.option("mapreduce.input.linerecordreader.line.maxlength", LONGEST_LINE)
    return reader.text(names).select(
        F.col("value").alias("raw"), F.col("_metadata.file_path").alias("source")
    )


def texts_still_there(
    spark: SparkSession, files: Sequence[Any]
) -> tuple[DataFrame | None, list[Any]]:
    """Return the texts of those files that are where they were listed, and these files.

    Rotation takes files away meanwhile: what they held comes by their new names.
    """
    try:
        return texts_of_files(spark, [file["path"] for file in files]), list(files)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
    path_of: Any = spark._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001 -- no public way
    settings = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    paths = [path_of(file["path"]) for file in files]
    there = [
        file
        for file, path in zip(files, paths, strict=True)
        if path.getFileSystem(settings).exists(path)
    ]
    texts = texts_of_files(spark, [file["path"] for file in there]) if there else None
    return texts, there


def damaged_file(error: Exception, files: Sequence[Any]) -> list[Any] | None:
    """Return the file that Spark could not read to its end; [] is one of them, None another error.

    A gzip file that was cut short, or a disk with a bad block.
    """
    found = _DAMAGED.search(str(error))
    if found is None:
        return None
    path = urlsplit(unquote(found[1])).path
    return [file for file in files if urlsplit(file["path"]).path == path]


def mark_read(tables: Tables, files: DataFrame) -> None:
    """Remember files as read; only after all that is in them has reached every table."""
    updates = {"length": "s.length", "modified": "s.modified"}
    tables.join(_FILES, files.select(*_FILE), key=("path",), updates=updates)


def kafka_options(servers: str, topic: str, extra: Sequence[str]) -> dict[str, str]:
    """Return Spark's options for a topic; `extra` are `key=value` of the Kafka client's own."""
    settings = dict(pair.split("=", 1) for pair in extra)
    return {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "failOnDataLoss": "false",
        **{f"kafka.{key}": value for key, value in settings.items()},
    }


def text_of_kafka(messages: DataFrame) -> DataFrame:
    """Return each message's text and where it stands in its topic."""
    return messages.select(
        F.coalesce(F.col("value").cast("string"), F.lit("")).alias("raw"),
        F.concat_ws("/", "topic", "partition", "offset").alias("source"),
    )
