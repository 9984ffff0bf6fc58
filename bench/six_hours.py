"""What does the sidecar hold after six hours: one client, ten brokers, the goal is 40 MiB.

    python -m bench.six_hours

The agent and its server in one process, in a network namespace of its own, beside a process that
holds one connection to each of 10 brokers. The recorder is given six hours of polls at once, with
the figures of the real ones; then the agent polls, is scraped and asked for its page and history
for a minute.
"""

from __future__ import annotations

__all__ = ["main"]

import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from bench.holders import Holders, enter_network_namespace
from bench.service import SHARE, SOCKETS
from exporter.agent import Agent
from exporter.config.settings import BrokerSettings, PortRange, Settings, WebSettings
from exporter.web.server import WebServer

if TYPE_CHECKING:
    from exporter.snapshot import Snapshot

HOURS = 6
WATCHED_SECONDS = 60
PATHS = ("/metrics", "/", "/api/v1/connections", "/api/v1/history")
SERVE = "serve"


def main() -> None:
    if SERVE in sys.argv:
        serve()
        return
    enter_network_namespace("bench.six_hours", [])
    holders = Holders(SOCKETS, SHARE)
    command = [sys.executable, "-m", "bench.six_hours", SERVE]
    subprocess.run(command, check=True)
    holders.close()


def serve() -> None:
    settings = Settings(
        brokers=BrokerSettings(ports=(PortRange(9092, 9094),)),
        web=WebSettings(listen_addresses=("127.0.0.1:10920",)),
    )
    agent = Agent(settings)
    server = WebServer(settings.web, agent.snapshot)
    server.start()
    snapshot = polled(agent)
    while not snapshot.counts:
        time.sleep(1)
        snapshot = polled(agent)
    begun = resident_mib("VmRSS")
    for second in range(0, HOURS * 3600, 5):
        agent._recorder.take(  # noqa: SLF001
            snapshot.at - HOURS * 3600 + second,
            snapshot.counts,
            snapshot.expected,
            agent.engine.opened_and_closed,
            snapshot.findings,
        )
    end = time.monotonic() + WATCHED_SECONDS
    while time.monotonic() < end:
        snapshot = polled(agent)
        for path in PATHS:
            urllib.request.urlopen(f"http://127.0.0.1:10920{path}", timeout=5).read()
        time.sleep(1)
    minutes = sum(1 for _ in snapshot.history.rings[-1].rows(snapshot.at))
    after = resident_mib("VmRSS")
    print("| one client, ten brokers | |")
    print("| --- | ---: |")
    print(f"| connections | {len(snapshot.connections)} |")
    print(f"| minutes of history | {minutes} |")
    print(f"| resident before the six hours | {begun:.1f} MiB |")
    print(f"| resident after them, a minute of scrapes and of a page | {after:.1f} MiB |")
    print(f"| at most | {resident_mib('VmHWM'):.1f} MiB |")
    server.stop()


def polled(agent: Agent) -> Snapshot:
    agent.poll_once()
    snapshot = agent.snapshot()
    assert snapshot is not None
    return snapshot


def resident_mib(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    main()
