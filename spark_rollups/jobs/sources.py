"""Where texts come from: files that are new, and topics."""

from __future__ import annotations

__all__ = ["kafka_options", "mark_read", "new_files", "text_of_kafka", "texts_of_files"]

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_rollups.tables import Tables

_FILES: Final = "inputs"
_FILE: Final = ("path", "length", "modified")


def new_files(tables: Tables, inputs: Sequence[str]) -> DataFrame:
    """List the files below folders or patterns that were not read as they are now.

    A file that has grown since is new as a whole: what was in it before changes nothing.
    """
    found = (
        tables.spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .load(list(inputs))
        .select("path", "length", F.unix_millis("modificationTime").alias("modified"))
        .where("length > 0")
    )
    tables.create(_FILES, found)
    return found.join(tables.read(_FILES), list(_FILE), "left_anti")


def texts_of_files(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the lines of files and which file each is from."""
    # Only \\n ends a record: a reader that also ends lines at \\r would cut texts that hold one.
    lines = spark.read.option("lineSep", "\n").text(list(paths))
    return lines.select(F.col("value").alias("raw"), F.col("_metadata.file_path").alias("source"))


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
