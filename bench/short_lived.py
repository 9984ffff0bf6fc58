"""Are connections counted that no poll can meet, and what does each cost?

    python -m bench.short_lived

In a network namespace of its own a process opens 60 connections of 50 ms each to a broker's port,
four times: closed by the client, by the server, aborted, refused. The agent polls each second.
Then 1,500 at once, to measure the CPU time of one.
"""

from __future__ import annotations

__all__ = ["main"]

import contextlib
import json
import multiprocessing
import socket
import statistics
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING

from bench.dump import cpu_ms
from bench.holders import BROKER_PORTS, enter_network_namespace
from exporter.agent import Agent
from exporter.config.settings import BrokerSettings, PortRange, Settings

if TYPE_CHECKING:
    from exporter.snapshot import Snapshot

CONNECTIONS = 60
HOLD_SECONDS = 0.05
# Fewer than a receive buffer of the default size holds between two polls.
AT_ONCE = 1500
PORT = BROKER_PORTS[0]
REFUSED_PORT = BROKER_PORTS[1]
CASES = ("client", "server", "abort", "refused")


def connect(case: str, count: int, hold: float) -> None:
    """Open and end `count` connections, one after the other, the way `case` says."""
    for _ in range(count):
        with socket.socket() as client:
            if case == "refused":
                with contextlib.suppress(ConnectionRefusedError):
                    client.connect(("127.0.0.1", REFUSED_PORT))
                continue
            client.connect(("127.0.0.1", PORT))
            if case == "server":
                client.recv(1)
                continue
            time.sleep(hold)
            if case == "abort":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def serve(listener: socket.socket, case: list[str]) -> None:
    """Accept, and close first where that is the case."""
    while True:
        peer, _ = listener.accept()
        if case[0] == "server":
            time.sleep(HOLD_SECONDS)
            peer.close()
        else:
            threading.Thread(target=_hold, args=(peer,), daemon=True).start()


def _hold(peer: socket.socket) -> None:
    with peer, contextlib.suppress(ConnectionResetError):
        peer.recv(1)


def counted(snapshot: Snapshot | None) -> int:
    assert snapshot is not None
    return sum(snapshot.totals.opened.values())


def count_case(agent: Agent, case: str) -> int:
    """Return how many of the connections of one case the agent has counted."""
    before = counted(agent.poll_once())
    worker = multiprocessing.get_context("fork").Process(
        target=connect, args=(case, CONNECTIONS, HOLD_SECONDS)
    )
    worker.start()
    while worker.is_alive():
        worker.join(1.0)
        agent.poll_once()
    time.sleep(0.2)
    return counted(agent.poll_once()) - before


def cost_of_one(agent: Agent) -> float:
    """Return the CPU time of one short connection in microseconds: poll with less poll without."""
    costs = []
    for _ in range(5):
        idle = []
        for _ in range(5):
            begun = cpu_ms()
            agent.poll_once()
            idle.append(cpu_ms() - begun)
        worker = multiprocessing.get_context("fork").Process(
            target=connect, args=("refused", AT_ONCE, 0.0)
        )
        worker.start()
        worker.join()
        before = counted(agent.snapshot())
        begun = cpu_ms()
        agent.poll_once()
        spent = cpu_ms() - begun
        found = counted(agent.snapshot()) - before
        costs.append(1000 * (spent - statistics.median(idle)) / max(1, found))
    return statistics.median(costs)


def main() -> None:
    """Measure and print."""
    enter_network_namespace("bench.short_lived", sys.argv[1:])
    case = [""]
    listener = socket.create_server(("127.0.0.1", PORT), backlog=1024)
    # In a process of its own: what the agent itself opens is never counted.
    server = multiprocessing.get_context("fork")
    agent = Agent(Settings(brokers=BrokerSettings(ports=(PortRange(PORT, REFUSED_PORT),))))
    figures: dict[str, float] = {}
    for name in CASES:
        case[0] = name
        serving = server.Process(target=serve, args=(listener, case), daemon=True)
        serving.start()
        if name == "refused":
            # The kernel forgets a refused connection's port: the agent must know the address.
            count_case(agent, "client")
        figures[name] = count_case(agent, name)
        serving.kill()
        serving.join()
    figures["microseconds"] = cost_of_one(agent)
    agent.stop()
    print("| ended by | counted |\n| --- | ---: |")
    for name in CASES:
        print(f"| {name} | {figures[name]:.0f} of {CONNECTIONS} |")
    print(f"\nCPU time of one: {figures['microseconds']:.1f} microseconds (median of 5)")
    if "--json" in sys.argv:
        print(json.dumps(figures), file=sys.stderr)


if __name__ == "__main__":
    main()
