"""What the join is fed, written to a file beside a real lab and replayed without one.

    python -m tests.scenarios.join_recording SSL --out tests/golden/join/ssl.json.gz

A recording is a list of events in the order in which they happened: a sample of one source with
what was tracked of its sockets, sockets that were forgotten, and what the clients said of
their connections at that moment.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from exporter.core.attribution import Attributor
from exporter.core.tracker import TrackedConnection
from exporter.model import (
    Attribution,
    CipherUse,
    ClientKind,
    ClientReading,
    Endpoint,
    JoinSample,
    KernelReading,
    Library,
    NodeReading,
    Owner,
    OwnerRung,
    ReadMethod,
    Role,
    SocketReading,
    SourceReading,
    TcpInfo,
    TcpState,
)
from tests.scenarios.scoring import Score, agent_for, score, settings_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tests.lab.truth import TruthConnection

_TRUTH_FIELDS = ("local", "remote", "role", "client_id", "client_kind", "broker_id", "node_id")

# What a recording holds of a client besides its nodes, and of a socket besides its byte counts.
_CLIENT_FIELDS = (
    "version", "connection_count", "connections_created", "connections_closed",
    "authentications", "reauthentications", "ciphers",
)  # fmt: skip
_INFO_FIELDS = (
    "bytes_acked", "bytes_received", "data_segments_out", "data_segments_in",
    "last_data_sent_ms", "last_data_received_ms", "retransmits_total", "rtt_us",
)  # fmt: skip


@dataclass
class Recording:
    """Events, and the sockets that they speak of by cookie."""

    about: str = ""
    sockets: dict[int, list[Any]] = field(default_factory=dict)
    events: list[list[Any]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        document = {"about": self.about, "sockets": self.sockets, "events": self.events}
        packed = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)
        path.write_bytes(packed)

    @classmethod
    def load(cls, path: Path) -> Recording:
        document = json.loads(gzip.decompress(path.read_bytes()))
        sockets = {int(cookie): known for cookie, known in document["sockets"].items()}
        return cls(document["about"], sockets, document["events"])


class RecordingAttributor(Attributor):
    """The join, writing down what it is fed."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.lock = threading.Lock()

    def update(self, sample, connections, addresses_of=frozenset):
        with self.lock:
            self._note_sockets(sample, connections)
            self.recording.events.append(["join", _packed_sample(sample, connections)])
        return super().update(sample, connections, addresses_of)

    def forget(self, cookies):
        cookies = list(cookies)
        with self.lock:
            self.recording.events.append(["forget", cookies])
        super().forget(cookies)

    def release(self, cookie):
        super().release(cookie)

    def note_truth(self, truths: Iterable[TruthConnection]) -> None:
        with self.lock:
            self.recording.events.append(
                ["truth", [[getattr(truth, name) for name in _TRUTH_FIELDS] for truth in truths]]
            )

    def _note_sockets(
        self, sample: JoinSample, connections: Mapping[int, TrackedConnection]
    ) -> None:
        for reading in (*sample.before.sockets, *sample.after.sockets):
            tracked = connections.get(reading.cookie)
            known = self.recording.sockets.get(reading.cookie)
            if known is None:
                known = self.recording.sockets[reading.cookie] = [
                    str(reading.local), str(reading.remote), None, reading.inode, reading.uid,
                ]  # fmt: skip
            if tracked is not None:
                # The ladder of ownership may need a second look: what it says last is right.
                known[2] = [
                    tracked.owner.key, tracked.owner.pid, str(tracked.owner.library),
                    tracked.opened_at, tracked.age_is_exact,
                ]  # fmt: skip


def _packed_sample(sample: JoinSample, connections: Mapping[int, TrackedConnection]) -> list[Any]:
    reading = sample.reading
    clients = [
        [
            client.client_id, client.kind, client.library, client.instance,
            [[str(v) if isinstance(v, Role) else v for v in asdict(node).values()] for node in client.nodes],
            {name: getattr(client, name) for name in _CLIENT_FIELDS},
        ]
        for client in reading.clients
    ]  # fmt: skip
    # A Unix socket's folder is a passing one of this machine.
    source = "unix:statistics" if reading.source.startswith("unix:") else reading.source
    head = [source, reading.begun_at, reading.ended_at, reading.sender_pid]
    # Which sockets were tracked and no ghosts at that moment.
    tracked = [cookie for cookie, known in connections.items() if not known.ghost]
    return [head, clients, _packed_look(sample.before), _packed_look(sample.after), tracked]


def _packed_look(look: KernelReading) -> list[Any]:
    return [
        look.at,
        [
            [
                reading.cookie, str(reading.tcp_state), reading.send_queue, reading.receive_queue,
                *(getattr(reading.info, name, None) for name in _INFO_FIELDS), reading.at,
            ]
            for reading in look.sockets
        ],
    ]  # fmt: skip


