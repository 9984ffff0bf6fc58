"""What is deleted is gone, what was made from it stays, and nothing is counted twice for it."""

from __future__ import annotations

import pytest

from tests.spark.fleets import batch, quiet
from tests.spark.journals import START_MS, Agent

HOUR = START_MS // 3_600_000
MINUTE = 60_000


def sent(tables):
    rows = tables.read("hourly").orderBy("hour").select("bytes_out", "minutes_expected").collect()
    return [tuple(value and int(value) for value in row) for row in rows]


def test_old_hours_go_and_later_ones_are_the_same(tables, tmp_path):
    """Four hours of 600 bytes; the first two go; then come the fifth, and all the others again."""
    from spark_rollups.jobs.retention import first_kept, retain

    agent = Agent()
    agent.series(1)
    for _ in range(300):
        agent.grow(1, connection_ms=MINUTE, bytes_out=10)
        agent.write()
    folder = tmp_path / "journal"
    folder.mkdir()
    lines = [f"{line}\n" for line in agent.lines()]
    (folder / "first.jsonl").write_text("".join(lines[: 2 * 240]), "utf-8")
    batch(tables, folder)
    assert sent(tables) == [(600, 60)] * 4
    assert first_kept(tables) is None

    kept = retain(tables, now=HOUR + 26, silver=1, hourly=None, daily=None, say=quiet)
    assert kept == ["silver"]
    assert first_kept(tables) == HOUR + 2
    assert tables.hours("silver") == [HOUR + 2, HOUR + 3]
    assert sent(tables) == [(600, 60)] * 4

    (folder / "second.jsonl").write_text("".join(lines), "utf-8")
    batch(tables, folder)
    assert sent(tables) == [(600, 60)] * 5
    # The old hours came again with that file: they are in silver until retain runs again.
    assert tables.hours("silver") == [HOUR + number for number in range(5)]
    retain(tables, now=HOUR + 26, silver=1, hourly=1, daily=1, say=quiet)
    assert tables.hours("silver") == [HOUR + 2, HOUR + 3, HOUR + 4]
    assert tables.hours("hourly") == [HOUR + 2, HOUR + 3, HOUR + 4]


def test_a_series_whose_base_was_deleted_has_grown_by_nobody_knows_how_much(spark):
    from spark_rollups.transforms.increments import increments
    from spark_rollups.transforms.lattice import good_rows, reduce_records
    from spark_rollups.transforms.parse import parse

    agent = Agent()
    agent.series(1)
    for _ in range(4):
        agent.grow(1, opened=7)
        agent.write(minutes=60)
    agent.series(2)
    agent.grow(2, opened=3)
    agent.write(minutes=60)
    last = [
        line
        for line, record in zip(agent.lines(), agent.records, strict=True)
        if record["seq"] == 5
    ]
    texts = spark.createDataFrame([(line, "") for line in last], "raw string, source string")
    rows = increments(good_rows(reduce_records(parse(texts))), START_MS + 3 * 3_600_000)
    found = {row["series"]: (row["opened"], row["minutes_expected"]) for row in rows.collect()}
    assert found[1][0] is None
    assert found[2][0] == 3
    # Since the first hour that is kept, and not since the start of the boot.
    assert found[-1][1] == 120


def test_many_small_files_become_few(spark, tables):
    from spark_rollups.jobs.vacuum import optimize

    for number in range(5):
        rows = spark.range(1).selectExpr(f"'{number}' AS path", "1L AS length", "1L AS modified")
        tables.open("inputs", rows.schema)
        tables.join("inputs", rows, key=("path",), updates={})
    said = []
    assert optimize(tables, said.append) == ["inputs"]
    assert said == ["inputs: 5 files are 1 now"]
    assert tables.count("inputs") == 5


@pytest.mark.parametrize("days", ["14", "0", "-1", "x", "1.5"])
def test_what_the_insights_look_back_on_is_kept(days, capsys):
    from spark_rollups.cli import main

    with pytest.raises(SystemExit, match="2"):
        main(["retain", "--silver", days, "--tables", "t"])
    assert "15 or more" in capsys.readouterr().err
    assert main(["retain", "--tables", "t"]) == 2
