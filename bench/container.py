"""What does the image cost a pod: size, start-up, memory, processor?

    python -m bench.container [--write]     # needs podman; builds the image

In a container as the chart closes it, with a scrape each 15 s for a minute and nothing to watch;
bench.service has the figures beside connections.
"""

from __future__ import annotations

__all__ = ["main"]

import gzip
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.container.pods import CLOSED, MEMORY, REPOSITORY, build, podman
from tests.e2e.monitoring import get

PAGE = REPOSITORY / "docs" / "running.md"
START, END = "<!-- container -->", "<!-- /container -->"
TAG = "localhost/brokerwire:bench"
STARTS = 5
WATCHED_SECONDS = 60
SCRAPE_SECONDS = 15
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print a table."""
    image = build(TAG)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "image.tar")
        podman("save", "--quiet", "--format", "docker-archive", "-o", str(archive), TAG)
        compressed = len(gzip.compress(archive.read_bytes(), 6))
    starts, cpus = [], []
    for _ in range(STARTS):
        container, seconds = started()
        starts.append(seconds)
        cpus.append(processor(container))
        podman("rm", "--force", "--time", "1", container)
    container, _ = started()
    before = processor(container)
    for second in range(WATCHED_SECONDS):
        if second % SCRAPE_SECONDS == 0:
            get(f"http://{address(container)}:10920/metrics")
        time.sleep(1)
    used = (processor(container) - before) / WATCHED_SECONDS
    resident = memory(container)
    podman("rm", "--force", "--time", "1", container)
    rows = [
        ("image, unpacked", f"{image['Size'] / 1e6:.0f} MB"),
        ("image, compressed (gzip)", f"{compressed / 1e6:.0f} MB"),
        ("container start to the first finished poll (`/-/ready`), median", f"{mid(starts):.2f} s"),
        ("processor time of that start, median", f"{mid(cpus):.2f} s"),
        ("processor afterwards, nothing to watch", f"{100 * used:.1f} % of a core"),
        ("resident after a minute", f"{resident:.1f} MiB"),
    ]
    rows.append(
        (f"load of the machine meanwhile, {os.cpu_count()} cores", f"{os.getloadavg()[1]:.0f}")
    )
    table = "\n".join(
        ["| | |", "| --- | ---: |", *(f"| {name} | {value} |" for name, value in rows)]
    )
    print(table)
    if "--write" in sys.argv:
        head, _, rest = PAGE.read_text("utf-8").partition(START)
        tail = rest.partition(END)[2]
        PAGE.write_text(f"{head}{START}\n{table}\n{END}{tail}", "utf-8")


def started() -> tuple[str, float]:
    """Start the agent; return its container and the seconds until its first poll was done."""
    container = podman("create", *CLOSED, *MEMORY, TAG)
    begun = time.monotonic()
    podman("start", container)
    where = address(container)
    while True:
        with suppress(OSError):
            get(f"http://{where}:10920/-/ready", timeout=1)
            return container, time.monotonic() - begun
        if time.monotonic() - begun > WATCHED_SECONDS:
            raise SystemExit(podman("logs", container))
        time.sleep(0.01)


def inspected(container: str) -> dict:
    return json.loads(podman("inspect", container))[0]


def address(container: str) -> str:
    return inspected(container)["NetworkSettings"]["IPAddress"]


def processor(container: str) -> float:
    pid = inspected(container)["State"]["Pid"]
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def memory(container: str) -> float:
    pid = inspected(container)["State"]["Pid"]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def mid(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
