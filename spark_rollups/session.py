"""The Spark session of every command: local unless told otherwise, quiet, in UTC."""

from __future__ import annotations

__all__ = ["check_java", "spark_session"]

import os
import re
import shutil
import subprocess
import sys
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
_EXECUTOR_OPTIONS: Final = "spark.executor.extraJavaOptions"
_LOGGING: Final = Path(__file__).parent / "log4j2.properties"

# Small tables, one machine: Delta's and Spark's defaults are made for large clusters.
_LOCAL: Final = {
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
# Most runs are short, and HotSpot's second compiler took more of them than the data did: methods
# wait ten times longer for it. What is hot in a long run is still compiled.
_COMPILE_LATER: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# A generated method of a hundred columns took HotSpot's second compiler half a minute, and then it
# gave up: now it does so at once. What the first compiler makes of those few will do.
_GIVE_UP_SOON: Final = "-XX:MaxNodeLimit=10000 -XX:NodeLimitFudgeFactor=500"
_ALWAYS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # Nobody looks at the plans, and those of a hundred columns cost more to write than to run.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxToStringFields": "1",
    "spark.sql.lightweightPlanChangeValidation": "false",
    # HotSpot never compiles a method beyond 8000 bytes of bytecode, and the aggregates of a hundred
    # columns are such methods: interpreted, they took 20 times as long. Not fused, they are small.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # A first, small map before the map of groups: generated code for each key, of no use for many.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # What follows from a filter on 35 differences, column by column: minutes of planning, no use.
    "spark.sql.constraintPropagation.enabled": "false",
    # What is kept between two tables is read once or twice: its best encoding costs more to find.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Sketches of 128 groups and more would be made by sorting; so many of them, each of 4 KiB at
    # most, are 240 MB in the worst case, and a tenth of that in a usual one.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "60000",
    # Partitions find the hours: least and greatest of each column would be written, never read.
    "spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols": "2",
}


def spark_session(
    app: str,
    *,
    master: str | None = None,
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
) -> SparkSession:
    """Start Spark, or take the session that spark-submit has prepared.

    Under spark-submit its own master and jars stand; otherwise it is `local[*]` and the jars
    come from the cache.

    Raises:
        MissingPartError: there is no JDK, no PySpark, or no jars.

    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingPartError(
            "the rollups need PySpark: pip install 'brokerwire[spark]'"
        ) from error
    check_java()
    if _SUBMITTED in os.environ:
        # What spark-submit was told is known to its JVM only, and a SparkConf asks that one once
        # there is a way to it. Without this the cluster's job would run on local[*].
        SparkContext._ensure_initialized()  # noqa: SLF001 -- PySpark has no other way
    conf = SparkConf()
    chosen = dict(_ALWAYS)
    if not conf.contains("spark.master"):
        chosen["spark.master"] = master or "local[*]"
        if chosen["spark.master"].startswith("local"):
            chosen |= _LOCAL
        chosen["spark.driver.memory"] = memory
        chosen["spark.jars"] = ",".join(str(path) for path in jar_paths())
        logging = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        options = f"{logging} {_COMPILE_LATER} {_GIVE_UP_SOON} {java_options}"
        chosen["spark.driver.extraJavaOptions"] = options
        chosen["spark.ui.showConsoleProgress"] = "true" if sys.stderr.isatty() else "false"
    if not conf.contains(_EXECUTOR_OPTIONS):
        chosen[_EXECUTOR_OPTIONS] = _GIVE_UP_SOON
    for key, value in (chosen | dict(settings or {})).items():
        conf.set(key, value)
    return SparkSession.builder.config(conf=conf).appName(app).getOrCreate()


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
