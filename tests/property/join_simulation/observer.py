"""An agent that looks at the simulated host: sockets, pages of metrics, groups, at moments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exporter.clients.librdkafka import EMIT_SECONDS
from exporter.connections.tracker import TrackedConnection
from exporter.join.history import LAG
from exporter.model import (
    ClientGroup,
    ClientReading,
    JoinSample,
    KernelReading,
    Library,
    NodeReading,
    ReadMethod,
    SocketReading,
    SourceReading,
    TcpInfo,
)
from tests.property.join_simulation.accidents import tear
from tests.property.join_simulation.connecting import logs_in_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.property.join_simulation.host import Host, Process
    from tests.property.join_simulation.wires import Client, Node, Wire

READ_SECONDS = 2.0

# Of the kernel, a second.
TICKS = 250

# Of pages that are read, and of documents that come.
LAGGING_SHARE = 0.1
TORN_SHARE = 0.1
LAG_SECONDS = 0.2

# By how much a document may be newer than the look that it comes with.
LATE_SECONDS = 0.176
STATISTICS_SECONDS = 3.0


@dataclass
class Read:
    """One read of one source: what the join is given, and how it came about."""

    sample: JoinSample
    process: Process
    about: str = ""


class Observer:
    """Looks at a host every two seconds."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.chance = host.chance
        self.connections: dict[int, TrackedConnection] = {}
        self.wires: dict[int, Wire] = {}
        self.groups: set[int] = set()
        """Cookies of the sockets whose epoll group was read."""
        self.begins_at = host.now + (
            self.chance.uniform(5, 60)
            if host.traits["late agent"]
            else self.chance.uniform(-0.5, 1.5)
        )
        self._polls: list[KernelReading] = []
        self._documents: dict[tuple[Process, Client], float] = {}

    # ---- one turn --------------------------------------------------------------------------------

    def turn(self, at: float) -> tuple[list[Read], list[int]]:
        """Read everything at about a moment; return the reads, and the sockets that are gone."""
        host, chance = self.host, self.chance
        self._interrupt(at)
        host.advance(at + 1.4)
        reads = [
            self._page(process, at + 0.01 * number)
            for number, process in enumerate(host.processes)
            if process.library is Library.JAVA
            and any(each.is_alive(at) for each in process.clients)
        ]
        answered_at = max((read.sample.after.at for read in reads), default=at)
        poll = self.look(answered_at + chance.uniform(0.02, 0.5))
        gone = self._track(poll)
        return reads + self._statistics(poll), gone

    def _interrupt(self, at: float) -> None:
        host, chance = self.host, self.chance
        if not host.traits["torn pages"]:
            return
        for client in list(host.plans):
            is_running = client.started_at < at - 3.0 and client.ended_at > at + 3.0
            if is_running and client.stalled_until < at and chance.random() < TORN_SHARE:
                tear(host, client, at - chance.uniform(0.0, 0.02), at + chance.uniform(0.01, 0.25))

    # ---- sockets ---------------------------------------------------------------------------------

    def look(self, at: float) -> KernelReading:
        """Look at all sockets of this host."""
        here = tuple(
            self._socket(wire, at)
            for wire in self.host.sockets.wires
            if wire.opened_at <= at < wire.closed_at and wire.node.client.is_here
        )
        return KernelReading(at=at, method=ReadMethod.SOCK_DIAG, sockets=here)

    def process_of(self, wire: Wire) -> Process:
        return self.host.process_of(wire.node.client)

    def _socket(self, wire: Wire, at: float) -> SocketReading:
        acknowledged, written = wire.acknowledged.at(at), wire.written.at(at)
        arrived, taken = wire.arrived.at(at), wire.taken.at(at)
        known, state = wire.reading, wire.state(at)
        if (
            known is not None
            and known.info.bytes_acked == 1 + acknowledged
            and known.info.bytes_received == arrived
            and known.send_queue == written - acknowledged
            and known.receive_queue == arrived - taken
            and known.tcp_state is state
        ):
            return known
        last_sent = wire.written.last_before(at, wire.opened_at)
        last_received = wire.arrived.last_before(at, wire.opened_at)
        wire.reading = SocketReading(
            at=at, cookie=wire.cookie, local=wire.local, remote=wire.remote, tcp_state=state,
            inode=wire.cookie, uid=1000, cgroup_id=None, receive_queue=arrived - taken,
            send_queue=written - acknowledged, retransmits=0,
            info=TcpInfo(
                bytes_acked=1 + acknowledged, bytes_received=arrived,
                last_data_sent_ms=_age(at, last_sent),
                last_data_received_ms=_age(at, last_received),
                last_ack_received_ms=_age(at, max(last_sent, last_received)),
            ),
        )  # fmt: skip
        return wire.reading

    def _track(self, poll: KernelReading) -> list[int]:
        """Follow sockets as the tracker does: they are dated by the poll that first meets them."""
        before = self._polls[-1].at if self._polls else None
        present = {reading.cookie for reading in poll.sockets}
        for wire in self.host.sockets.wires:
            if wire.cookie in present and wire.cookie not in self.connections:
                self._meet(wire, poll.at, before)
        for reading in poll.sockets:
            self.connections[reading.cookie].reading = reading
        gone = [cookie for cookie in self.connections if cookie not in present]
        for cookie in gone:
            del self.connections[cookie]
        self._polls = [*self._polls[-3:], poll]
        self._read_groups()
        return gone

    def _meet(self, wire: Wire, at: float, before: float | None) -> None:
        reading = wire.reading
        silence = at - max(
            wire.opened_at, min(wire.written.last_before(at, wire.opened_at), wire.arrived.last_before(at, wire.opened_at)),
        )  # fmt: skip
        age = silence if before is None else min(silence, at - before)
        self.wires[wire.cookie] = wire
        self.connections[wire.cookie] = TrackedConnection(
            reading=reading, owner=self.process_of(wire).owner, opened_at=at - age,
            age_is_exact=before is not None, first_for_owner=False, last_activity_at=at,
        )  # fmt: skip

    def _read_groups(self) -> None:
        """Read the epoll groups: now, or of some sockets a while later."""
        traits = self.host.traits
        if not traits["groups"] or traits["shared uid"]:
            return
        for cookie, tracked in self.connections.items():
            wire = self.wires[cookie]
            if cookie in self.groups or wire.node.client.library is not Library.JAVA:
                continue
            if traits["groups read late"] and self.chance.random() < 0.7:
                continue
            self.groups.add(cookie)
            client = wire.node.client
            is_whole = client.started_at > self._polls[0].at
            give_group(tracked, self.process_of(wire), client.group, is_whole=is_whole)

    # ---- metrics ---------------------------------------------------------------------------------

    def _page(self, process: Process, at: float) -> Read:
        """Look, read a page row by row, look again."""
        chance, traits = self.chance, self.host.traits
        took = chance.uniform(0.05, 0.4) if traits["slow pages"] else chance.uniform(0.001, 0.04)
        before, after = self.look(at), self.look(at + took)
        begun, ended, about = at, at + took, ""
        if traits["lags"] and chance.random() < LAGGING_SHARE:
            shift = chance.uniform(-LAG_SECONDS, LAG_SECONDS)
            begun, ended = begun + shift, ended + shift
            about = f"the page is of {shift * 1e3:+.0f} ms"
        clients: dict[tuple[object, str], tuple[Client, dict[str, Node]]] = {}
        for client in process.clients:
            if client.is_alive(begun) and not client.hidden:
                # Of clients with one name the last one's rows are shown.
                nodes = {
                    node_id: node
                    for node_id, node in client.nodes.items()
                    if node.born_at <= begun < node.gone_at
                }
                key = client.kind, client.client_id
                _client, known = clients.get(key, (client, {}))
                clients[key] = client, known | nodes
        readings = [
            self._client(
                client, self._rows(nodes.values(), begun, ended), chance.uniform(begun, ended)
            )
            for client, nodes in clients.values()
            if nodes
        ]
        return Read(self._sample(process, readings, before, after, at, at + took), process, about)

    def _sample(
        self,
        process: Process,
        clients: Iterable[ClientReading],
        before: KernelReading,
        after: KernelReading,
        begun: float,
        ended: float,
    ) -> JoinSample:
        reading = SourceReading(
            source=process.source, begun_at=begun, ended_at=ended, clients=tuple(clients),
            sender_pid=process.sender_pid,
        )  # fmt: skip
        return JoinSample(before=before, reading=reading, after=after)

    def _rows(self, nodes: Iterable[Node], begun: float, ended: float) -> tuple[NodeReading, ...]:
        uniform = self.chance.uniform
        return tuple(self._row(node, uniform(begun, ended)) for node in nodes)

    def _row(self, node: Node, at: float) -> NodeReading:
        is_java = node.client.library is Library.JAVA
        reading = NodeReading(
            node_id=node.node_id, role=node.role, broker_id=node.broker_id,
            outgoing_bytes=node.out.at(at), incoming_bytes=node.incoming.at(at),
            requests=node.requests.at(at), responses=node.responses.at(at),
            remote_name=node.remote_name, connection_state=None if is_java else node.state(at),
            connects=None if is_java else node.connects,
        )  # fmt: skip
        # As the agent's own readers do: what did not change is the same object.
        if reading != node.reading:
            node.reading = reading
        return node.reading

    def _client(self, client: Client, rows: tuple[NodeReading, ...], at: float) -> ClientReading:
        traits = self.host.traits
        reading = ClientReading(
            client_id=client.client_id, kind=client.kind, library=client.library, nodes=rows,
            instance=client.instance, version=client.version,
        )  # fmt: skip
        if client.library is not Library.JAVA or traits["no counts"]:
            return reading
        lags = traits["counts lag"] and self.chance.random() < LAGGING_SHARE
        at = at - READ_SECONDS if lags else at
        opened, tls = client.count_open(at), client.security.tls
        told = tls is not None and opened and not traits["no ciphers"] and client.version >= "2.6"
        return replace(
            reading,
            connection_count=opened,
            connections_created=sum(wire.opened_at <= at for wire in client.wires),
            connections_closed=sum(wire.closed_at <= at for wire in client.wires),
            authentications=client.successes.at(at),
            reauthentications=client.repeats.at(at) if logs_in_again(client) else None,
            ciphers=(tls.use(opened),) if told else (),
        )

    def _statistics(self, poll: KernelReading) -> list[Read]:
        """Return the documents that librdkafka's clients pushed since the last poll."""
        # The agent joins what its last look covers: what came later waits for the next one.
        until = poll.at - LAG - EMIT_SECONDS
        reads = [
            read
            for process in self.host.processes
            if process.library is not Library.JAVA
            for client in (process.victim or process).clients
            for read in self._documents_of(process, client, until)
        ]
        return sorted(reads, key=lambda read: read.sample.reading.begun_at)

    def _documents_of(self, process: Process, client: Client, until: float) -> Iterator[Read]:
        first = client.started_at + self.chance.uniform(1, 4)
        due = self._documents.setdefault((process, client), first)
        while due < until:
            is_told = process.victim is not None or not client.hidden
            if client.is_alive(due) and due >= self._polls[0].at and is_told:
                yield self._document(process, client, due)
            due += STATISTICS_SECONDS
        self._documents[process, client] = due

    def _document(self, process: Process, client: Client, at: float) -> Read:
        """Lay the polls around a document, as the agent does."""
        before, after = self._polls[0], self._polls[-1]
        for known in self._polls:
            if known.at <= at:
                before = known
            elif known.at >= at + 0.001:
                after = known
                break
        late = (
            self.chance.uniform(0.0, LATE_SECONDS) if self.host.traits["late statistics"] else 0.0
        )
        counted = at + late
        nodes = [each for each in client.nodes.values() if each.born_at <= counted < each.gone_at]
        rows = self._rows(nodes, counted, counted + 0.0005)
        about = f"complete {1e3 * late:.0f} ms after its time" if late else ""
        if process.victim is not None:
            rows, about = _lied(rows), f"posted in the name of {client.client_id}"
        reading = replace(self._client(client, rows, at), library=Library.LIBRDKAFKA)
        return Read(
            self._sample(process, (reading,), before, after, at, at + EMIT_SECONDS), process, about
        )


def _lied(rows: tuple[NodeReading, ...]) -> tuple[NodeReading, ...]:
    """Return the figures of each node under the name of the next."""
    others = (*rows[1:], *rows[:1])
    return tuple(
        replace(row, outgoing_bytes=other.outgoing_bytes, incoming_bytes=other.incoming_bytes,
                requests=other.requests, responses=other.responses, remote_name=other.remote_name)
        for row, other in zip(rows, others, strict=True)
    )  # fmt: skip


def _age(at: float, since: float) -> int:
    """Return an age as the kernel counts it, in ticks of 4 ms."""
    return 4 * (int(at * TICKS) - int(since * TICKS))


def give_group(
    tracked: TrackedConnection, process: Process, number: int, *, is_whole: bool
) -> None:
    """Note a connection's epoll group: the only place that knows how the core holds it."""
    tracked.group = ClientGroup(
        key=f"{process.owner.key}/{number}", number=number, is_whole=is_whole
    )
