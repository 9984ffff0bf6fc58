"""Run every benchmark and write docs/internals/performance.md: `python -m bench`.

`python -m bench journal` runs the sections alone whose commands are of that name, and leaves the
others as they are. `rollups` needs Spark, DuckDB and Polars and takes long: it runs only when it is
named (`make bench-rollups`). More of a command names it more closely:
`python -m bench 'rollups --copies 10'`; with BENCH_FOLDER its fleet is kept for the next size.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "internals" / "performance.md"

HEAD = """\
# Performance

Written by `make bench` (`python -m bench`), never by hand: Linux {kernel}, Python {python}.
CPU time is user and system time of the process and its children; every figure is a median, and the
contenders of a table took turns in one run. Compare within a table only: the machine is shared.

Goals, for 10,000 sockets of which 1% go to brokers: a poll costs at most 0.3 of receiving the whole
table unparsed, 1.3 of the filtered dump unparsed, a third of `ss` with the same filter and a
fiftieth of `ss -tinp` and psutil. A scrape every 15 s of 25,000 series takes at most 2% of a core.
"""

POLL = """\
## One poll: dump, ownership, classes, counters

Sockets in their own network namespace, half IPv4 and half mapped IPv6. The agent's clock advances
by a second with each poll, so that periodic work is included. `whole table received` is the lower
bound of tools that do not filter in the kernel, `filtered dump received` of tools that do.
"""

JOIN = """\
## The join of one read

Without parsing the page. The recordings are of three Java processes and of librdkafka clients,
whose statistics come one client at a time.
"""

SECTIONS: list[tuple[str, list[list[str]]]] = [
    (
        POLL,
        [
            ["bench.poll", "--sockets", str(sockets), "--share", share]
            for sockets in (100, 1_000, 10_000, 50_000)
            for share in ("0.01", "0.5")
        ],
    ),
    (
        "## Connections shorter than a poll\n\n60 connections of 50 ms each, a poll a second.\n",
        [["bench.short_lived"]],
    ),
    (
        JOIN,
        [["bench.join"]],
    ),
    ("## A scrape\n", [["bench.scrape"]]),
    (
        "## The sidecar as a whole\n\n`brokerwire run` beside 10 connections to brokers.\n",
        [["bench.service"], ["bench.six_hours"]],
    ),
    (
        "## The journal\n\nA tenth of the connections are active at each poll.\n",
        [["bench.journal", "--connections", "1000", "--service"]],
    ),
]

ROLLUPS = """\
## The rollups

CPU time of a process and its children, measured once unless medians of rounds are named: there the
contenders take turns, and a ratio is the median of the rounds. `without the session` excludes
Spark's start and stop. `peak` is the resident memory of all its processes; Spark may use 3 GiB of
heap. The goal is at most 2.5 times the floor; docs/internals/rollups.md has the result.

There are two floors, since the JSON is parsed once and kept as Parquet: Spark parsing every field
of the JSON and summing one number per record (a hash of all fields), and Spark reading every column
of the Parquet and summing the same. The sum of a single column is shown too. From Parquet all
contenders make `silver` (one row per series and hour) and `hourly`. Every figure of `hourly` must
be equal, except the number of clients, where Spark makes a mergeable sketch and the others count.
Larger sizes repeat the records of one fleet with other agents and services.

The hourly batch is measured with a small fleet whose tables hold a day or five weeks.
"""

# It needs what the others do not, and runs only where it is asked for.
BY_NAME: list[tuple[str, list[list[str]]]] = [
    (
        ROLLUPS,
        [
            ["bench.rollups", "--copies", "1", "--ingest"],
            ["bench.rollups", "--copies", "10", "--cores", "1", "2", "--rounds", "3"],
            ["bench.rollups", "--copies", "50"],
            ["bench.new_hour"],
        ],
    ),
]


def _known() -> dict[str, str]:
    """Return what the page says under each command."""
    known = {}
    for part in ("\n" + PAGE.read_text()).split("\n`python -m ")[1:]:
        command, _, rest = part.partition("`\n")
        known[command] = rest.partition("\n## ")[0].strip()
    return known


def _is_wanted(command: str, wanted: list[str], *, by_name: bool) -> bool:
    if not wanted:
        return not by_name
    return any(f"{command} ".startswith(f"bench.{name} ") for name in wanted)


def _page(head: str, known: dict[str, str]) -> str:
    parts = [head]
    for text, commands in [*SECTIONS, *BY_NAME]:
        names = [name for name in map(" ".join, commands) if name in known]
        if names:
            parts += [text, *(f"`python -m {name}`\n\n{known[name]}\n" for name in names)]
    return "\n".join(parts)


def main() -> None:
    """Run one after the other, and write the page after each."""
    wanted = sys.argv[1:]
    head = HEAD.format(kernel=platform.release(), python=platform.python_version())
    if wanted:
        head = PAGE.read_text().partition("\n## ")[0]
    for sections in (SECTIONS, BY_NAME):
        for command in (command for _, commands in sections for command in commands):
            name = " ".join(command)
            if not _is_wanted(name, wanted, by_name=sections is BY_NAME):
                continue
            print("python -m", name, file=sys.stderr, flush=True)
            done = subprocess.run(
                [sys.executable, "-m", *command], stdout=subprocess.PIPE, check=True, text=True
            )
            # Read only now: others may have written their own part meanwhile.
            PAGE.write_text(_page(head, _known() | {name: done.stdout.strip()}))


if __name__ == "__main__":
    main()
