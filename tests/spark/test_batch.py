"""The batch job against the truth of a simulated fleet, which was worked out without Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.spark.comparing import differences
from tests.spark.fleets import batch, journal_lines

DIMS = (
    *("kafka_cluster", "cluster", "namespace", "service", "client_kind", "library"),
    *("library_version", "broker_id", "broker", "class", "cause"),
)


@pytest.fixture(scope="module")
def fleet(faulty):
    return faulty[0]


@pytest.fixture(scope="module")
def whole(faulty):
    """All journals in one go."""
    return faulty[1]


def truth(fleet, table):
    with (fleet / "truth" / f"{table}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def made(tables, table, columns):
    from pyspark.sql import functions as F

    rows = tables.read(table).select(F.to_json(F.struct(*columns)).alias("row")).collect()
    return [json.loads(row["row"]) for row in rows]


def by_key(rows, key, columns):
    """Return the rows in which something happened, by key."""
    found = {}
    for row in rows:
        figures = {name: plain(row.get(name)) for name in columns}
        numbers = [each for value in figures.values() for each in flat(value)]
        if any(numbers):
            name = tuple(str(row.get(part)).replace(".000Z", "Z") for part in key)
            assert name not in found, "a key twice"
            found[name] = figures
    return found


def flat(value):
    return value if isinstance(value, list) else [value]


def plain(value):
    return [plain(each) for each in value] if isinstance(value, list) else value and int(value)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("hourly", ("hour", *DIMS)),
        ("coverage", ("hour", "cluster", "namespace", "service")),
        (
            "findings",
            ("hour", *DIMS[:5], "broker_id", "broker", "finding", "cause", "severity"),
        ),
    ],
)
def test_the_tables_are_the_fleets_truth(whole, fleet, table, key):
    expected = truth(fleet, table)
    assert expected
    columns = sorted({name for row in expected for name in row} - set(key))
    have = by_key(made(whole, table, [*key, *columns]), key, columns)
    want = by_key(expected, key, columns)
    odd = defaultdict(list)
    for name in have.keys() | want.keys():
        one, other = have.get(name), want.get(name)
        if one != other:
            for column in columns:
                left, right = (one or {}).get(column), (other or {}).get(column)
                if left != right:
                    odd[column].append((name, left, right))
    assert {column: found[:2] for column, found in odd.items()} == {}


def test_days_add_up_their_hours(whole):
    spark_sum = "sum(connection_ms), sum(useful_ms), sum(waste_ms), sum(opened), sum(bytes_out)"
    hours, days = (
        whole.read(name).selectExpr(*spark_sum.split(", ")).first() for name in ("hourly", "daily")
    )
    assert tuple(hours) == tuple(days)
    assert hours[0] > 0


def test_the_list_of_tables_has_all(whole):
    """What `vacuum` does not know would grow for ever."""
    from spark_rollups.jobs.vacuum import TABLES

    folders = {
        path.name for path in Path(whole.root.removeprefix("file:")).iterdir() if path.is_dir()
    }
    assert folders - {"stale_hours"} == set(TABLES)


def test_an_hour_with_little_in_it_is_one_file(whole):
    """A day's tables open the files of its hours, and those of a week before it, with each run."""
    files = whole.read("hourly").select("hour", "_metadata.file_path").distinct().count()
    assert files == len(whole.hours("hourly"))


def test_what_was_read_is_not_read_again_and_changes_nothing(whole, fleet):
    versions = [whole.version(name) for name in ("silver", "hourly")]
    assert batch(whole, fleet / "journal") == []
    assert [whole.version(name) for name in ("silver", "hourly")] == versions


@pytest.mark.ondemand
def test_pieces_in_any_order_and_twice_are_the_whole(whole, fleet, spark, tmp_path):
    """The last hours first, the middle last, one piece twice: only the hours concerned are made."""
    from spark_rollups.tables import Tables

    lines = journal_lines(fleet)
    cuts = [len(lines) // 3, 2 * len(lines) // 3]
    pieces = [lines[cuts[1] :], lines[: cuts[0]], lines[cuts[0] : cuts[1]] + lines[cuts[1] :][:500]]
    tables = Tables(spark, str(tmp_path / "tables"))
    for number, piece in enumerate(pieces):
        folder = tmp_path / f"piece-{number}"
        folder.mkdir()
        (folder / "journal.jsonl").write_text("".join(reversed(piece)), "utf-8")
        batch(tables, folder)
    assert differences(tables, whole) == {}
