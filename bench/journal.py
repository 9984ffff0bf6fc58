"""What does the journal cost: a poll with it, a minute's batch, a file, a spool, memory?

    python -m bench.journal --connections 1000

The engine is fed readings made up here, in which a tenth of the sockets is active at each poll;
with and without the journal take turns.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from exporter.config.journal import JOURNAL_LABELS, JournalFileSettings
from exporter.config.settings import Settings
from exporter.engine.engine import Engine
from exporter.journal.file import JournalFile
from exporter.journal.lines import lines_of
from exporter.journal.spool import Spool
from exporter.model import (
    Endpoint,
    KernelReading,
    Library,
    Owner,
    OwnerRung,
    ReadMethod,
    SocketReading,
    TcpInfo,
    TcpState,
)
from exporter.totals.batches import Journal
from exporter.totals.journal_values import AgentFigures, Place
from exporter.totals.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.journal.lines import Lines
    from exporter.totals.journal_series import JournalTotals
    from exporter.totals.journal_values import Batch

Result = TypeVar("Result")

BROKERS = 50
PROCESSES = 20
ROUNDS = 60
BATCHES = 200
PLACE = Place(agent_id="bench", agent_version="0", labels=dict.fromkeys(JOURNAL_LABELS, "bench"))

# What a sidecar holds: the program without a journal, with one in files, with one in a topic.
PROGRAM = """
import sys
from exporter.commands.run import _journal
from exporter.agent import Agent
from exporter.web.server import WebServer
from exporter.config.journal import *
from exporter.config.settings import Settings
import tempfile, time
folder = tempfile.mkdtemp()
file = JournalFileSettings(path=folder + "/journal.jsonl")
kafka = JournalKafkaSettings(bootstrap_servers="127.0.0.1:9", spool_folder=folder + "/spool")
journal = {
    "none": None,
    "file": JournalSettings(file=file),
    "kafka": JournalSettings(kafka=kafka),
}[sys.argv[1]]
sink, journaling = _journal(Settings(journal=journal))
agent = Agent(Settings(), journaling=journaling)
if sink is not None:
    sink.start()
