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
CPU time is user and system time of the process and of the programs that it starts; every figure
is a median, and all contenders of a table took turns in one run. Compare within a table:
the machine is shared and its speed drifts.

The goals are for 10,000 sockets of which 1 % go to brokers: a poll at most 0.3 of receiving the
whole table unparsed and at most 1.3 times the filtered dump unparsed, 3 times cheaper than `ss`
with the same filter and 50 times cheaper than `ss -tinp` and psutil. A scrape each 15 s of 25,000
series takes at most 2% of a core.
"""

POLL = """\
## One poll: dump, ownership, classes, counters

Sockets in a network namespace of its own, half of them IPv4 and half mapped IPv6. The agent's clock
goes on by a second with each poll, so that what it does each few seconds has its share.
`whole table received` is the floor of every tool that does not filter in the kernel, `filtered dump
received` the floor of one that does: the kernel's own work, looked at by nobody.
"""

JOIN = """\
## The join of one read

Beside parsing the page that was read, of which the join takes the node metrics only. A recording is
of three Java processes and of librdkafka clients, whose statistics come one client at a time.
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
        "## Connections that no poll can meet\n\n60 connections of 50 ms each, a poll a second.\n",
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
        "## The journal\n\nA tenth of the connections is active at each poll.\n",
        [["bench.journal", "--connections", "1000", "--service"]],
    ),
]

ROLLUPS = """\
## The rollups

CPU time of a process and all that it starts, once each but where medians of rounds are named: there
all contenders run in turn, and a ratio is the median of those within a round. `without the session`
is without what Spark takes to start and stop. `peak` is the resident memory of all its processes;
of the 3 GiB of heap that it may have Spark takes what it finds. The goal is at most 2.5 times the
floor; docs/internals/rollups.md has the result.

The JSON is parsed once, by `batch`, and what is kept is Parquet: so there are two floors. In the
table of the JSON it is Spark parsing every field and adding up one number of each record (a hash of
all its fields). In those of Parquet it is Spark reading every column and adding up the same; the
sum of one column, which reads no other, is shown too. From Parquet all contenders make the same:
`silver`, one row a series and hour, then `hourly` of that. Their `hourly` is compared, every figure
of every row, and must be equal, but for the number of clients, where Spark makes a sketch that can
be added up and the others count. The records of the larger sizes are those of one fleet so many
times over, each time of other agents and services.

A batch that comes each hour takes what is new: it is measured with a small fleet, whose table holds
a day or five weeks.
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
