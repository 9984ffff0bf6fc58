"""What does it cost to read the socket table?

    python -m bench.dump --sockets 10000 --share 0.01

N sockets in a network namespace of its own, a share of them connections to three broker ports.
All contenders take turns, so that a noisy machine hurts all alike; each figure is the median of the
CPU time (user and system, this process and the programs that it starts) of one look at the table.
Another benchmark adds contenders of its own: `main(extra=..., module=...)`.
"""

from __future__ import annotations

__all__ = ["Contender", "Table", "main"]

import argparse
import gc
import json
import os
import platform
import random
import resource
import socket
import statistics
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.holders import BROKER_PORTS, Holders, enter_network_namespace
from exporter.config.settings import PortRange
from exporter.kernel.netlink import BUFFER_BYTES, HEADER, open_diag_socket
from exporter.kernel.port_filter import FilterKind
from exporter.kernel.sock_diag import NetlinkSocketTable, dump_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BROKER_RANGES = (PortRange(BROKER_PORTS[0], BROKER_PORTS[-1]),)
# Shorter than this a measurement is mostly that of the clock's own steps.
LEAST_MEASURED_MS = 5.0
MOST_REPEATS = 50
DONE = 3
Counts = Counter[int]


@dataclass
class Contender:
    """One way to look; `look` returns sockets by broker port, or None where it parses nothing.

    `prepare` runs before each look and is not measured.
    """

    name: str
    look: Callable[[], Counts | None]
    prepare: Callable[[], None] | None = None
    repeats: int = 1
    milliseconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)


@dataclass(frozen=True)
class Table:
    """What is there to be read."""

    holders: Holders

    def touch(self) -> Callable[[], None]:
        turn = iter(range(10**9))
        return lambda: self.holders.touch(next(turn))


def cpu_ms() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime)


def raw_dump(ports: Sequence[PortRange]) -> Callable[[], None]:
    """Receive a dump and look at nothing but the type of each datagram's first message."""
    diag = open_diag_socket()
    request = dump_request(ports, FilterKind.EQUAL)
    buffer = memoryview(bytearray(BUFFER_BYTES))

    def look() -> None:
        diag.send(request)
        while True:
            diag.recv_into(buffer, BUFFER_BYTES, socket.MSG_TRUNC)
            if HEADER.unpack_from(buffer)[1] == DONE:
                return

    return look


def by_port(ports: Sequence[int]) -> Counts:
    return Counter(port for port in ports if port in BROKER_PORTS)


def netlink_first() -> Counts:
    with NetlinkSocketTable(BROKER_RANGES) as table:
        return by_port([r.remote.port for r in table.read().sockets])


def netlink_again(name: str, touch: Callable[[], None] | None = None) -> Contender:
    """Read a second time; between the reads `touch` has some connections be active."""
    table = NetlinkSocketTable(BROKER_RANGES)
    first = by_port([reading.remote.port for reading in table.read().sockets])

    def prepare() -> None:
        table.read()
        if touch is not None:
            touch()

    def look() -> Counts:
        table.read()
        return first

    return Contender(name, look, prepare)


def ss(*arguments: str) -> Callable[[], Counts]:
    def look() -> Counts:
        text = subprocess.run(
            ["ss", "-H", *arguments], stdout=subprocess.PIPE, check=True, text=True
        ).stdout
        # Address columns are the fourth and fifth; lines that begin with a blank hold tcp_info.
        lines = (line.split() for line in text.splitlines() if line and not line[0].isspace())
        return by_port([int(words[4].rpartition(":")[2]) for words in lines])

    return look


SS_FILTER = "( " + " or ".join(f"dport = :{port}" for port in BROKER_PORTS) + " )"


def proc_net() -> Counts:
    ports = []
    for name in ("tcp", "tcp6"):
        with Path(f"/proc/net/{name}").open(encoding="ascii") as file:
            next(file)
            for line in file:
                words = line.split(None, 3)
                ports.append(int(words[2].rpartition(":")[2], 16))
    return by_port(ports)


def psutil_all() -> Counts:
    return by_port([c.raddr.port for c in psutil.net_connections("tcp") if c.raddr])


def contenders_for(table: Table) -> list[Contender]:
    whole, filtered = raw_dump(()), raw_dump(BROKER_RANGES)
    return [
        # As warm as the others: each steady read follows one that is not measured.
        Contender("whole table received, nothing parsed", whole, whole),
        Contender("filtered dump received, nothing parsed", filtered, filtered),
        Contender("NetlinkSocketTable, first read", netlink_first),
        netlink_again("NetlinkSocketTable, nothing happened"),
        netlink_again("NetlinkSocketTable, 10 % were active", table.touch()),
        Contender("ss -tin, port filter", ss("-tin", SS_FILTER)),
        Contender("ss -tin", ss("-tin")),
        Contender("ss -tinp", ss("-tinp")),
        Contender("psutil.net_connections", psutil_all),
        Contender("/proc/net/tcp and tcp6, parsed", proc_net),
    ]


def measure_once(contender: Contender) -> tuple[float, Counts | None]:
    spent, found = 0.0, None
    for _ in range(contender.repeats):
        if contender.prepare is not None:
            contender.prepare()
        begun = cpu_ms()
        counts = contender.look()
        spent += cpu_ms() - begun
        found = found or counts
    return spent / contender.repeats, found


def measure(contenders: Sequence[Contender], rounds: int) -> None:
    """Let all take turns; the first turn is not counted but must agree on what is there."""
    agreed: Counts | None = None
    for contender in contenders:
        spent, counts = measure_once(contender)
        contender.repeats = max(1, min(MOST_REPEATS, round(LEAST_MEASURED_MS / max(spent, 0.01))))
        if counts is not None:
            agreed = agreed or counts
            assert counts == agreed, f"{contender.name} found {counts}, others {agreed}"
    gc.collect()
    gc.freeze()
    chance = random.Random(rounds)
    for _ in range(rounds):
        # Whoever follows a look at the whole table finds colder caches: each round another order.
        for contender in chance.sample(contenders, len(contenders)):
            contender.milliseconds.append(measure_once(contender)[0])


def markdown(contenders: Sequence[Contender], title: str) -> str:
    whole, filtered = contenders[0].median, contenders[1].median
    lines = [
        title,
        "",
        "| contender | CPU ms | of the whole table | of the filtered dump |",
        "| --- | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {c.name} | {c.median:.3f} | {c.median / whole:.2f} | {c.median / filtered:.2f} |"
        for c in contenders
    ]
    return "\n".join(lines)


def main(
    extra: Callable[[Table], Sequence[Contender]] | None = None, module: str = "bench.dump"
) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sockets", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    enter_network_namespace(module, sys.argv[1:])
    holders = Holders(options.sockets, options.share)
    try:
        table = Table(holders)
        contenders = [*contenders_for(table), *(extra(table) if extra else ())]
        measure(contenders, options.rounds)
    finally:
        holders.close()
    title = (
        f"{options.sockets} sockets, {holders.broker_sockets} of them to brokers;"
        f" Linux {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} CPUs"
    )
    print(markdown(contenders, title))
    if options.json:
        figures = {c.name: {"median_ms": c.median, "ms": c.milliseconds} for c in contenders}
        options.json.write_text(json.dumps({"title": title, "contenders": figures}, indent=1))


if __name__ == "__main__":
    main()
