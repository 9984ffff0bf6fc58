"""What an older version set aside comes into the tables after an upgrade."""

from __future__ import annotations

from tests.spark.fleets import quiet
from tests.spark.journals import Agent


def test_records_that_can_be_read_by_now_leave_the_quarantine(spark, tables, monkeypatch):
    """A record of an unknown kind of cause, a torn line, and a text that was kept cut."""
    from pyspark.sql import functions as F

    from spark_rollups import schemas
    from spark_rollups.jobs.ingest import ingest
    from spark_rollups.jobs.quarantine import read_again
    from spark_rollups.jobs.stale import StaleHours

    assert read_again(tables, quiet) == 0
    agent = Agent()
    agent.series(1)
    agent.write()
    good = agent.lines()
    torn, huge = good[0][:40], good[1] + " " * 70_000 + "x"

    def texts(lines):
        return spark.createDataFrame(
            [(line, "file") for line in lines], "raw string, source string"
        )

    with monkeypatch.context() as before:
        before.setattr(schemas, "SCHEMA_VERSION", 0)
        ingest(tables, texts([*good, torn, huge]))
    assert (tables.count("silver"), tables.count("quarantine")) == (0, 4)

    said = []
    assert read_again(tables, said.append) == 2
    assert said == ["2 texts of quarantine are records now, 2 are not"]
    assert tables.count("silver") == 2
    left = tables.read("quarantine").select(F.octet_length("raw"), "raw_bytes").collect()
    assert sorted(map(tuple, left)) == [(40, 40), (65_536, len(huge))]
    assert read_again(tables, quiet) == 0
    assert len(StaleHours(spark, tables.root).all()) == 1
