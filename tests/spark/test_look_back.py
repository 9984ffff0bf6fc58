"""Where the row before a lost hour is looked for: as far back as needed, and no further."""

from __future__ import annotations

import json

import pytest

from tests.spark.journals import START_MS, Agent

HOUR = START_MS // 3_600_000
LAST = HOUR + 119


@pytest.fixture(scope="module")
def lines():
    """Return an agent's records of 120 hours; one connection opened in each."""
    agent = Agent()
    agent.series(1)
    for _ in range(120):
        agent.grow(1, opened=1)
        agent.write(minutes=60)
    return list(zip(agent.records, agent.lines(), strict=True))


@pytest.mark.parametrize(
    ("lost", "furthest"),
    [
        pytest.param([118], 70, id="an hour"),
        pytest.param(range(60, 119), 12, id="days"),
        pytest.param(range(119), 119, id="all before"),
    ],
)
def test_a_difference_begins_where_the_series_was_last_seen(spark, tables, lines, lost, furthest):
    from spark_rollups.jobs.ingest import ingest
    from spark_rollups.jobs.neighbours import rows_with_bases
    from spark_rollups.tables import Tables
    from spark_rollups.transforms.increments import increments

    asked = set()

    class Watched(Tables):
        @staticmethod
        def only(rows, column, values):
            asked.update(values)
            return Tables.only(rows, column, values)

    gone = {HOUR + hour for hour in lost}
    kept = [line for record, line in lines if (record["at_ms"] - 1) // 3_600_000 not in gone]
    texts = spark.createDataFrame([(line, "") for line in kept], "raw string, source string")
    ingest(tables, texts)

    rows = increments(rows_with_bases(Watched(spark, tables.root), [LAST]))
    found = rows.where(f"unix_seconds(hour) = {LAST * 3600} AND kind = 'connections'").collect()
    assert [row["opened"] for row in found] == [len(gone) + 1]
    assert min(asked - {LAST - 1}) == HOUR + furthest


@pytest.mark.parametrize(
    ("lost", "unknown", "found", "furthest"),
    [
        pytest.param([], [], [0, 1], 48, id="the next hour"),
        pytest.param([1, 2], [], [0, 3], 48, id="what comes after a gap"),
        pytest.param(range(1, 60), [], [0, 60], 119, id="after days"),
        pytest.param([], [1, 2], [0, 1, 3], 48, id="where a counter is known again"),
    ],
)
def test_a_late_record_looks_forward_no_further_than_to_its_next_one(
    tables, lines, lost, unknown, found, furthest
):
    """One late record read all of the history after it."""
    from spark_rollups.jobs.ingest import ingest
    from spark_rollups.jobs.neighbours import affected
    from spark_rollups.tables import Tables

    asked = set()

    class Watched(Tables):
        @staticmethod
        def only(rows, column, values):
            asked.update(values)
            return Tables.only(rows, column, values)

    kept = []
    for record, _ in lines:
        hour = (record["at_ms"] - 1) // 3_600_000 - HOUR
        if hour not in lost:
            kept.append(json.dumps(record | ({"bytes_out": None} if hour in unknown else {})))
    ingest(
        tables,
        tables.spark.createDataFrame([(line, "") for line in kept], "raw string, source string"),
    )
    assert affected(Watched(tables.spark, tables.root), [HOUR]) == [HOUR + hour for hour in found]
    # Each step may look at so many *known* hours.
    assert max(asked) <= HOUR + furthest + len(lost)
