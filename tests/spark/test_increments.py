"""Differences over hours, on small silver tables written by hand."""

from __future__ import annotations

import pytest

from tests.spark.journals import START_MS, Agent

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def grown(spark):
    """Return a function from agents to (hour, series, figure) by the transforms alone."""
    from spark_rollups.transforms.increments import increments
    from spark_rollups.transforms.lattice import good_rows, reduce_records
    from spark_rollups.transforms.parse import parse

    def grow(lines, figure, kind="connections"):
        texts = spark.createDataFrame([(line, "") for line in lines], "raw string, source string")
        rows = increments(good_rows(reduce_records(parse(texts)))).where(f"kind = '{kind}'")
        found = rows.selectExpr(
            "unix_millis(hour) AS hour", "boot_id", "series", f"{figure} AS figure"
        ).collect()
        return {
            ((row["hour"] - START_MS) // HOUR_MS, row["boot_id"], row["series"]): row["figure"]
            for row in found
        }

    return grow


def run(agent, minutes, **by):
    for _ in range(minutes):
        agent.grow(1, **by)
        agent.write()


def test_nothing_is_lost_or_doubled_between_hours(grown):
    agent = Agent()
    agent.series(1)
    run(agent, 150, connection_ms=60_000)
    figures = {(hour, "boot-1", 1): 3_600_000 for hour in (0, 1)} | {(2, "boot-1", 1): 1_800_000}
    assert grown(agent.lines(), "connection_ms") == figures


def test_a_lost_hour_is_counted_where_the_series_is_seen_again(grown):
    agent = Agent()
    agent.series(1)
    run(agent, 180, opened=1)
    kept = [line for line, record in zip(agent.lines(), agent.records, strict=True)
            if not START_MS + HOUR_MS < record["at_ms"] <= START_MS + 2 * HOUR_MS]  # fmt: skip
    assert grown(kept, "opened") == {(0, "boot-1", 1): 60, (2, "boot-1", 1): 120}
    seen = grown(kept, "minutes_seen || '/' || minutes_expected", kind="agent")
    assert seen == {(0, "boot-1", -1): "60/60", (2, "boot-1", -1): "60/120"}


def test_a_counter_that_was_unknown_for_an_hour_goes_on_from_its_last_value(grown):
    """Its bytes were counted twice: from nothing, once more, when they were known again."""
    agent = Agent()
    agent.series(1)
    run(agent, 240, bytes_out=10, opened=1)
    for record in agent.records:
        if record["kind"] == "connections" and (
            START_MS + HOUR_MS < record["at_ms"] <= START_MS + 3 * HOUR_MS
        ):
            record["bytes_out"] = None
    assert grown(agent.lines(), "bytes_out") == {
        (0, "boot-1", 1): 600, (1, "boot-1", 1): None, (2, "boot-1", 1): None, (3, "boot-1", 1): 1800
    }  # fmt: skip
    assert set(grown(agent.lines(), "opened").values()) == {60}


def test_the_last_known_value_is_looked_for_where_the_hour_before_lacks_it(tables, spark):
    from spark_rollups.jobs.ingest import ingest
    from spark_rollups.jobs.neighbours import rows_with_bases
    from spark_rollups.transforms.increments import increments

    agent = Agent()
    agent.series(1)
    for _ in range(6):
        agent.grow(1, bytes_out=10)
        agent.write(minutes=60)
    for record in agent.records:
        hour = (record["at_ms"] - START_MS) // HOUR_MS
        if record["kind"] == "connections" and hour in {2, 3, 4, 5}:
            record["bytes_out"] = None
    texts = [(line, "") for line in agent.lines()]
    ingest(tables, spark.createDataFrame(texts, "raw string, source string"))
    hour = START_MS // HOUR_MS + 5
    rows = increments(rows_with_bases(tables, [hour])).where(f"unix_seconds(hour) = {hour * 3600}")
    found = rows.where("kind = 'connections'").collect()
    assert [row["bytes_out"] for row in found] == [50]


def test_a_counter_that_falls_is_the_same_however_much_was_read(spark):
    """No agent writes such a thing; a foreign one must not make runs disagree."""
    from spark_rollups.transforms.increments import increments
    from spark_rollups.transforms.lattice import good_rows, reduce_records
    from spark_rollups.transforms.parse import parse

    agent = Agent()
    agent.series(1)
    for opened in (100, 50, 120):
        agent.counters[1]["opened"] = opened
        agent.write(minutes=60)
    texts = spark.createDataFrame(
        [(line, "") for line in agent.lines()], "raw string, source string"
    )
    silver = good_rows(reduce_records(parse(texts))).where("kind = 'connections'")
    last = f"unix_millis(hour) = {START_MS + 2 * HOUR_MS}"
    near = silver.where(f"unix_millis(hour) > {START_MS}")
    found = [increments(rows).where(last).first()["opened"] for rows in (silver, near)]
    assert found == [70, 70]


def test_a_restart_begins_at_nothing(grown):
    first = Agent()
    first.series(1)
    run(first, 10, opened=5)
    second = Agent(boot_id="boot-2", since_ms=START_MS + 15 * 60_000 + 20_000)
    second.series(1)
    run(second, 10, opened=1)
    assert grown(first.lines() + second.lines(), "opened") == {
        (0, "boot-1", 1): 50,
        (0, "boot-2", 1): 10,
    }
    seen = grown(second.lines(), "minutes_seen || '/' || minutes_expected", kind="agent")
    assert seen == {(0, "boot-2", -1): "10/10"}


def test_what_is_not_known_stays_unknown(grown):
    """The trap: greatest(null - 0, 0) is 0, and would make a figure of what nobody measured."""
    agent = Agent()
    agent.series(1)
    agent.counters[1]["expected_ms"] = None
    for _ in range(70):
        agent.write()
    assert grown(agent.lines(), "expected_ms") == {(0, "boot-1", 1): None, (1, "boot-1", 1): None}


def test_the_whole_hour_belongs_to_the_hour_that_ends(grown):
    agent = Agent()
    agent.series(1)
    run(agent, 60, opened=1)
    assert agent.records[-1]["at_ms"] == START_MS + HOUR_MS
    assert grown(agent.lines(), "opened") == {(0, "boot-1", 1): 60}


def test_the_state_is_that_of_the_last_record_even_where_that_is_unknown(spark):
    from pyspark.sql import functions as F

    from spark_rollups.transforms.lattice import good_rows, reduce_records, state
    from spark_rollups.transforms.parse import parse

    agent = Agent()
    agent.series(1)
    agent.series(2)
    agent.state[1]["connections"] = 9
    agent.write()
    agent.state[1]["connections"] = 0
    agent.state[2]["expected"] = None
    agent.write()
    lines = list(reversed(agent.lines())) + agent.lines()
    texts = spark.createDataFrame([(line, "") for line in lines], "raw string, source string")
    rows = good_rows(reduce_records(parse(texts))).where("kind = 'connections'").orderBy("series")
    found = rows.select(state("connections"), state("expected"), F.bit_count("minutes")).collect()
    assert [tuple(row) for row in found] == [(0, 1, 2), (1, None, 2)]
