"""Where the row before a lost hour is looked for: as far back as needed, and no further."""

from __future__ import annotations

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
    from spark_rollups.jobs.refresh import _rows
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

    rows = increments(_rows(Watched(spark, tables.root), [LAST]))
    found = rows.where(f"unix_seconds(hour) = {LAST * 3600} AND kind = 'connections'").collect()
    assert [row["opened"] for row in found] == [len(gone) + 1]
    assert min(asked - {LAST - 1}) == HOUR + furthest