agent.start()
before = time.process_time()
time.sleep(10)
used = time.process_time() - before
resident = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(int(resident.split()[1]) / 1024, 100 * used / 10)
agent.stop()
"""


class World:
    """Sockets that go on, and an engine that is told of them."""

    def __init__(self, connections: int, journal: Journal | None) -> None:
        self.journal = journal
        totals: JournalTotals | None = None if journal is None else journal.totals
        self.engine = Engine(Settings(), journal=totals)
        self.now = 1000.0
        self.owners = {
            cookie: Owner(
                key=f"p{cookie // BROKERS % PROCESSES}",
                rung=OwnerRung.PROC_FD,
                name=f"p{cookie // BROKERS % PROCESSES}",
                library=Library.JAVA,
            )
            for cookie in range(connections)
        }
        self.sockets = [_socket(cookie) for cookie in range(connections)]
        self.polls = 0
        self.poll()

    def poll(self) -> list[Batch]:
        """Let a tenth of the sockets be active, and poll a second later."""
        self.now += 1.0
        self.polls += 1
        for cookie in range(self.polls % 10, len(self.sockets), 10):
            info = self.sockets[cookie].info
            assert info is not None
            more = replace(info, bytes_acked=(info.bytes_acked or 0) + 100, last_data_sent_ms=0)
            self.sockets[cookie] = replace(self.sockets[cookie], at=self.now, info=more)
        kernel = KernelReading(
            at=self.now,
            method=ReadMethod.SOCK_DIAG,
            sockets=tuple(self.sockets),
            events_complete=True,
        )
        batches = []
        begun = time.process_time()
        if self.journal is not None:
            wall = 1_760_000_000.0 + self.now
            figures = AgentFigures(polls=self.polls)
            batches = self.journal.turn(self.now, wall, figures, self.engine.held)
        self.engine.poll(kernel, self.owners)
        self.cost = time.process_time() - begun
        return batches


def _socket(cookie: int) -> SocketReading:
    return SocketReading(
        at=1000.0,
        cookie=cookie,
        local=Endpoint("10.0.0.1", 10_000 + cookie % 50_000),
        remote=Endpoint(f"10.1.0.{cookie % BROKERS}", 9092),
        tcp_state=TcpState.ESTABLISHED,
        inode=cookie + 1,
        uid=1000,
        cgroup_id=None,
        receive_queue=0,
        send_queue=0,
        retransmits=0,
        info=TcpInfo(
            bytes_acked=100,
            bytes_received=100,
            segments_in=5,
            segments_out=5,
            data_segments_in=2,
            data_segments_out=2,
            last_data_sent_ms=10,
            last_data_received_ms=10,
            last_ack_received_ms=10,
        ),
    )


def _journal(most: int = 100_000) -> Journal:
    return Journal(PLACE, interval=60.0, most_series=most, new_boot_id=lambda: "0" * 32)


def _polls(connections: int) -> None:
    with_journal, without = World(connections, _journal()), World(connections, None)
    costs: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for world in (without, with_journal):
            if not world.poll():
                costs[world is with_journal].append(world.cost)
    print("| what | CPU ms |\n| --- | ---: |")
    for is_on in (False, True):
        words = "with the journal" if is_on else "without"
        print(f"| one poll of {connections} connections, {words} | {_ms(costs[is_on])} |")
    batches = [_cut(with_journal) for _ in range(20)]
    series = len(batches[0][1].records) - 1
    print(f"| a batch of {series} series made | {_ms([cost for cost, _ in batches])} |")
    encoded = [_timed(lambda batch=batch: lines_of(batch, 128)) for _, batch in batches]
    print(f"| the same encoded | {_ms([cost for cost, _ in encoded])} |")
    lines = encoded[-1][1]
    print(f"\nA record has {len(lines.data) / lines.records:.0f} bytes.")
    _disk(lines)


def _cut(world: World) -> tuple[float, Batch]:
    """Make one batch of everything, whatever the minute."""
    assert world.journal is not None
    world.poll()
    moment = world.now

    def cut() -> Batch:
        assert world.journal is not None
        (batch,) = world.journal.finish(moment, AgentFigures(), world.engine.held)
        return batch

    return _timed(cut)


def _disk(lines: Lines) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = JournalFile(JournalFileSettings(path=f"{folder}/journal.jsonl"))
        spool = Spool(f"{folder}/spool", 1 << 30)
        ways: dict[str, Callable[[Lines], None]] = {"file": file.append, "spool": spool.add}
        print("\n| one batch on disk | wall ms | CPU ms |\n| --- | ---: | ---: |")
        for name, write in ways.items():
            walls, costs = [], []
            for number in range(BATCHES):
                named = lines._replace(name=f"{number:015d}-0123456789ab-{number:010d}")
                begun = time.perf_counter()
                costs.append(_timed(lambda w=write, n=named: w(n))[0])
                walls.append(time.perf_counter() - begun)
            print(f"| {name}, with fsync | {_ms(walls)} | {_ms(costs)} |")
        size = len(lines.data)
        print(
            f"\nThe default spool of 64 MiB holds {(64 << 20) // (-(-size // 4096) * 4096)} such"
            f" batches of {size} bytes; {BATCHES} of them took {spool.room} bytes on disk."
        )
        file.close()
        spool.close()


def _memory(connections: int) -> None:
    world = World(connections, None)
    tracemalloc.start()
    journal = _journal()
    before = tracemalloc.get_traced_memory()[0]
    journal.turn(world.now, 1_760_000_000.0, AgentFigures(), ())
    store = Store(journal.totals)
    for view in world.engine.views:
        store.put(view, world.now)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    series = len(store)
    print(f"\nA series takes {grown / series:.0f} bytes of memory ({series} of them).")


def _service() -> None:
    print("\n| sidecar with a journal in | memory MiB | CPU % of a core |\n| --- | ---: | ---: |")
    for name in ("none", "file", "kafka"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, name],
            cwd=Path(__file__).parent.parent,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        resident, percent = map(float, done.stdout.split())
        print(f"| {name} | {resident:.1f} | {percent:.2f} |")


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def _ms(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.3f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--service", action="store_true", help="the sidecar as a whole, too")
    options = parser.parse_args()
    _polls(options.connections)
    _memory(options.connections)
    if options.service:
        _service()


if __name__ == "__main__":
    main()
