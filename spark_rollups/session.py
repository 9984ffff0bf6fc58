"""The Spark session of every command: local unless told otherwise, quiet, in UTC."""

from __future__ import annotations

__all__ = ["check_java", "chosen_settings", "defaults_file", "spark_session"]

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_rollups.errors import MissingPartError
from spark_rollups.jars import jar_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_LEAST_JAVA: Final = 17
_ADVICE: Final = (
    "apt-get install openjdk-17-jre-headless, or set JAVA_HOME to a JDK of version 17 or later"
)
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the program that it starts."""
_LOGGING: Final = Path(__file__).parent / "log4j2.properties"

# The tables are of UTC hours and days, and Delta's: these are no matter of taste.
_ALWAYS: Final = {"spark.sql.session.timeZone": "UTC"}
_EXTENSIONS: Final = "spark.sql.extensions"
_DELTA: Final = "io.delta.sql.DeltaSparkSessionExtension"

# All others stand only where spark-submit, or spark-defaults.conf, says nothing.
_DEFAULTS: Final = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # HotSpot never compiles a method beyond 8000 bytes of bytecode, and the aggregates of a hundred
    # columns are such methods: interpreted, they took 20 times as long. Not fused, they are small.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # What follows from a filter on 35 differences, column by column: minutes of planning, no use.
    "spark.sql.constraintPropagation.enabled": "false",
    # Above 128 groups Spark makes sketches by sorting, a tenth of the time of 10 million records.
    # So many groups of 4 KiB at most are 240 MB at worst: give less to small executors.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "60000",
    # Partitions find the hours: least and greatest of each column would be written, never read.
    "spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols": "2",
}
# On one machine, for small tables: Delta's and Spark's defaults are made for large clusters.
_LOCAL: Final = {
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A port of its own for each run of some minutes.
    "spark.ui.enabled": "false",
    # Never written to: tables have a path. Spark would make the folder in the working directory.
    "spark.sql.warehouse.dir": Path(tempfile.gettempdir()).as_uri(),
}
_MASTER: Final = "spark.master"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def spark_session(
    app: str,
    *,
    master: str | None = None,
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or take the session that spark-submit has prepared.

    Under spark-submit its own master and jars stand; otherwise it is `local[*]` and the jars
    come from the cache. `settings` stand above all.

    Raises:
        MissingPartError: there is no JDK, no PySpark, or no jars.

    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingPartError(
            "the rollups need PySpark: pip install -e '.[spark]' in a checkout"
        ) from error
    check_java()
    if _SUBMITTED in os.environ:
        # What spark-submit was told is known to its JVM only, and a SparkConf asks that one once
        # there is a way to it. Without this the cluster's job would run on local[*].
        SparkContext._ensure_initialized()  # noqa: SLF001 -- PySpark has no other way
    conf = SparkConf()
    given = defaults_file(os.environ) | dict(conf.getAll())
    submitted = conf.contains(_MASTER)
    chosen = chosen_settings(given, submitted=submitted, master=master, memory=memory)
    if not submitted:
        theirs = given.get("spark.jars", "").split(",")
        chosen["spark.jars"] = ",".join(filter(None, [*theirs, *map(str, jar_paths())]))
    for key, value in (chosen | dict(settings or {})).items():
        conf.set(key, value)
    return SparkSession.builder.config(conf=conf).appName(app).getOrCreate()


def defaults_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what stands in Spark's file of defaults: without spark-submit PySpark looks too late.

    One setting a line: a name, space or an equals sign, and its value.
    """
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    path = Path(folder or "/nonexistent") / "spark-defaults.conf"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    found = (re.fullmatch(r"\s*([^#\s=:]+)\s*[\s=:]\s*(.*?)\s*", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def chosen_settings(
    given: Mapping[str, str], *, submitted: bool, master: str | None, memory: str
) -> dict[str, str]:
    """Return what to set beside what the operator has set; pure."""
    chosen = dict(_DEFAULTS)
    if not submitted and (master or given.get(_MASTER, "local")).startswith("local"):
        chosen |= _LOCAL
    chosen = {key: value for key, value in chosen.items() if key not in given} | _ALWAYS
    extensions = [each for each in given.get(_EXTENSIONS, "").split(",") if each]
    if _DELTA not in extensions:
        chosen[_EXTENSIONS] = ",".join([*extensions, _DELTA])
    if not submitted:
        chosen[_MASTER] = master or given.get(_MASTER, "local[*]")
        chosen["spark.driver.memory"] = memory
        chosen["spark.ui.showConsoleProgress"] = "true" if sys.stderr.isatty() else "false"
        logging = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        chosen[_JAVA_OPTIONS] = f"{logging} {given.get(_JAVA_OPTIONS, '')}".strip()
    return chosen


def check_java() -> None:
    """Make sure that there is a JDK that Spark runs on.

    Raises:
        MissingPartError: there is none, or it is too old; the message says how to get one.

    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise MissingPartError(f"Spark needs a JDK and there is none: {_ADVICE}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None or int(found[1]) < _LEAST_JAVA:
        version = found[1] if found else "unknown"
        raise MissingPartError(
            f"Spark needs a JDK of version 17 or later, not {version}: {_ADVICE}"
        )
