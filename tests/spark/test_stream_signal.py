"""A real query, and a real signal while the main thread waits for Spark."""

from __future__ import annotations

import os
import signal
import threading
import time


def test_sigterm_stops_a_running_query_and_spark_goes_on(spark, tables, tmp_path):
    """The handler once asked Spark itself, on the connection that waited: Py4J's reentrant call."""
    from spark_rollups.commands.stopping import StopSignals
    from spark_rollups.commands.stream import follow
    from spark_rollups.jobs.streaming import Stream
    from tests.spark.fleets import quiet

    working = threading.Event()

    def take(rows, _number):
        rows.count()
        working.set()
        time.sleep(0.5)
        rows.count()

    def tell():
        assert working.wait(120)
        os.kill(os.getpid(), signal.SIGTERM)

    query = (
        spark.readStream.format("rate")
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    stream = Stream(tables, str(tmp_path / "checkpoint"), quiet)
    said = []
    teller = threading.Thread(target=tell)
    with StopSignals() as signals:
        teller.start()
        follow(stream, query, signals, said.append)
    teller.join()
    assert said == ["SIGTERM: stopping; the next run goes on from here"]
    assert not query.isActive
    assert query.exception() is None
    assert spark.range(3).count() == 3
