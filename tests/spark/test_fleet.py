"""What is lost on the way to the tables is known to be lost, and the report tells the truth."""

from __future__ import annotations

import argparse
import json
from decimal import Decimal

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.spark.fleets import batch, simulate
from tests.unit.journal_reduction import DIMS, SUMS, truth_of

INTEGERS = (*(name for name in SUMS if name != "clients"), "idle_max_ms", "peak_opened")


def rows_of(table, key):
    """Rows by key, the hour in milliseconds; those in which nothing happened are left out."""
    rows = {}
    for row in table.selectExpr("unix_millis(hour) AS at", "*").collect():
        values = {name: _plain(value) for name, value in row.asDict().items()}
        rows[(values["at"], *(values[name] for name in key))] = values
    return rows


def _plain(value):
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, Decimal) else value


def hourly_of(tables):
    names = (*INTEGERS, "lifetime_buckets")
    rows = rows_of(tables.read("hourly"), DIMS)
    kept = {key: {name: row[name] for name in names} for key, row in rows.items()}
    return {key: row for key, row in kept.items() if any(row[name] for name in SUMS[:9])}


def expected_of(fleet):
    return {
        key: {name: value for name, value in row.items() if name != "clients"}
        for key, row in truth_of(fleet).items()
    }


def other_truth(fleet, table):
    with (fleet / "truth" / f"{table}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_clients_are_counted_as_well_as_a_sketch_can(faulty):
    fleet, tables = faulty
    truth = truth_of(fleet)
    for key, row in rows_of(tables.read("hourly"), DIMS).items():
        if key in truth:
            assert row["clients"] == pytest.approx(truth[key]["clients"], rel=0.02, abs=0.5)


def test_every_mangled_text_is_set_aside_and_counted(faulty):
    fleet, tables = faulty
    happened = json.loads((fleet / "truth" / "summary.json").read_text())["happened"]
    mangled = ("cut", "no_json", "wrong_type", "too_great", "no_agent", "unknown_kind", "newer")
    assert tables.count("quarantine") == sum(happened.get(kind, 0) for kind in mangled)
    reasons = {
        row["reason"] for row in tables.read("quarantine").select("reason").distinct().collect()
    }
    assert 3 <= len(reasons) < 20


def test_lost_lines_are_missed_and_never_made_up(tables, tmp_path):
    """A counter only grows: what is lost is told later or not at all, and coverage says so."""
    fleet = simulate(tmp_path / "fleet", "--faults=lost=0.3", hours=2)
    batch(tables, fleet / "journal")
    truth, told = expected_of(fleet), hourly_of(tables)
    totals = {}
    for which, rows in (("truth", truth), ("told", told)):
        for (_, *dims), row in rows.items():
            sums = totals.setdefault(tuple(dims), {}).setdefault(which, dict.fromkeys(SUMS[:9], 0))
            for name in sums:
                sums[name] += row[name] or 0
    assert len(totals) > 50
    for sums in totals.values():
        for name, known in sums.get("told", {}).items():
            assert known <= sums["truth"][name]
    # Of a series that goes on, only what came after its last line is missing: minutes of hours.
    whole = sum(sums["truth"]["connection_ms"] for sums in totals.values())
    known = sum(sums["told"]["connection_ms"] for sums in totals.values() if "told" in sums)
    assert 0.98 * whole < known < whole
    covered = (
        tables.read("coverage")
        .selectExpr("sum(minutes_seen) AS s", "sum(minutes_expected) AS e")
        .collect()[0]
    )
    assert 0.6 < covered["s"] / covered["e"] < 0.8


def test_the_report_reads_the_truth(faulty):
    from spark_rollups.report.reading import read_digest
    from spark_rollups.transforms.surge import surge

    fleet, tables = faulty
    digest = read_digest(tables, days=7, until=None)
    names = ("connection_ms", "useful_ms", "waste_ms", "unknown_ms", "opened")
    truth = {}
    for (hour, *_), row in truth_of(fleet).items():
        sums = truth.setdefault(hour, dict.fromkeys(names, 0))
        for name in names:
            sums[name] += row[name]
    told = {
        int(hour.at.timestamp()) * 1000: {name: getattr(hour, name) for name in names}
        for hour in digest.hours
    }
    assert truth == told
    wasted = sum(waste.waste_ms for waste in digest.waste)
    assert wasted == sum(sums["waste_ms"] for sums in truth.values())
    assert digest.services == len({row["service"] for row in other_truth(fleet, "coverage")})
    assert digest.coverage == 1
    assert digest.hours_in_period == len(truth)
    assert sum(each.texts for each in digest.quarantine) == tables.count("quarantine")
    assert {each.fix for each in digest.savings} >= {"idle_closing_on", "one_shared_client"}
    standing = 3_600_000 * len(truth)
    zombies = next(each.connections for each in digest.savings if each.fix == "idle_closing_on")
    assert sum(each.waste for each in digest.services_waste) == pytest.approx(wasted / standing)
    bursts = {}
    for (hour, *dims), row in truth_of(fleet).items():
        where = (hour, *dims[:4], *dims[7:9])
        sums = bursts.setdefault(where, [0, 0])
        sums[0] += row["peak_opened_sum"]
        sums[1] += row["opened"]
    where = ("kafka_cluster", "cluster", "namespace", "service", "broker_id", "broker")
    surges = {
        key: [row["peak_opened_sum"], row["opened"]]
        for key, row in rows_of(
            surge(tables.read("hourly"), tables.read("coverage")), where
        ).items()
        if row["opened"]
    }
    assert surges == {key: sums for key, sums in bursts.items() if sums[1]}
    by_class = sum(row["waste_ms"] for key, row in truth_of(fleet).items() if key[-2] == "zombie")
    assert zombies == pytest.approx(by_class / standing)
    assert digest.brokers
    assert all(load.peak and load.forecast_peak is not None for load in digest.brokers)
    names = [(load.kafka_cluster, load.broker_id) for load in digest.brokers]
    assert len(names) == len(set(names))


def test_the_report_is_written_whole(faulty, tmp_path):
    from spark_rollups.report import command as report

    _, tables = faulty
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    page, metrics = tmp_path / "report.html", tmp_path / "fleet.prom"
    page.write_text("old")
    flags = [f"--out={page}", f"--openmetrics={metrics}", f"--png={tmp_path / 'png'}"]
    assert report.run(parser.parse_args(flags), lambda: tables, lambda _: None) == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    families = {
        family.name for family in text_string_to_metric_families(metrics.read_text("utf-8"))
    }
    assert "kafka_client_fleet_efficiency_ratio" in families
    assert len(list((tmp_path / "png").glob("*.png"))) >= 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fleet.prom", "png", "report.html"]


def test_without_tables_the_report_says_what_to_do(tables):
    from spark_rollups.errors import UsageError
    from spark_rollups.report.reading import read_digest

    with pytest.raises(UsageError, match="run batch or stream first"):
        read_digest(tables, days=7, until=None)
