"""What the core is fed without clients' metrics, written to a file beside a real lab.

    python -m tests.scenarios.kernel_recording SSL --out tests/golden/kernel/ssl.json.gz

A recording holds every poll (the sockets that changed, their owners and client groups, the threads
of the processes) and, every few seconds, what the clients said of their connections. Replayed
through the Engine it gives the same classes without a lab, and by other rules what an agent with
fewer rights would have said.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from exporter.config.settings import Settings
from exporter.engine.engine import Engine
from exporter.model import (
    ClientGroup,
    ClientThreads,
    ClosedSocket,
    Endpoint,
    GroupsReading,
    KernelReading,
    Library,
    Owner,
    OwnerRung,
    ReadMethod,
    SocketReading,
    TcpInfo,
    TcpState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from exporter.engine.engine import PollOutcome
    from tests.lab.truth import TruthConnection

_INFO = tuple(each.name for each in fields(TcpInfo))
_TRUTH = ("local", "remote", "role", "client_id", "client_kind", "broker_id", "node_id", "pid",
          "name", "instance")  # fmt: skip


@dataclass
class Recording:
    """Polls and truths in their order; sockets, owners and groups are told once."""

    about: str = ""
    started: float = 0.0
    events: list[list[Any]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        document = {"about": self.about, "started": self.started, "events": self.events}
        packed = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)
        path.write_bytes(packed)

    @classmethod
    def load(cls, path: Path) -> Recording:
        document = json.loads(gzip.decompress(path.read_bytes()))
        return cls(document["about"], document["started"], document["events"])


class Recorder:
    """Stands in front of an engine's `poll` and writes down what it gets."""

    def __init__(self, engine: Engine, recording: Recording) -> None:
        self.recording = recording
        self._poll = engine.poll
        self._sockets: dict[int, SocketReading] = {}
        self._owners: dict[int, Owner] = {}
        self._groups: dict[int, ClientGroup] = {}
        self._reading: GroupsReading | None = None
        self._lock = threading.Lock()
        engine.poll = self.poll  # type: ignore[method-assign]

    def poll(
        self,
        kernel: KernelReading,
        owners: Mapping[int, Owner],
        groups: GroupsReading | None = None,
    ) -> PollOutcome:
        with self._lock:
            self.recording.events.append(["poll", self._packed(kernel, owners, groups)])
        return self._poll(kernel, owners, groups)

    def note_truth(self, truths: Iterable[TruthConnection]) -> None:
        rows = [[getattr(truth, name) for name in _TRUTH] for truth in truths]
        with self._lock:
            self.recording.events.append(["truth", rows])

    def _packed(
        self,
        kernel: KernelReading,
        owners: Mapping[int, Owner],
        groups: GroupsReading | None,
    ) -> dict[str, Any]:
        now = {reading.cookie: reading for reading in kernel.sockets}
        event: dict[str, Any] = {"at": round(kernel.at, 4), "complete": kernel.events_complete}
        event["sockets"] = [
            _packed_socket(reading, self._sockets.get(cookie))
            for cookie, reading in now.items()
            if self._sockets.get(cookie) is not reading
        ]
        event["gone"] = [cookie for cookie in self._sockets if cookie not in now]
        event["closed"] = [
            [round(each.at, 4), each.cookie, str(each.local), str(each.remote),
             _packed_info(each.info), each.window, each.segment]
            for each in kernel.closed
        ]  # fmt: skip
        event["owners"] = [
            [cookie, _packed_owner(owner)]
            for cookie, owner in owners.items()
            if self._owners.get(cookie) != owner
        ]
        self._sockets, self._owners = now, dict(owners)
        if groups is not None and groups is not self._reading:
            self._reading = groups
            event["groups"] = {
                "of": [[c, g.key, g.number, g.is_whole] for c, g in groups.of.items()],
                "threads": {
                    key: [t.producers, t.consumers, t.admins, t.librdkafka]
                    for key, t in groups.threads.items()
                },
                "readable": sorted(groups.readable),
                "unreadable": sorted(groups.unreadable),
            }
        return event


