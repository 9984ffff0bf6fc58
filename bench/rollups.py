"""What do the rollups cost, against DuckDB, Polars, and Spark doing hardly anything?

    python -m bench.rollups --copies 10

A simulated fleet's records in Parquet, so many times over; then `silver` and `hourly` of them by
each contender, a fresh process each. What the three engines wrote must be equal, else it fails.
Several rounds are run in turn, for a machine that is not alone: each figure is their median, and a
ratio is the median of the ratios within a round.
With `--ingest` what comes before: the JSON of the fleet once, read, parsed, and into all tables.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import os
import platform
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from bench.fleet_on_paper import Measured, table
from bench.processes import Cost, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HOURS = 24
# What is no whole number: one division of two that are held against each other, or a sketch.
NO_SPARK = ("`simulate`", "DuckDB", "Polars")
KEY = (
    *("hour", "kafka_cluster", "cluster", "namespace", "service", "client_kind", "library"),
    *("library_version", "broker_id", "broker", "class", "cause"),
)
COPIED = ("agent_id", "boot_id", "service")
SKETCH = ("clients", "clients_sketch")
COMMAND = "import sys; from spark_rollups.cli import main; sys.exit(main(sys.argv[1:]))"
SPARK, DUCKDB, POLARS = (f"bench.rollups_in_{name}" for name in ("spark", "duckdb", "polars"))


def main() -> None:
    """Measure one size and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=94, help="94 write a million records a day")
    parser.add_argument("--copies", type=int, default=1, help="the fleet's records so many times")
    parser.add_argument("--cores", type=int, nargs="+", default=[2], help="of Spark, in turn")
    parser.add_argument("--rounds", type=int, default=1, help="so often, and the median of each")
    parser.add_argument("--ingest", action="store_true", help="measure the way of the JSON, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-rollups-") as scratch:
        # The fleet is the same each time: whoever measures several sizes may keep it.
        kept = Path(os.environ.get("BENCH_FOLDER", scratch))
        for part in _measure(Path(scratch), kept, options):
            print(part, end="\n\n", flush=True)


def _measure(folder: Path, kept: Path, options: argparse.Namespace) -> Iterator[str]:
    fleet, once = kept / "fleet", kept / "once"
    simulated = None
    if not fleet.exists():
        size = [f"--agents={options.agents}", f"--hours={HOURS}", "--shards=8", "--no-truth"]
        simulated = run("-c", COMMAND, "simulate", *size, f"--out={fleet}")
    summary = json.loads((fleet / "truth" / "summary.json").read_text())
    assert summary["order"]["agents"] == options.agents, fleet
    if options.ingest:
        yield from _ingest(folder, fleet / "journal", summary, simulated)
    if not once.exists():
        _spark("records", 2, fleet / "journal", once)
    records = _copied(once, kept / "copies", folder / "records", options.copies)
    os.environ["POLARS_MAX_THREADS"] = "2"
    contenders: dict[str, Callable[[str], Cost]] = {
        "empty Spark session": lambda _: _spark("session", 2, "none"),
        "floor of one column: Spark, one sum": lambda _: _spark("column", 2, records),
        "**floor**: Spark, all columns and one sum": lambda _: _spark("columns", 2, records),
        **{
            f"rollups, Spark on {cores} core{'s' if cores > 1 else ''}": partial(
                _spark, "rollups", cores, records
            )
            for cores in options.cores
        },
        "DuckDB": lambda out: run("-m", DUCKDB, str(records), out, "2"),
        "Polars": lambda out: run("-m", POLARS, str(records), out),
    }
    rounds = [
        [
            contend(_new(folder / f"{at}-{number}"))
            for number, contend in enumerate(contenders.values())
        ]
        for at in range(options.rounds)
    ]
    groups, series = _check_equal(folder)
    count = summary["lines"] * options.copies
    parquet = sum(path.stat().st_size for path in records.iterdir())
    head = (
        f"{count:,} records of {options.agents * options.copies:,} agents in {HOURS} hours,"
        f" {parquet / 1e6:,.0f} MB of Parquet, to {series:,} rows of silver and {groups:,} of"
        f" hourly, equal in all; Linux {platform.release()}, Python {platform.python_version()},"
        f" {os.cpu_count()} CPUs"
        f"{f'; medians of {options.rounds} rounds' if options.rounds > 1 else ''}\n\n"
    )
    yield head + _table([*contenders], rounds, floor=2, records=count)


def _copied(once: Path, kept: Path, records: Path, copies: int) -> Path:
    """Make so many files of the records of one, each time with other agents and services."""
    kept.mkdir(exist_ok=True)
    records.mkdir()
    with duckdb.connect(config={"threads": 2, "memory_limit": "3GB"}) as database:
        for copy in range(copies):
            path = kept / f"{copy:03}.parquet"
            names = ", ".join(f"{name} || '-{copy}' AS {name}" for name in COPIED)
            if not path.exists():
                database.execute(
                    f"COPY (SELECT * REPLACE ({names}) FROM '{once}/*.parquet')"
                    f" TO '{path}.part' (FORMAT parquet)"
                )
                Path(f"{path}.part").rename(path)
            (records / path.name).hardlink_to(path)
    return records


