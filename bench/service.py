"""What does the sidecar cost its pod: start-up, memory, processor?

    python -m bench.service

`brokerwire run` as a user starts it, in a network namespace of its own, beside a process that holds
one connection to each of 10 brokers, a tenth of them active each second, and a scrape each 15 s.
Then an hour of polls and scrapes in a row, to see whether memory grows.
"""

from __future__ import annotations

__all__ = ["main"]

import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from bench.holders import Holders, enter_network_namespace
from exporter.agent import Agent
from exporter.config.settings import BrokerSettings, PortRange, Settings
from exporter.metrics.collector import BrokerwireCollector
from exporter.metrics.exposition import KEPT_SECONDS, Exposition, Format

if TYPE_CHECKING:
    from exporter.metrics.collector import View

URL = "http://127.0.0.1:10920/metrics"
WATCHED_SECONDS = 60
SCRAPE_SECONDS = 15
HOUR_POLLS = 3600
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# A client with 10 brokers: the holders' three ports, and sockets enough.
SOCKETS, SHARE = 20, 0.5
CONFIG = "brokers:\n  ports: [9092-9094]\n"


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE / 2**20


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def scrape() -> bytes:
    with urllib.request.urlopen(URL, timeout=2) as answer:
        return bytes(answer.read())


def first_scrape(config: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start the agent; return it and the seconds until a scrape answered with a poll's figures."""
    begun = time.monotonic()
    command = [Path(sys.executable).parent / "brokerwire", "run", "--config", config]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while True:
        try:
            if b"kafka_client_connections{" in scrape():
                return process, time.monotonic() - begun
        except OSError:
            if process.poll() is not None or time.monotonic() - begun > 30:
                raise
        time.sleep(0.01)


def watch(process: subprocess.Popen[bytes], holders: Holders) -> tuple[float, float]:
    """Return the share of one core and the memory after a minute of service."""
    before, begun = cpu_seconds(process.pid), time.monotonic()
    for second in range(WATCHED_SECONDS):
        holders.touch(second)
        if second % SCRAPE_SECONDS == 0:
            scrape()
        time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
    share = (cpu_seconds(process.pid) - before) / (time.monotonic() - begun)
    return share, resident_mib(process.pid)


def hour(holders: Holders) -> tuple[float, float]:
    """Poll and scrape as often as in an hour; return the memory early on and at the end."""
    ticks = itertools.count(time.monotonic(), 1 / 3)
    ports = (PortRange(9092, 9094),)
    agent = Agent(Settings(brokers=BrokerSettings(ports=ports)), clock=lambda: next(ticks))
    views: list[View] = []
    scrapes = itertools.count(0.0, KEPT_SECONDS)
    exposition = Exposition(BrokerwireCollector(lambda: views), clock=lambda: next(scrapes))
    early = 0.0
    for poll in range(HOUR_POLLS):
        if poll % 10 == 0:
            holders.touch(poll)
        snapshot = agent.poll_once()
        if poll % SCRAPE_SECONDS == 0 and snapshot is not None:
            views[:] = [({}, snapshot)]
            exposition.page(Format.OPENMETRICS)
        if poll == HOUR_POLLS // 10:
            gc.collect()
            early = resident_mib(os.getpid())
    gc.collect()
    late = resident_mib(os.getpid())
    agent.stop()
    return early, late


def main() -> None:
    """Measure and print."""
    enter_network_namespace("bench.service", sys.argv[1:])
    holders = Holders(SOCKETS, SHARE)
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "brokerwire.yaml")
        config.write_text(CONFIG)
        for _ in range(4):
            process, seconds = first_scrape(config)
            starts.append(seconds)
            process.send_signal(signal.SIGTERM)
            process.wait(5)
        process, seconds = first_scrape(config)
        starts.append(seconds)
        share, memory = watch(process, holders)
        process.send_signal(signal.SIGTERM)
        stopping = time.monotonic()
        process.wait(5)
        stopped = time.monotonic() - stopping
    early, late = hour(holders)
    holders.close()
    print("| what | figure |\n| --- | ---: |")
    print(f"| first scrape after start, median of {len(starts)} | {sorted(starts)[2]:.2f} s |")
    print(f"| resident after a minute of service | {memory:.1f} MiB |")
    print(f"| share of one core, a poll a second, a scrape each 15 s | {100 * share:.2f} % |")
    print(f"| growth from the 6th to the 60th minute of polls | {1024 * (late - early):.0f} KiB |")
    print(f"| from SIGTERM to the end | {stopped:.2f} s |")
    if "--json" in sys.argv:
        figures = {"starts": starts, "share": share, "resident_mib": memory}
        print(json.dumps(figures), file=sys.stderr)


if __name__ == "__main__":
    main()
