"""`python -m bench`: run every benchmark and write docs/performance.md from what they print.

`python -m bench journal` runs the sections alone whose commands are of that name, and leaves the
others as they are.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"

HEAD = """\
# Performance

Written by `make bench` (`python -m bench`), never by hand: Linux {kernel}, Python {python}.
CPU time is user and system time of the process and of the programs that it starts; every figure
is a median, and all contenders of a table took turns in one run. Compare within a table:
the machine is shared and its speed drifts.

The goals are for 10,000 sockets of which 1 % go to brokers: a poll at most 0.3 of receiving the
whole table unparsed and at most 1.3 times the filtered dump unparsed; poll and scrape 3 times
cheaper than `ss` with the same filter and 50 times cheaper than `ss -tinp` and psutil.
"""

POLL = """\
## One poll: dump, ownership, classes, counters

Sockets in a network namespace of its own, half of them IPv4 and half mapped IPv6. The agent's clock
goes on by a second with each poll, so that what it does each few seconds has its share.
`whole table received` is the floor of every tool that does not filter in the kernel, `filtered dump
received` the floor of one that does: the kernel's own work, looked at by nobody.
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
    ("## A scrape of 100 clients and 50 brokers\n", [["bench.scrape"]]),
    (
        "## The sidecar as a whole\n\n`brokerwire run` beside 10 connections to brokers.\n",
        [["bench.service"]],
    ),
    (
        "## The journal\n\nA tenth of the connections is active at each poll.\n",
        [["bench.journal", "--connections", "1000", "--service"]],
    ),
]


def _known() -> dict[str, str]:
    """Return the sections of the page as it is, by their headings."""
    sections = ("\n" + PAGE.read_text()).split("\n## ")[1:]
    return {text.partition("\n")[0]: f"## {text}" for text in sections}


def main() -> None:
    """Run all, one after the other, and write the page."""
    wanted, known = sys.argv[1:], _known()
    head = HEAD.format(kernel=platform.release(), python=platform.python_version())
    parts = [PAGE.read_text().partition("\n## ")[0] if wanted else head]
    for text, commands in SECTIONS:
        if wanted and not {command[0].removeprefix("bench.") for command in commands} & {*wanted}:
            parts.append(known[text.partition("\n")[0].removeprefix("## ")])
            continue
        parts.append(text)
        for command in commands:
            print("python -m", *command, file=sys.stderr, flush=True)
            done = subprocess.run(
                [sys.executable, "-m", *command], stdout=subprocess.PIPE, check=True, text=True
            )
            parts.append(f"`python -m {' '.join(command)}`\n\n{done.stdout.strip()}\n")
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