def _packed_socket(reading: SocketReading, before: SocketReading | None) -> list[Any]:
    head = None
    if before is None:
        head = [
            str(reading.local),
            str(reading.remote),
            reading.inode,
            reading.uid,
            reading.is_ipv6,
        ]
    return [
        reading.cookie, head, round(reading.at, 4), str(reading.tcp_state), reading.receive_queue,
        reading.send_queue, reading.retransmits, _packed_info(reading.info),
    ]  # fmt: skip


def _packed_info(info: TcpInfo | None) -> list[Any] | None:
    return None if info is None else [getattr(info, name) for name in _INFO]


def _packed_owner(owner: Owner) -> list[Any]:
    return [owner.key, str(owner.rung), owner.name, owner.pid, owner.started, owner.uid,
            str(owner.library)]  # fmt: skip


# ---- replaying -------------------------------------------------------------------------------


Truths = list[Any]


def replay(
    recording: Recording,
    settings: Settings | None = None,
    *,
    owner_of: Callable[[Owner], Owner] = lambda owner: owner,
    with_groups: bool = True,
    from_poll: int = 0,
) -> Iterator[tuple[Engine, Truths]]:
    """Feed a recording to an engine; stop wherever the clients told the truth.

    `owner_of` and `with_groups` take rights away; with `from_poll` the agent starts later.
    """
    started = recording.started
    engine: Engine | None = None
    sockets: dict[int, SocketReading] = {}
    owners: dict[int, Owner] = {}
    made: dict[tuple[Any, ...], Owner] = {}
    groups = GroupsReading()
    polls = 0
    for kind, content in recording.events:
        if kind == "truth":
            if engine is not None:
                yield (
                    engine,
                    [SimpleNamespace(**dict(zip(_TRUTH, row, strict=True))) for row in content],
                )
            continue
        for row in content["sockets"]:
            sockets[row[0]] = _socket(row, sockets.get(row[0]))
        for cookie in content["gone"]:
            sockets.pop(cookie, None)
        for cookie, row in content["owners"]:
            owners[cookie] = made.setdefault(tuple(row), owner_of(_owner(row)))
        if with_groups and "groups" in content:
            groups = _groups(content["groups"])
        polls += 1
        if polls <= from_poll:
            continue
        if engine is None:
            begun_late = from_poll > 0
            engine = Engine(settings or Settings(), 1e12 if begun_late else started)
        if from_poll:
            groups = replace(
                groups, of={c: replace(g, is_whole=False) for c, g in groups.of.items()}
            )
        kernel = KernelReading(
            at=content["at"], method=ReadMethod.SOCK_DIAG, sockets=tuple(sockets.values()),
            closed=tuple(_closed(row) for row in content["closed"]),
            events_complete=content["complete"],
        )  # fmt: skip
        held = {cookie: owner for cookie, owner in owners.items() if cookie in sockets}
        outcome = engine.poll(kernel, held, groups)
        if outcome.changes.vanished:
            gone = {tracked.cookie: False for tracked in outcome.changes.vanished}
            engine.settle_vanished(gone, kernel.at, events_complete=kernel.events_complete)


def _socket(row: list[Any], before: SocketReading | None) -> SocketReading:
    cookie, head, at, state, receive_queue, send_queue, retransmits, info = row
    if head is None:
        assert before is not None
        local, remote, inode, uid = before.local, before.remote, before.inode, before.uid
        is_ipv6 = before.is_ipv6
    else:
        local, remote, inode, uid = _endpoint(head[0]), _endpoint(head[1]), head[2], head[3]
        is_ipv6 = head[4] if len(head) > 4 else None
    return SocketReading(
        at=at, cookie=cookie, local=local, remote=remote, tcp_state=TcpState(state), inode=inode,
        uid=uid, cgroup_id=None, receive_queue=receive_queue, send_queue=send_queue,
        retransmits=retransmits, info=_info(info), is_ipv6=is_ipv6,
    )  # fmt: skip


