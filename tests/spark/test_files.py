"""Which files a batch reads: by their own names, once, and whatever happens to them meanwhile."""

from __future__ import annotations

import gzip
from types import SimpleNamespace

from tests.spark.fleets import quiet
from tests.spark.journals import Agent

MINUTES = 300
NAMES = ("a[1].jsonl", "a1.jsonl", "k=v{a,b}.jsonl", "back\\slash.jsonl", "with space%20.jsonl")


def test_a_file_is_read_by_its_own_name_and_hidden_ones_are_told_of(tables, spark, tmp_path):
    """A name that looks like a pattern was read as one: another file twice, and itself never."""
    from spark_rollups.jobs.sources import new_files, passed_over, texts_still_there

    folder = tmp_path / "journals"
    folder.mkdir()
    for name in (*NAMES, ".hidden.jsonl", "_also.jsonl"):
        (folder / name).write_text(f"{name}\n", "utf-8")
    files = new_files(tables, [str(folder)]).collect()
    texts, found = texts_still_there(spark, files)
    assert found == files
    assert sorted(row["raw"] for row in texts.collect()) == sorted(NAMES)
    hidden = {f"{folder}/.hidden.jsonl", f"{folder}/_also.jsonl"}
    assert set(passed_over([str(folder)])) == hidden == set(passed_over([f"file:{folder}"]))
    assert list(passed_over([f"{folder}/_*"])) == [f"{folder}/_also.jsonl"]
    assert list(passed_over(["s3a://journals"])) == []


def test_the_tables_are_no_journals(tables, tmp_path):
    """Who gives the folder above both would have their Parquet set aside, line by line."""
    from spark_rollups.jobs.sources import mark_read, new_files, passed_over

    (tmp_path / "journal.jsonl").write_text("x\n", "utf-8")
    files = new_files(tables, [str(tmp_path)])
    mark_read(tables, files)
    assert list((tmp_path / "tables").rglob("*.parquet"))
    listed = [row["path"] for row in tables.read("inputs").collect()]
    assert listed == [f"file:{tmp_path}/journal.jsonl"]
    assert new_files(tables, [str(tmp_path)]).collect() == []
    assert list(passed_over([str(tmp_path)]))
    assert list(passed_over([str(tmp_path)], tables.root)) == []


def test_a_file_that_has_gone_costs_nothing_but_itself(spark, tmp_path):
    """Rotation renames files between the listing and the reading; their new names are listed."""
    from spark_rollups.jobs.sources import texts_of_files, texts_still_there

    (tmp_path / "here.jsonl").write_text("x\n", "utf-8")
    files = [{"path": f"file:{tmp_path}/{name}.jsonl"} for name in ("here", "gone")]
    texts, found = texts_still_there(spark, files)
    assert found == files[:1]
    assert [row["raw"] for row in texts.collect()] == ["x"]
    assert texts_still_there(spark, files[1:]) == (None, [])

    texts = texts_of_files(spark, [files[0]["path"]])
    (tmp_path / "here.jsonl").unlink()
    assert texts.collect() == []


def test_a_broken_file_and_a_line_without_end_cost_nothing_but_themselves(tables, tmp_path):
    """Both ended every batch: the one with an error at its end, the other with the heap."""
    from tests.spark.fleets import batch

    folder = tmp_path / "journals"
    folder.mkdir()
    lines = []
    for name in ("whole", "cut", "long"):
        agent = Agent(agent_id=name)
        agent.series(1)
        for _ in range(MINUTES):
            agent.grow(1, connection_ms=60_000, opened=1)
            agent.write()
        lines.append("".join(f"{line}\n" for line in agent.lines()).encode())
    (folder / "whole.jsonl").write_bytes(lines[0])
    packed = gzip.compress(lines[1])
    (folder / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    # 300 kB of gzip.
    with gzip.open(folder / "long.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(lines[2])
        for _ in range(300):
            file.write(b"{" * 2**20)
        file.write(b"\n" + lines[2])
    loads = batch(tables, folder)
    opened = {
        row["agent_id"]: row["opened"]
        for row in tables.read("silver").groupBy("agent_id").agg({"opened": "max"})
        .withColumnRenamed("max(opened)", "opened").collect()
    }  # fmt: skip
    assert opened.pop("whole") == opened.pop("long") == MINUTES
    assert 0 < opened.pop("cut") < MINUTES
    aside = tables.read("quarantine").select("reason", "source", "raw_bytes").collect()
    damaged = [row for row in aside if row["reason"] == "a file that is damaged or cut short"]
    assert [row["source"] for row in damaged] == [f"file:{folder}/cut.jsonl.gz"]
    # Half a line may be there as well, and nothing of the long one.
    assert len(aside) <= 2
    assert sum(load.quarantined for load in loads) == len(aside)
    assert batch(tables, folder) == []


def test_files_come_in_portions_and_none_is_left_out():
    from spark_rollups.jobs.batch import _BYTES_AT_ONCE, _portions

    sizes = [1, _BYTES_AT_ONCE, 1, _BYTES_AT_ONCE - 1, 1, 3 * _BYTES_AT_ONCE, 1]
    cut = [[file["length"] for file in each] for each in _portions([{"length": n} for n in sizes])]
    full = _BYTES_AT_ONCE
    assert cut == [[1], [full], [1, full - 1], [1], [3 * full], [1]]
    assert list(_portions([])) == []


def test_every_table_is_vacuumed_and_nothing_else():
    """Tables that somebody else keeps in the same folder are none of ours."""
    from spark_rollups.jobs.vacuum import TABLES, vacuum
    from tests.spark.comparing import ALL

    class Tables:
        def __init__(self):
            self.done = []

        def exists(self, name):
            return name != "forecast"

        def vacuum(self, name):
            self.done.append(name)

    assert set(TABLES) == {*ALL, "inputs"}
    tables = Tables()
    assert vacuum(tables, quiet) == tables.done == [name for name in TABLES if name != "forecast"]


def test_a_long_run_tells_how_far_it_is():
    from spark_rollups.commands.progress import tell_of, words_of

    stages = {
        3: SimpleNamespace(stageId=3, numTasks=10, numCompletedTasks=4),
        5: SimpleNamespace(stageId=5, numTasks=2, numCompletedTasks=1),
        7: None,  # ended meanwhile
    }
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    assert words_of(tracker) == "at work: stage 3, 5, 5 of 12 tasks done"

    answers = [[], [3], []]  # and then Spark is no more

    said = []
    tracker.getActiveStageIds = lambda: answers.pop(0)
    thread = tell_of(tracker, said.append, seconds=0.01)
    thread.join(30)
    assert not thread.is_alive()
    assert said == ["at work: stage 3, 4 of 10 tasks done"]


def test_spark_knows_the_stages_that_the_words_are_made_of(spark):
    """Against a real stage, so that the names of Spark's figures are right."""
    import threading

    from pyspark.sql import functions as F

    from spark_rollups.commands.progress import words_of

    tracker, said = spark.sparkContext.statusTracker(), []
    slow = spark.range(0, 4, 1, 4).select(F.expr("java_method('java.lang.Thread', 'sleep', 700L)"))
    work = threading.Thread(target=slow.collect)
    work.start()
    while work.is_alive():
        said.append(words_of(tracker))
        work.join(0.1)
    assert any(words.endswith("of 4 tasks done") for words in said)
