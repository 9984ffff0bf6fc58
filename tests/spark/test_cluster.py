"""spark-submit to a standalone cluster: a master, two workers, nothing shared but files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.addresses import free_port
from tests.spark.command import JVM_FLAGS
from tests.spark.comparing import differences
from tests.spark.fleets import batch, simulate

_SECONDS = 300


@pytest.fixture
def cluster(tmp_path):
    """Start a master and two workers with a folder each; yield the master's address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": JVM_FLAGS,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    master = f"spark://127.0.0.1:{free_port()}"
    processes = []

    def start(name, *arguments):
        log = (tmp_path / f"{name}.log").open("w")
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}"]
        processes.append(
            (
                subprocess.Popen(
                    [*command, *arguments[1:]], stdout=log, stderr=log, env=environment
                ),
                log,
            )
        )

    port = master.rpartition(":")[2]
    try:
        start("master", "master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        for worker in ("one", "two"):
            start(
                worker,
                *("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"),
                *("--memory", "1g", "--work-dir", str(tmp_path / f"work-{worker}"), master),
            )
        deadline = time.monotonic() + _SECONDS
        logs = [tmp_path / "one.log", tmp_path / "two.log"]
        while not all("Successfully registered" in log.read_text("utf-8") for log in logs):
            assert time.monotonic() < deadline, logs[0].read_text("utf-8")[-3000:]
            time.sleep(0.2)
        yield master, home, environment
    finally:
        for process, log in processes:
            process.terminate()
            process.wait(60)
            log.close()


@pytest.mark.ondemand
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("spark")
def test_a_cluster_makes_the_tables_that_one_machine_makes(cluster, spark, tables, tmp_path):
    from spark_rollups.cli import main
    from spark_rollups.tables import Tables

    master, home, environment = cluster
    fleet = simulate(tmp_path / "fleet", agents=8, hours=2)
    batch(tables, fleet / "journal")

    parts = tmp_path / "parts"
    assert main(["package", "--to", str(parts)]) == 0
    done = subprocess.run(
        [
            *(str(home / "bin" / "spark-submit"), "--master", master),
            *("--jars", ",".join(map(str, parts.glob("*.jar")))),
            *("--py-files", str(parts / "spark_rollups.zip")),
            *("--executor-memory", "700m", "--driver-memory", "700m"),
            *("--conf", "spark.sql.shuffle.partitions=4"),
            *(str(parts / "rollups.py"), "batch"),
            *("--input", str(fleet / "journal"), "--tables", str(tmp_path / "far")),
        ],
        # Away from the project: what runs must come from the zip.
        cwd=tmp_path,
        env={**environment, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=_SECONDS * 3,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ran = {
        worker
        for worker in ("one", "two")
        for log in (tmp_path / f"work-{worker}").rglob("stderr")
        if re.search(r"Running task", log.read_text("utf-8"))
    }
    assert ran == {"one", "two"}
    assert differences(Tables(spark, str(tmp_path / "far")), tables) == {}