def _info(values: list[Any] | None) -> TcpInfo | None:
    return None if values is None else TcpInfo(**dict(zip(_INFO, values, strict=True)))


def _closed(row: list[Any]) -> ClosedSocket:
    at, cookie, local, remote, info, window, segment = row
    return ClosedSocket(
        at, cookie, _endpoint(local), _endpoint(remote), _info(info), window, segment
    )


def _owner(row: list[Any]) -> Owner:
    key, rung, name, pid, started, uid, library = row
    return Owner(
        key=key, rung=OwnerRung(rung), name=name, pid=pid, started=started, uid=uid,
        library=Library(library),
    )  # fmt: skip


def _groups(packed: dict[str, Any]) -> GroupsReading:
    return GroupsReading(
        of={c: ClientGroup(key=k, number=n, is_whole=w) for c, k, n, w in packed["of"]},
        threads={
            key: ClientThreads(producers=p, consumers=c, admins=a, librdkafka=r)
            for key, (p, c, a, r) in packed["threads"].items()
        },
        readable=frozenset(packed["readable"]),
        unreadable=frozenset(packed["unreadable"]),
    )


def _endpoint(text: str) -> Endpoint:
    address, _, port = text.rpartition(":")
    return Endpoint(address, int(port))


# ---- recording -------------------------------------------------------------------------------


def record(
    processes: Mapping[str, Any], settings: Settings, seconds: float,
    populate: Callable[[], None], about: str,
) -> Recording:  # fmt: skip
    """Run an agent without metrics beside clients and return what its engine was fed."""
    from exporter.agent import Agent
    from tests.scenarios.scoring import score

    begun = time.time()
    agent = Agent(settings)
    recording = Recording(about=about, started=begun)
    recorder = Recorder(agent.engine, recording)
    agent.start()
    try:
        populate()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(5)
            truths = [truth for process in processes.values() for truth in process.truth()]
            recorder.note_truth(truths)
            result = score(agent.snapshot(), truths, roles_only=True)
            print(about, str(result).splitlines()[0], file=sys.stderr, flush=True)
    finally:
        agent.stop()
    return recording


TOPIC, LONE = "signs", "lone"
PARTITIONS = 6


def populate(
    name: str, process: Any, number: int, listener: str, mechanism: str, plan: str
) -> None:
    """Give a process clients by a plan: `mixed`, `idle`, `five` or `one` (broker)."""
    where = {"listener": listener, "mechanism": mechanism}
    everywhere = range(PARTITIONS)
    servers = _shuffled(process, listener, number)
    tag = f"{name}-{number}"

    def producer(label: str, partitions: Iterable[int], *, rounds: int = 1, interval: float = 0.0,
                 **properties: object) -> None:  # fmt: skip
        client = f"{label}-{tag}"
        process.producer(client, **where, properties={**servers, **properties})
        process.send(client, TOPIC, partitions=partitions, rounds=rounds, interval=interval,
                     wait=rounds > 0)  # fmt: skip

    def consumer(label: str, **options: Any) -> None:
        properties = {**servers, **options.pop("properties", {})}
        process.consumer(f"{label}-{tag}", **where, properties=properties, **options)

    modern = name in {"4.4.0", "librdkafka"}
    new = {"group.protocol": "consumer"}
    if plan == "mixed":
        producer("busy", everywhere, rounds=-1, interval=1)
        producer("idle", everywhere)
        producer("slow", everywhere, rounds=-1, interval=7)
        producer("pay", everywhere, rounds=-1, interval=3, **{"transactional.id": f"tx-{tag}"})
        consumer("group", topics=[TOPIC], group=f"g-{tag}")
        consumer("assigned", assign=[f"{TOPIC}:0", f"{TOPIC}:1"])
        if modern:
            consumer("new", topics=[TOPIC], group=f"n-{tag}", properties=new)
        process.admin(f"admin-{tag}", **where, properties=servers)
        process.ask(f"admin-{tag}")
        process.ask(f"admin-{tag}", "configs", brokers=(1, 2, 3))
    elif plan == "idle":
        off = {"connections.max.idle.ms": -1} if name != "librdkafka" else {}
        producer("idle", everywhere, **off)
        producer("one", [0], rounds=-1, interval=1)
        producer("quiet", [1])
        # More members than partitions: one has none.
        consumer("first", topics=[LONE], group=f"l-{tag}")
        consumer("spare", topics=[LONE], group=f"l-{tag}")
        if modern:
            consumer("new-first", topics=[LONE], group=f"ln-{tag}", properties=new)
            consumer("new-spare", topics=[LONE], group=f"ln-{tag}", properties=new)
        consumer("offline", assign=[f"{LONE}:0"])
    elif plan == "five":
        for each in range(5):
            producer(f"five{each}", everywhere)
        producer("busy", everywhere, rounds=-1, interval=0.3)
    elif plan == "one":
        producer("one", [0, 3], rounds=-1, interval=0.5)
        consumer("near", assign=[f"{TOPIC}:0"])
        consumer("group", topics=[LONE], group=f"o-{tag}")
        process.admin(f"admin-{tag}", **where, properties=servers)
        process.ask(f"admin-{tag}")
        producer(
            "bulk",
            everywhere,
            rounds=-1,
            interval=0.5,
        )
    else:
        raise ValueError(plan)


