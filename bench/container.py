"""What does the image cost a pod: size, start-up, memory, processor?

    python -m bench.container [--write]     # needs podman; builds the image

In a container as the chart closes and limits it, with a scrape each 15 s for a minute: with nothing
to watch, and beside 1,000 and 5,000 connections in its own network, a tenth of them active each
second. Each connection has both its ends there, as where a client and a broker share a machine.
"""

from __future__ import annotations

__all__ = ["main"]

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.holders import Holders
from tests.container.pods import CLOSED, MEMORY, REPOSITORY, build, podman
from tests.e2e.monitoring import get

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = REPOSITORY / "docs" / "internals" / "resources.md"
START, END = "<!-- container -->", "<!-- /container -->"
TAG = "localhost/brokerwire:bench"
STARTS = 5
WATCHED_SECONDS = 60
SCRAPE_SECONDS = 15
CONNECTIONS = (0, 1000, 5000)
# After so long nothing is new any more: an hour's records are made, buffers have their size.
SETTLE_SECONDS = 15
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print a table; or hold connections, for the process that measures."""
    if sys.argv[1:2] == ["--hold"]:
        hold(int(sys.argv[2]))
        return
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
    rows = [
        ("image, unpacked", f"{image['Size'] / 1e6:.0f} MB"),
        ("image, compressed (gzip)", f"{compressed / 1e6:.0f} MB"),
        ("container start to the first finished poll (`/-/ready`), median", f"{mid(starts):.2f} s"),
        ("processor time of that start, median", f"{mid(cpus):.2f} s"),
    ]
    for count in CONNECTIONS:
        used, resident, most = served(count)
        beside = f"{count:,} connections" if count else "nothing to watch"
        rows += [
            (f"processor, {beside}", f"{100 * used:.1f} % of a core"),
            (f"resident, {beside}: after a minute, and at most", f"{resident:.0f}, {most:.0f} MiB"),
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


def served(count: int) -> tuple[float, float, float]:
    """Return the share of a core, and the MiB after a minute and at most, beside connections."""
    container, _ = started()
    try:
        with held(container, count):
            time.sleep(SETTLE_SECONDS)
            before, begun = processor(container), time.monotonic()
            for second in range(WATCHED_SECONDS):
                if second % SCRAPE_SECONDS == 0:
                    page = get(f"http://{address(container)}:10920/metrics").decode()
                time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
            used = (processor(container) - before) / (time.monotonic() - begun)
            # A figure of an agent that saw nothing would be a lie.
            seen = re.findall(r"^kafka_client_connections{.*} (\S+)", page, re.MULTILINE)
            if sum(map(float, seen)) != count:
                raise SystemExit(f"it saw {sum(map(float, seen)):g} connections, not {count}")
            return used, memory(container), most_memory(container)
    finally:
        podman("rm", "--force", "--time", "1", container)


@contextmanager
def held(container: str, count: int) -> Iterator[None]:
    """Hold connections in the container's network, by processes outside of the container."""
    if not count:
        yield
        return
    network = f"/proc/{inspected(container)['State']['Pid']}/ns/net"
    command = ["nsenter", f"--net={network}", sys.executable, "-m", "bench.container", "--hold"]
    holder = subprocess.Popen(
        [*command, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        if holder.stdout is None or holder.stdout.readline() != b"held\n":
            raise SystemExit("the connections could not be made")
        yield
    finally:
        holder.terminate()
        holder.communicate()


def hold(count: int) -> None:
    """Hold connections to brokers and use a tenth of them each second, until killed."""
    holders = Holders(2 * count, 0.5)
    print("held", flush=True)
    second = 0
    while True:
        holders.touch(second)
        second += 1
        time.sleep(1)


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


def most_memory(container: str) -> float:
    pid = inspected(container)["State"]["Pid"]
    (kib,) = re.findall(
        r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return int(kib) / 1024


def mid(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
