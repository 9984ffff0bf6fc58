"""The stream's tables behind silver: made when it is time, and by the next stream after a kill."""

from __future__ import annotations

import pytest

from tests.spark.fleets import quiet
from tests.spark.journals import START_MS, Agent

HOUR = START_MS // 3_600_000


def test_what_a_killed_stream_had_not_made_the_next_one_makes(spark, tables, tmp_path):
    from spark_rollups.jobs.stale import StaleHours
    from spark_rollups.jobs.streaming import Stream

    agent = Agent()
    agent.series(1)
    for _ in range(61):
        agent.grow(1, connection_ms=60_000, useful_ms=60_000, opened=1)
        agent.write()
    messages = spark.createDataFrame(
        [(line.encode(), "journal", 0, offset) for offset, line in enumerate(agent.lines())],
        "value binary, topic string, partition int, offset long",
    )
    checkpoint, now = str(tmp_path / "checkpoint"), 0.0
    stale = StaleHours(spark, checkpoint)
    assert stale.all() == []

    def stream():
        return Stream(tables, checkpoint, quiet, refresh_seconds=60, clock=lambda: now)

    killed = stream()
    now = 59.0
    killed.take(messages, 0)
    assert tables.count("silver") == 4
    assert stale.all() == [HOUR, HOUR + 1]
    assert not tables.exists("hourly")

    following = stream()
    now = 59.0 + 59.0
    following.refresh_if_due()
    assert not tables.exists("hourly")
    now = 59.0 + 60.0
    following.refresh_if_due()
    rows = tables.read("hourly").orderBy("hour").select("connection_ms", "opened").collect()
    assert [tuple(map(int, row)) for row in rows] == [(3_600_000, 60), (60_000, 1)]
    assert stale.all() == []

    made = tables.version("hourly")
    following.refresh()
    assert tables.version("hourly") == made


def test_what_a_killed_batch_had_not_made_is_made_though_its_files_are_gone(
    tables, monkeypatch, tmp_path
):
    from spark_rollups.jobs import batch

    agent = Agent()
    agent.series(1)
    for _ in range(61):
        agent.grow(1, connection_ms=60_000, useful_ms=60_000, opened=1)
        agent.write()
    # Beside the tables: a folder around them would have their files, too.
    folder = tmp_path / "journals"
    folder.mkdir()
    journal = folder / "journal.jsonl"
    journal.write_text("".join(f"{line}\n" for line in agent.lines()), "utf-8")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batch, "catch_up", killed)
        with pytest.raises(KeyboardInterrupt):
            batch.batch_files(tables, [str(folder)], quiet)
    assert tables.count("silver") == 4
    assert not tables.exists("hourly")
    journal.unlink()

    said = []
    assert batch.batch_files(tables, [str(folder)], said.append) == []
    assert "2 hours wait from a run that was interrupted" in said
    assert [int(row["opened"]) for row in tables.read("hourly").orderBy("hour").collect()] == [
        60,
        1,
    ]

    made = tables.version("hourly")
    assert batch.batch_files(tables, [str(folder)], quiet) == []
    assert tables.version("hourly") == made