def replay(
    recording: Recording, attributor: Attributor | None = None
) -> Iterator[tuple[Attributor, dict[int, TrackedConnection], list[SimpleNamespace]]]:
    """Feed a recording to the join and stop wherever the clients told the truth."""
    attributor = attributor or Attributor()
    connections: dict[int, TrackedConnection] = {}
    for kind, content in recording.events:
        if kind == "join":
            sample, connections = _unpacked(recording, content)
            attributor.update(sample, connections, lambda _host: frozenset())
        elif kind == "forget":
            attributor.forget(content)
        else:
            truths = [
                SimpleNamespace(**dict(zip(_TRUTH_FIELDS, values, strict=True)))
                for values in content
            ]
            yield attributor, connections, truths


def begun_late(recording: Recording, seconds: float) -> Recording:
    """Return what an agent that was started so much later would have been fed.

    To it, the sockets that were there have been open for a time that nobody knows.
    """
    joins = [content for kind, content in recording.events if kind == "join"]
    begin = joins[0][0][1] + seconds
    late: list[list[Any]] = []
    for event in recording.events:
        if late or (event[0] == "join" and event[1][2][0] >= begin):
            late.append(event)
    if not late:
        raise ValueError(f"{recording.about} ends before {seconds} s")
    first = late[0][1][2]
    there = {row[0] for row in first[1]}
    sockets = {
        cookie: [local, remote, [*known[:3], first[0], False], *more]
        if known and cookie in there
        else [local, remote, known, *more]
        for cookie, (local, remote, known, *more) in recording.sockets.items()
    }
    return Recording(f"{recording.about}, {seconds} s late", sockets, late)


def _unpacked(
    recording: Recording, content: list[Any]
) -> tuple[JoinSample, dict[int, TrackedConnection]]:
    (source, begun_at, ended_at, sender_pid), clients, before, after, tracked = content
    reading = SourceReading(
        source=source, begun_at=begun_at, ended_at=ended_at, sender_pid=sender_pid,
        clients=tuple(
            ClientReading(
                client_id=client_id, kind=ClientKind(kind), library=Library(library),
                instance=instance, nodes=tuple(_node(node) for node in nodes), **_told(more),
            )
            for client_id, kind, library, instance, nodes, *more in clients
        ),
    )  # fmt: skip
    looks = [_unpacked_look(recording, look) for look in (before, after)]
    latest = {reading.cookie: reading for look in looks for reading in look.sockets}
    connections = {
        cookie: _tracked(recording, latest[cookie]) for cookie in tracked if cookie in latest
    }
    return JoinSample(before=looks[0], reading=reading, after=looks[1]), connections


def _told(more: list[dict[str, Any]]) -> dict[str, Any]:
    # Old recordings lack them.
    told = more[0] if more else {}
    return told | {"ciphers": tuple(CipherUse(*use) for use in told.get("ciphers", ()))}


def _node(values: list[Any]) -> NodeReading:
    names = [each.name for each in fields(NodeReading)]
    known = dict(zip(names, values, strict=False))
    return NodeReading(**(known | {"role": Role(known["role"])}))


def _unpacked_look(recording: Recording, look: list[Any]) -> KernelReading:
    at, sockets = look
    return KernelReading(
        at=at, method=ReadMethod.SOCK_DIAG,
        sockets=tuple(_socket(recording, at, *values) for values in sockets),
    )  # fmt: skip


def _socket(recording, at, *values):
    cookie, state, send_queue, receive_queue, *figures = values
    local, remote, _, *more = recording.sockets[cookie]
    inode, uid = more or (cookie, 0)
    read_at = figures[len(_INFO_FIELDS)] if len(figures) > len(_INFO_FIELDS) else at
    return SocketReading(
        at=read_at, cookie=cookie, local=_endpoint(local), remote=_endpoint(remote),
        tcp_state=TcpState(state), inode=inode, uid=uid, cgroup_id=None, retransmits=0,
        send_queue=send_queue, receive_queue=receive_queue,
        info=TcpInfo(**dict(zip(_INFO_FIELDS, figures, strict=False))),
    )  # fmt: skip


def _endpoint(text: str) -> Endpoint:
    address, _, port = text.rpartition(":")
    return Endpoint(address, int(port))


def _tracked(recording: Recording, reading: SocketReading) -> TrackedConnection:
    known = recording.sockets[reading.cookie][2]
    key, pid, library, opened_at, exact = known or ["", None, "unknown", reading.at, False]
    owner = Owner(key=key, rung=OwnerRung.PROC_FD, name="java", pid=pid, library=Library(library))
    return TrackedConnection(
        reading=reading, owner=owner, opened_at=opened_at, age_is_exact=exact,
        first_for_owner=False, last_activity_at=reading.at,
    )  # fmt: skip


def score_join(
    attributor: Attributor,
    connections: Mapping[int, TrackedConnection],
    truths: Iterable[Any],
) -> Score:
    """Score the join alone, as the snapshot is scored."""
    shown = [
        _shown(tracked, attributor.attributions.get(tracked.cookie))
        for tracked in connections.values()
    ]
    return score(SimpleNamespace(connections=shown), truths)


