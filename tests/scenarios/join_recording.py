"""What the join is fed, written to a file beside a real lab and replayed without one.

`python -m tests.scenarios.join_runs` makes them. A recording is a list of events in the order in
which they happened: a sample of one source with what was tracked of its sockets, sockets that were
forgotten, and what the clients said of their connections at that moment.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from dataclasses import asdict, dataclass, field, fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from exporter.connections.tracker import TrackedConnection
from exporter.join.attribution import Attributor
from exporter.model import (
    Attribution,
    CipherUse,
    ClientGroup,
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
from tests.scenarios.join_verdicts import Verdicts, is_known_limit
from tests.scenarios.scoring import Score, score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

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
        self.known_since: dict[str, float] = {}
        """When each client id was read first."""

    def update(self, sample, connections, addresses_of=frozenset):
        with self.lock:
            for client in sample.reading.clients:
                self.known_since.setdefault(client.client_id, sample.reading.ended_at)
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
                [
                    "truth",
                    [[getattr(truth, name) for name in _TRUTH_FIELDS] for truth in truths],
                    time.monotonic(),
                ]
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
                owner, group = tracked.owner, tracked.group
                # The ladder of ownership may need a second look: what it says last is right.
                known[2] = [
                    owner.key, owner.pid, str(owner.library), tracked.opened_at,
                    tracked.age_is_exact, group and [group.number, group.is_whole],
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
    for kind, content, *told_at in recording.events:
        if kind == "join":
            sample, connections = _unpacked(recording, content)
            attributor.update(sample, connections, lambda _host: frozenset())
        elif kind == "forget":
            attributor.forget(content)
        else:
            # Old recordings do not say when: it was soon after the read before.
            at = told_at[0] if told_at else sample.reading.ended_at
            truths = [
                SimpleNamespace(at=at, **dict(zip(_TRUTH_FIELDS, values, strict=True)))
                for values in content
            ]
            yield attributor, connections, truths


def begun_late(recording: Recording, seconds: float) -> Recording:
    """Return what an agent that was started so much later would have been fed.

    To it, the sockets that were there have been open for a time that nobody knows.
    """
    joins = [content for kind, content, *_ in recording.events if kind == "join"]
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
        cookie: [local, remote, [*known[:3], first[0], False, *map(_not_whole, known[5:])], *more]
        if known and cookie in there
        else [local, remote, known, *more]
        for cookie, (local, remote, known, *more) in recording.sockets.items()
    }
    return Recording(f"{recording.about}, {seconds} s late", sockets, late)


def without_groups(recording: Recording) -> Recording:
    """Return what an agent would have been fed that may not read the client's descriptors."""
    sockets = {
        cookie: [local, remote, known and known[:5], *more]
        for cookie, (local, remote, known, *more) in recording.sockets.items()
    }
    return Recording(f"{recording.about}, without groups", sockets, recording.events)


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
    key, pid, library, opened_at, exact, *group = known or ["", None, "unknown", reading.at, False]
    owner = Owner(key=key, rung=OwnerRung.PROC_FD, name="java", pid=pid, library=Library(library))
    return TrackedConnection(
        reading=reading, owner=owner, opened_at=opened_at, age_is_exact=exact,
        first_for_owner=False, last_activity_at=reading.at, group=_group(key, *group),
    )  # fmt: skip


def _not_whole(group: list[Any] | None) -> list[Any] | None:
    return group and [group[0], False]


def _group(owner_key: str, group: list[Any] | None = None) -> ClientGroup | None:
    # Old recordings have none.
    if group is None:
        return None
    number, is_whole = group
    return ClientGroup(key=f"{owner_key} {number}", number=number, is_whole=is_whole)


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


def judge_replay(recording: Recording, ages: Iterable[int]) -> Verdicts:
    """Judge the join alone at every look of a recording."""
    verdicts = Verdicts(ages)
    known_since: dict[str, float] = {}
    for kind, content, *_ in recording.events:
        if kind == "join":
            for client in content[1]:
                known_since.setdefault(client[0], content[0][2])
    for attributor, connections, truths in replay(recording):
        told = [truth for truth in truths if not is_known_limit(truth)]
        if told:
            shown = [
                _shown(tracked, attributor.attributions.get(tracked.cookie))
                for tracked in connections.values()
            ]
            verdicts.look(told[0].at, told, shown, known_since)
    return verdicts


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
