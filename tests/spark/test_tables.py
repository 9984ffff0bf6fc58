"""The tables in their folder: where it is, what an older version made, and two who write at once."""

from __future__ import annotations

import os
import threading

import pytest

from tests.spark.comparing import differences
from tests.spark.fleets import batch
from tests.spark.journals import Agent


def journal_of(folder, name="a", hours=1, begin=0):
    """Write the journal of an agent whose connection sends 10 bytes a minute, from an hour on."""
    agent = Agent(agent_id=name)
    agent.series(1)
    for _ in range(60 * (begin + hours)):
        agent.grow(1, connection_ms=60_000, useful_ms=60_000, bytes_out=10)
        agent.write()
    folder.mkdir(parents=True, exist_ok=True)
    lines = agent.lines()[2 * 60 * begin :]
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


def sent(tables):
    rows = tables.read("hourly").orderBy("hour").select("bytes_out").collect()
    return [row[0] and int(row[0]) for row in rows]


@pytest.fixture(scope="module")
def first(spark, tmp_path_factory):
    """Return tables of one hour, below a folder that was given as a relative path."""
    from spark_rollups.tables import Tables

    folder = tmp_path_factory.mktemp("first")
    tables = Tables(spark, os.path.relpath(folder / "tables"))
    batch(tables, os.path.relpath(journal_of(folder / "journal")))
    return folder, tables


def test_a_relative_folder_is_below_the_working_directory(first):
    """Delta put its tables below Spark's warehouse and then looked for them elsewhere."""
    folder, tables = first
    assert sent(tables) == [600]
    assert (folder / "tables" / "hourly" / "_delta_log").is_dir()


def test_the_columns_of_silver_are_what_records_are_reduced_to(spark):
    from spark_rollups.schemas import silver_type
    from spark_rollups.transforms.lattice import good_rows, reduce_records
    from spark_rollups.transforms.parse import parse

    nothing = spark.createDataFrame([], "raw string, source string")
    made = good_rows(reduce_records(parse(nothing))).schema
    assert {each.name: each.dataType for each in silver_type()} == {
        each.name: each.dataType for each in made
    }


@pytest.fixture
def aged(spark, first, tmp_path):
    """Return tables as a version made them that did not know some of the fields."""
    from spark_rollups.tables import Tables

    _, tables = first
    older = Tables(spark, str(tmp_path / "older"))
    unknown = ("bytes_out", "state_instances", "peak_opened_sum", "bytes_per_connection_hour")
    for name, column in (("silver", "hour"), ("hourly", "hour"), ("daily", "day")):
        rows = tables.read(name).drop(*unknown)
        rows.write.format("delta").partitionBy(column).save(older.path(name))
    return older


def test_tables_made_before_a_field_was_added_take_a_batch(aged, tmp_path):
    batch(aged, journal_of(tmp_path / "second", hours=1, begin=1))
    rows = aged.read("silver").where("kind = 'connections'").orderBy("hour")
    assert [row["bytes_out"] for row in rows.collect()] == [None, 1200]
    # What the first hour sent is not known: it is counted where the counter is first seen.
    assert sent(aged) == [None, 1200]


def test_tables_made_before_a_field_was_added_can_be_made_again(aged):
    from spark_rollups.jobs.refresh import refresh

    refresh(aged, aged.hours("silver"), print)
    assert [row["bytes_out"] for row in aged.read("hourly").collect()] == [None]
    assert aged.read("daily").count() == 1


def test_a_table_is_made_where_another_writer_has_begun_to(tables, tmp_path):
    """A writer makes the folder, the log's folder and its files first, and commits them last."""
    from spark_rollups.schemas import silver_type

    begun = tmp_path / "tables" / "silver"
    (begun / "_delta_log").mkdir(parents=True)
    tables.open("silver", silver_type(), "hour")
    assert tables.read("silver").schema == silver_type()

    (tmp_path / "tables" / "quarantine").mkdir()
    (tmp_path / "tables" / "quarantine" / "part-0.parquet").write_bytes(b"not committed")
    tables.open("quarantine", silver_type())
    assert tables.count("quarantine") == 0


def test_who_loses_a_race_for_a_partition_writes_again(spark, tables):
    """The slow one has read before the fast one commits, and commits after it: a sure conflict."""
    from pyspark.sql import functions as F

    def rows(figure, sleep=0):
        wait = F.expr(f"java_method('java.lang.Thread', 'sleep', {sleep}L)")
        made = spark.range(1).select(
            F.timestamp_seconds(F.lit(0)).alias("hour"),
            F.lit(figure).alias("figure"),
            wait.alias("w"),
        )
        return made.select("hour", "figure", F.length(F.coalesce("w", F.lit(""))).alias("w"))

    tables.replace("hourly", rows(0), "hour", [0])
    failed, started = [], threading.Event()

    def slowly():
        try:
            started.set()
            tables.replace("hourly", rows(1, sleep=4000), "hour", [0])
        except Exception as error:  # noqa: BLE001 -- told below
            failed.append(error)

    slow = threading.Thread(target=slowly)
    slow.start()
    started.wait()
    while slow.is_alive() and tables.version("hourly") < 2:
        tables.replace("hourly", rows(2), "hour", [0])
    slow.join()
    assert failed == []
    assert [row["figure"] for row in tables.read("hourly").collect()] == [1]


def test_two_batches_into_an_empty_folder_are_one_of_both(spark, tmp_path):
    from spark_rollups.tables import Tables

    inputs = [journal_of(tmp_path / name, name) for name in ("one", "two")]
    folder, failed = str(tmp_path / "both"), []
    together = threading.Barrier(2)

    def run(journal):
        try:
            mine = Tables(spark.newSession(), folder)
            together.wait()
            batch(mine, journal)
        except Exception as error:  # noqa: BLE001 -- told below
            failed.append(error)

    writers = [threading.Thread(target=run, args=[journal]) for journal in inputs]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    alone = Tables(spark, str(tmp_path / "alone"))
    batch(alone, *inputs)
    assert differences(Tables(spark, folder), alone) == {}