def _shown(tracked: TrackedConnection, attribution: Attribution | None) -> SimpleNamespace:
    node = attribution.node if attribution else None
    client = attribution.client if attribution else None
    return SimpleNamespace(
        local=tracked.reading.local, remote=tracked.reading.remote,
        tcp_state=tracked.reading.tcp_state, connection_class="",
        role=node.role if node else Role.UNKNOWN,
        confidence=attribution.confidence if attribution else "none",
        client_id=client.client_id if client else None,
        client_kind=client.kind if client else ClientKind.UNKNOWN,
        node_id=node.node_id if node else None,
        broker_id=node.broker_id if node else None,
        idle_seconds=0.0, evidence=attribution.evidence if attribution else (),
        equals=attribution.equals if attribution else (),
    )  # fmt: skip


# ---- recording, by hand ----------------------------------------------------------------------


def record(processes, settings, seconds: float, populate: Callable[[], None], about: str):
    """Run the agent beside clients and return what its join was fed."""
    recording = Recording(about=about)
    with agent_for(settings) as agent:
        attributor = RecordingAttributor(recording)
        agent._engine._known.attributor = attributor
        populate()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(4)
            truths = [truth for process in processes for truth in process.truth()]
            attributor.note_truth(truths)
            counted = str(score(agent.snapshot(), truths)).splitlines()[0]
            print(f"{about} {counted}", file=sys.stderr, flush=True)
    return recording


def main() -> None:
    """Record one profile: every generation of clients, an application's ordinary clients each."""
    from tests.lab.artifacts import fetch_artifacts
    from tests.lab.cluster import KafkaCluster
    from tests.lab.java_client import JavaClient, JavaMetrics
    from tests.lab.rdkafka_client import RdkafkaClient, Statistics

    parser = argparse.ArgumentParser()
    parser.add_argument("listener")
    parser.add_argument("--mechanism", default="PLAIN")
    parser.add_argument("--broker", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--java", action="append", default=[])
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--no-librdkafka", action="store_true")
    parser.add_argument("--producers", type=int, default=0, help="equal producers more")
    parser.add_argument(
        "--late", type=float, default=0, metavar="SECONDS",
        help="the agent starts so long after the clients",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    artifacts = fetch_artifacts()
    config = dict(pair.split("=", 1) for pair in options.broker)
    more = dict(pair.split("=", 1) for pair in options.property)
    with ExitStack() as stack:
        statistics = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "statistics.sock"
        cluster = stack.enter_context(
            KafkaCluster(artifacts, brokers=3, listeners=(options.listener,), broker_config=config)
        )
        cluster.create_topic("play", 6)
        processes: dict[str, Any] = {}
        for generation in options.java or ("2.1.0", "3.9.2", "4.4.0"):
            processes[generation] = stack.enter_context(
                JavaClient(
                    artifacts, cluster, generation, metrics=JavaMetrics(jmx_exporter="plain")
                )
            )
        if not options.no_librdkafka:
            processes["librdkafka"] = stack.enter_context(
                RdkafkaClient(artifacts, cluster, statistics=Statistics(socket=statistics))
            )
        urls = {
            name: process.jmx_url for name, process in processes.items() if name != "librdkafka"
        }
        settings = settings_for(
            cluster, java=urls, statistics_socket=str(statistics), listeners=(options.listener,)
        )
        common = {"listener": options.listener, "mechanism": options.mechanism}

        def populate() -> None:
            for name, process in processes.items():
                populate_process(process, name, more=more, producers=options.producers, **common)

        about = " ".join([options.listener, options.mechanism, *options.broker, *options.property])
        if options.late:
            populate()
            time.sleep(options.late)
        recording = record(
            list(processes.values()), settings, options.seconds,
            (lambda: None) if options.late else populate, about,
        )  # fmt: skip
    recording.save(options.out)


def populate_process(
    process: Any, name: str, *, more: Mapping[str, object], producers: int = 0, **common: Any
) -> None:
    """Give a process one of everything: the ordinary connections of an application."""
    process.producer(f"orders-{name}", **common, properties=more)
    process.send(f"orders-{name}", "play", partitions=range(6), rounds=-1, interval=1, wait=False)
    transactional = {**more, "transactional.id": f"pay-{name}"}
    process.producer(f"payments-{name}", **common, properties=transactional)
    process.send(f"payments-{name}", "play", partitions=range(6))
    process.consumer(
        f"billing-{name}", topics=["play"], group=f"g-{name}", **common, properties=more
    )
    process.admin(f"operator-{name}", **common, properties=more)
    process.ask(f"operator-{name}")
    for number in range(producers):
        process.producer(f"equal-{number}-{name}", **common, properties=more)
        process.send(f"equal-{number}-{name}", "play", partitions=range(6))


if __name__ == "__main__":
    main()