def _ingest(
    folder: Path, journal: Path, summary: dict[str, Any], simulated: Cost | None
) -> Iterator[str]:
    tables = folder / "tables"
    session = _spark("session", 2, "none")
    command = ["batch", f"--input={journal}", f"--tables={tables}", "--memory=3g"]
    read = _spark("lines", 2, journal)
    parsed = _spark("parsed", 2, journal)
    into_all, again = (run("-c", COMMAND, *command) for _ in range(2))
    rows = [
        ("empty Spark session", session),
        ("lines read, and their lengths added up", read),
        ("**floor**: lines parsed, all fields and one sum", parsed),
        ("`batch`: into all tables", into_all),
        ("`batch` again: nothing new", again),
        *([(f"{NO_SPARK[0]}, which wrote it", simulated)] if simulated else []),
    ]
    kept, silver = (
        sum(path.stat().st_size for path in part.rglob("*.parquet"))
        for part in (tables, tables / "silver")
    )
    count, text = summary["lines"], summary["bytes"]
    head = (
        f"{count:,} records as JSON: {text / 1e6:,.0f} MB, {text / count:,.0f} bytes each. The"
        f" tables have {kept / 1e6:,.1f} MB, {kept / count:,.1f} bytes for each record;"
        f" {silver / 1e6:,.1f} MB of that is silver.\n\n"
    )
    known = (pl.col("kind") == "connections") & (pl.col("opened").is_not_null())
    clients = (
        pl.scan_parquet(f"{tables}/silver/**/*.parquet", hive_partitioning=True)
        .filter(known)
        .select(pl.struct("hour", "agent_id", "process", "client_id").n_unique())
        .collect()
        .item()
    )
    paper = Measured(
        agents=summary["order"]["agents"],
        clients=clients / HOURS,
        hours=HOURS,
        records=count,
        json_bytes=text,
        table_bytes=kept,
        run_cpu=again.cpu,
        records_cpu=into_all.cpu - again.cpu,
    )
    names, costs = zip(*rows, strict=True)
    yield head + _table(names, [costs], floor=2, records=count)
    yield table(paper)


def _table(
    names: Sequence[str], rounds: Sequence[Sequence[Cost]], *, floor: int, records: int
) -> str:
    """Write what each name cost, the first of them being an empty session."""
    lines = [
        "| | CPU s | without the session | of the floor | seconds | peak MiB | records / CPU s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for at, name in enumerate(names):
        session = not name.startswith(NO_SPARK)
        owns = [costs[at].cpu - session * costs[0].cpu for costs in rounds]
        floors = [costs[floor].cpu - costs[0].cpu for costs in rounds]
        own = median(owns)
        ratio = median(mine / base for mine, base in zip(owns, floors, strict=True))
        speed = f"{records / own:,.0f}" if own > 0.05 else ""
        cpu, seconds, peak, *_ = zip(*(costs[at] for costs in rounds), strict=True)
        lines.append(
            f"| {name} | {median(cpu):.1f} | {own:.1f} | {ratio:.2f} | {median(seconds):.1f} |"
            f" {max(peak):,.0f} | {speed} |"
        )
    return "\n".join(lines)


def _spark(what: str, cores: int, *rest: object) -> Cost:
    return run("-m", SPARK, what, str(cores), *map(str, rest))


def _new(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


def _check_equal(folder: Path) -> tuple[int, int]:
    """Hold the tables of all engines against each other; return how many rows each has."""
    made = sorted(path.parent for path in folder.glob("*/hourly.parquet"))
    assert len(made) >= 3, made
    first = _hourly(made[0])
    for other in made[1:]:
        rows = _hourly(other)
        exact = [name for name in first.columns if name not in SKETCH]
        assert set(first.columns) - {*SKETCH} == set(rows.columns) - {*SKETCH}, other
        for name in exact:
            same = first[name].equals(rows[name], null_equal=True)
            assert same, f"{made[0].name} and {other.name} do not agree on {name}"
        error = (first["clients"] - rows["clients"]).abs() / first["clients"]
        assert (error.max() or 0) < 0.1, f"{other.name}: {error.max()}"
    return len(first), pl.scan_parquet(_files(made[0] / "silver.parquet")).select(
        pl.len()
    ).collect().item()


def _hourly(folder: Path) -> pl.DataFrame:
    """Read a table as numbers of the same types, in order of its key."""
    rows = pl.read_parquet(_files(folder / "hourly.parquet"))
    if rows["hour"].dtype.is_temporal():
        rows = rows.with_columns(pl.col("hour").dt.epoch("ms"))
    whole = [
        pl.col(name).cast(pl.Int64)
        for name, kind in rows.schema.items()
        if kind.is_integer() or kind.is_decimal()
    ]
    buckets = pl.col("lifetime_buckets").cast(pl.List(pl.Int64))
    names = sorted(set(rows.columns) - {"all_ended", "clients_sketch"})
    return rows.with_columns(*whole, buckets).select(names).sort(KEY)


def _files(path: Path) -> str:
    return f"{path}/*.parquet" if path.is_dir() else str(path)


if __name__ == "__main__":
    main()
