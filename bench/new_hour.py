"""Does one new hour cost what that hour costs, or what the table behind it costs?

    python -m bench.new_hour

A small fleet's journals of a day and of five weeks go into tables, then one hour more arrives. The
CPU time is that of the second run, all that it starts included.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import os
import platform
import shutil
import tempfile
from pathlib import Path

from bench.processes import Cost, run

HOUR_MS = 3_600_000
# A day, and five weeks: hours of one week, and how many such weeks.
SIZES = ((25, 1), (168, 5))
COMMAND = "import sys; from spark_rollups.cli import main; sys.exit(main(sys.argv[1:]))"


def main() -> None:
    """Measure each size of table, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=2)
    options = parser.parse_args()
    print(
        f"{options.agents} agents; Linux {platform.release()}, Python"
        f" {platform.python_version()}, {os.cpu_count()} CPUs\n\n"
        "| hours in the table | records in it | records of the new hour | CPU s | seconds"
        " | peak MiB | nothing new, CPU s |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    for hours, weeks in SIZES:
        with tempfile.TemporaryDirectory(prefix="bench-new-hour-") as scratch:
            # The tables before the new hour are the same each time: whoever measures again may
            # keep them.
            kept = Path(os.environ.get("BENCH_FOLDER", scratch)) / f"d{hours * weeks // 24}"
            print(_measure(Path(scratch), kept, options.agents, hours, weeks), flush=True)


def _measure(scratch: Path, kept: Path, agents: int, hours: int, weeks: int) -> str:
    journal, arriving = kept / "fleet" / "journal", kept / "arriving"
    if not (kept / "tables").exists():
        size = [f"--agents={agents}", f"--hours={hours}", f"--weeks={weeks}", "--shards=4"]
        run("-c", COMMAND, "simulate", *size, "--no-truth", f"--out={kept / 'fleet'}")
        _split(journal, arriving)
        _batch(kept / "unfinished", journal)
        (kept / "unfinished").rename(kept / "tables")
    tables = scratch / "tables"
    shutil.copytree(kept / "tables", tables)
    old, new = (
        sum(len(_lines(path)) for path in folder.iterdir()) for folder in (journal, arriving)
    )
    hour, nothing = (_batch(tables, journal, arriving) for _ in range(2))
    assert " in 1 hours" in hour.complaints, hour.complaints
    assert "nothing new" in nothing.complaints, nothing.complaints
    return (
        f"| {hours * weeks - 1} | {old:,} | {new:,} | {hour.cpu:.1f} | {hour.seconds:.1f}"
        f" | {hour.peak_mib:,.0f} | {nothing.cpu:.1f} |"
    )


def _batch(tables: Path, *inputs: Path) -> Cost:
    flags = [*(f"--input={folder}" for folder in inputs), f"--tables={tables}"]
    return run("-c", COMMAND, "batch", *flags)


def _split(journal: Path, arriving: Path) -> None:
    """Take the last hour's lines out of every file, into files of their own."""
    arriving.mkdir()
    files = sorted(journal.iterdir())
    last = max(_hour(line) for path in files for line in _lines(path))
    for path in files:
        late = [line for line in _lines(path) if _hour(line) == last]
        early = [line for line in _lines(path) if _hour(line) != last]
        path.write_text("".join(early), "utf-8")
        (arriving / f"new-{path.name}").write_text("".join(late), "utf-8")


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines(keepends=True)


def _hour(line: str) -> int:
    """Find the hour without parsing the line."""
    return (int(line.partition('"at_ms":')[2].partition(",")[0]) - 1) // HOUR_MS


if __name__ == "__main__":
    main()