def _shuffled(process: Any, listener: str, number: int) -> dict[str, str]:
    base = process._properties("x", listener, "PLAIN", None)["bootstrap.servers"].split(",")
    turn = number % len(base)
    return {"bootstrap.servers": ",".join(base[turn:] + base[:turn])}


def main() -> None:
    """Record plans over listeners on one cluster."""
    from tests.lab.artifacts import fetch_artifacts
    from tests.lab.cluster import KafkaCluster
    from tests.lab.java_client import JavaClient
    from tests.lab.rdkafka_client import RdkafkaClient, Statistics
    from tests.scenarios.scoring import settings_for

    parser = argparse.ArgumentParser()
    parser.add_argument("listeners", nargs="+")
    parser.add_argument("--plan", action="append", default=[])
    parser.add_argument("--java", action="append", default=[])
    parser.add_argument("--late", type=float, default=0, help="the agent starts so long after")
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--turn", type=int, default=0, help="of the bootstrap lists")
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    artifacts = fetch_artifacts()
    names = [*(options.java or ("2.1.0", "3.9.2", "4.4.0")), "librdkafka"]
    with ExitStack() as stack:
        cluster = stack.enter_context(
            KafkaCluster(artifacts, brokers=3, listeners=tuple(options.listeners))
        )
        cluster.create_topic(TOPIC, PARTITIONS)
        cluster.create_topic(LONE, 1)
        run = options.turn
        for plan in options.plan or ("mixed",):
            for listener in options.listeners:
                run += 1
                with ExitStack() as inner:
                    processes: dict[str, Any] = {}

                    def start(inner: ExitStack = inner, processes: dict[str, Any] = processes,
                              run: int = run, listener: str = listener, plan: str = plan) -> None:  # fmt: skip
                        for name in names:
                            processes[name] = inner.enter_context(
                                RdkafkaClient(
                                    artifacts,
                                    cluster,
                                    statistics=Statistics(interval=0, file=Path("/dev/null")),
                                )
                                if name == "librdkafka"
                                else JavaClient(artifacts, cluster, name)
                            )
                        for number, (name, process) in enumerate(processes.items()):
                            populate(name, process, run + number, listener, "PLAIN", plan)

                    settings = settings_for(cluster, listeners=(listener,))
                    if options.late:
                        start()
                        time.sleep(options.late)
                    about = f"{listener} {plan}" + (
                        f" late {options.late:.0f} s" if options.late else ""
                    )
                    recording = record(
                        processes, settings, options.seconds,
                        (lambda: None) if options.late else start, about,
                    )  # fmt: skip
                    late = "-late" if options.late else ""
                    path = options.folder / f"{listener.lower()}-{plan}{late}-{run}.json.gz"
                    recording.save(path)
                    print(path, path.stat().st_size, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
