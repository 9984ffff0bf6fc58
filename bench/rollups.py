"""What do the rollups cost?

    python -m bench.rollups --records 1000000

A simulated fleet's journals in a folder of their own. Each contender is a fresh process; its CPU
time is that of all that it starts, and has a column without what an empty session costs. The
floors: Spark reading the same lines and doing nothing with them, and Spark parsing them and adding
up one column. `one new hour` is a second run after one more hour has arrived.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
# A pod of the simulated fleet writes about so many records an hour; the run counts them anyway.
RECORDS_AN_AGENT_HOUR = 700
HOUR_MS = 3_600_000

SESSION = "from spark_rollups.session import spark_session; s = spark_session('bench', memory='3g')"
READ = f"""{SESSION}
lines = s.read.option("lineSep", "\\n").text("{{journal}}")
lines.selectExpr("max(length(value))").collect()
"""
SUM = f"""{SESSION}
from spark_rollups.jobs.sources import texts_of_files
from spark_rollups.transforms.parse import parse
parse(texts_of_files(s, ["{{journal}}"])).selectExpr("sum(connection_ms)").collect()
"""
BATCH = """
import sys
from spark_rollups.cli import main
sys.exit(main(["batch", "--input", "{journal}", "--tables", "{tables}", "--memory", "3g"]))
"""


def main() -> None:
    """Measure one size and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--hours", type=int, default=24)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-rollups-") as folder:
        print(_measure(Path(folder), options.records, options.hours))


def _measure(folder: Path, records: int, hours: int) -> str:
    fleet = folder / "fleet"
    agents = max(1, records // hours // RECORDS_AN_AGENT_HOUR)
    simulate = ["simulate", "--agents", str(agents), "--hours", str(hours), "--out", str(fleet)]
    made = _run(f"from spark_rollups.cli import main; main({[*simulate, '--no-truth']!r})")
    before, new = _split(fleet / "journal", folder, hours)
    tables = folder / "tables"
    session = _run(f"{SESSION}\ns.range(1).collect()")
    journal, old = str(folder / "all"), sum(before.values())
    total = old + sum(new.values())
    contenders = [
        ("simulate (one process a core, no truth)", made, total),
        ("empty Spark session", session, 0),
        ("floor: lines read", _run(READ.format(journal=journal)), total),
        ("floor: lines parsed, one sum", _run(SUM.format(journal=journal)), total),
        ("batch: all tables", _run(BATCH.format(journal=folder / "old", tables=tables)), old),
    ]
    for path in (folder / "new").iterdir():
        shutil.move(path, folder / "old" / path.name)
    again = _run(BATCH.format(journal=folder / "old", tables=tables))
    contenders.append(("batch: one new hour", again, sum(new.values())))
    contenders.append(
        ("batch: nothing new", _run(BATCH.format(journal=folder / "old", tables=tables)), 0)
    )
    size = sum(path.stat().st_size for path in (folder / "all").iterdir())
    silver = sum(path.stat().st_size for path in (tables / "silver").rglob("*.parquet"))
    head = (
        f"{total:,} records of {agents} agents in {hours} hours, {size / 1e6:,.0f} MB of JSON,"
        f" {silver / 1e6:,.1f} MB of silver; Linux {platform.release()},"
        f" Python {platform.python_version()}, {os.cpu_count()} CPUs\n\n"
        "| contender | records | CPU s | without the session | seconds | records / CPU s |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    return head + "\n".join(_row(*each, session[0]) for each in contenders)


def _row(name: str, cost: tuple[float, float], records: int, session: float) -> str:
    own = cost[0] - session if "simulate" not in name else cost[0]
    speed = f"{records / own:,.0f}" if records and own > 0 else ""
    return f"| {name} | {records:,} | {cost[0]:.1f} | {own:.1f} | {cost[1]:.1f} | {speed} |"


def _run(program: str) -> tuple[float, float]:
    """Return the CPU seconds and the seconds of a program."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise SystemExit(done.stderr[-4000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, seconds


def _split(journal: Path, folder: Path, hours: int) -> tuple[dict[str, int], dict[str, int]]:
    """Put the last hour's lines apart from the others, and all of them together elsewhere."""
    old: dict[str, int] = {}
    new: dict[str, int] = {}
    for name in ("all", "old", "new"):
        (folder / name).mkdir()
    last = None
    for number, path in enumerate(sorted(journal.rglob("*.jsonl"))):
        name = f"{number:06}.jsonl"
        lines = path.read_text("utf-8").splitlines(keepends=True)
        if last is None:
            first = min(json.loads(line)["at_ms"] for line in lines)
            last = ((first - 1) // HOUR_MS + hours - 1) * HOUR_MS
        late = [_at_ms(line) > last for line in lines]
        parts = {"all": lines, "old": [], "new": []}
        for line, is_late in zip(lines, late, strict=True):
            parts["new" if is_late else "old"].append(line)
        for part, text in parts.items():
            if text:
                target = folder / part / (f"new-{name}" if part == "new" else name)
                target.write_text("".join(text), "utf-8")
        old[name], new[name] = len(parts["old"]), len(parts["new"])
        path.unlink()
    return old, new


def _at_ms(line: str) -> int:
    """Find the time without parsing the line."""
    return int(line.partition('"at_ms":')[2].partition(",")[0])


if __name__ == "__main__":
    main()
