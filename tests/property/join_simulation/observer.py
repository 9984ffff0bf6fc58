"""An agent that looks at the simulated host: sockets, pages of metrics, groups, at moments."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from exporter.core.tracker import TrackedConnection
from exporter.model import (
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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.property.join_simulation.host import Host, Process
    from tests.property.join_simulation.wires import Client, Node, Wire

READ_SECONDS = 2.0
_TAKES_GROUPS = "group" in {each.name for each in fields(TrackedConnection)}


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
        self.groups: dict[int, int] = {}
        """Epoll groups as far as they were read, by cookie."""
        self.begins_at = host.now + (
            self.chance.uniform(5, 60)
            if host.traits["late agent"]
            else self.chance.uniform(-0.5, 1.5)
        )
        self._polls: list[KernelReading] = []
        self._documents: dict[Client, float] = {}
        self._told_counts = not host.traits["no counts"]
        self._owners = {
            wire_client: process for process in host.processes for wire_client in process.clients
        }

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
        poll = self.look(at + chance.uniform(0.06, 0.9))
        gone = self._track(poll)
        reads += self._statistics(poll)
        return reads, gone

    def _interrupt(self, at: float) -> None:
        host, chance = self.host, self.chance
        if not host.traits["torn pages"]:
            return
        for client in list(host.plans):
            if (
                client.started_at < at - 3.0
                and client.ended_at > at + 3.0
                and chance.random() < 0.1
            ):
                host.tear(client, at - chance.uniform(0.0, 0.02), at + chance.uniform(0.01, 0.25))

    # ---- sockets ---------------------------------------------------------------------------------

    def look(self, at: float) -> KernelReading:
        here = []
        for wire in self.host.sockets.wires:
            if wire.opened_at <= at < wire.closed_at and self._is_here(wire):
                here.append(self._socket(wire, at))
        return KernelReading(at=at, method=ReadMethod.SOCK_DIAG, sockets=tuple(here))

    def _is_here(self, wire: Wire) -> bool:
        return self.host.plans[wire.node.client][0].is_here

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
                data_segments_out=wire.segments_out.at(at), data_segments_in=wire.segments_in.at(at),
                last_data_sent_ms=int((at - last_sent) * 1e3),
                last_data_received_ms=int((at - last_received) * 1e3),
                last_ack_received_ms=int((at - max(last_sent, last_received)) * 1e3),
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
            reading=reading, owner=self._owners_process(wire).owner, opened_at=at - age,
            age_is_exact=before is not None, first_for_owner=False, last_activity_at=at,
        )  # fmt: skip

    def _owners_process(self, wire: Wire) -> Process:
        return self.host.plans[wire.node.client][0]

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
            self.groups[cookie] = wire.node.client.group
            give_group(tracked, self._owners_process(wire), wire.node.client.group)

    # ---- metrics ---------------------------------------------------------------------------------

    def _page(self, process: Process, at: float) -> Read:
        """Look, read a page row by row, look again."""
        chance = self.chance
        took = chance.uniform(0.001, 0.04)
        before, after = self.look(at), self.look(at + took)
        begun, ended, about = at, at + took, ""
        if self.host.traits["lags"] and chance.random() < 0.1:
            shift = chance.uniform(-0.2, 0.2)
            begun, ended = begun + shift, ended + shift
            about = f"the page is of {shift * 1e3:+.0f} ms"
        clients = []
        for client in process.clients:
            if client.is_alive(begun) and not client.hidden and client.nodes:
                rows = self._rows(client, begun, ended)
                if rows:
                    clients.append(self._client(process, client, rows, begun))
        return Read(self._sample(process, clients, before, after, at, at + took), process, about)

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

    def _rows(self, client: Client, begun: float, ended: float) -> tuple[NodeReading, ...]:
        chance = self.chance
        return tuple(
            self._row(node, chance.uniform(begun, ended))
            for node in client.nodes.values()
            if node.born_at <= begun < node.gone_at
        )

    def _row(self, node: Node, at: float) -> NodeReading:
        out, incoming = node.out.at(at), node.incoming.at(at)
        requests, responses = node.requests.at(at), node.responses.at(at)
        known = node.reading
        if (
            known is not None
            and known.outgoing_bytes == out
            and known.incoming_bytes == incoming
            and known.requests == requests
            and known.responses == responses
        ):
            return known
        is_java = node.client.library is Library.JAVA
        node.reading = NodeReading(
            node_id=node.node_id, role=node.role, broker_id=node.broker_id, outgoing_bytes=out,
            incoming_bytes=incoming, requests=requests, responses=responses,
            remote_name=node.remote_name, connection_state=None if is_java else "UP",
            connects=None if is_java else node.connects,
        )  # fmt: skip
        return node.reading

    def _client(
        self, process: Process, client: Client, rows: tuple[NodeReading, ...], at: float
    ) -> ClientReading:
        traits = self.host.traits
        is_java = process.library is Library.JAVA
        opened: int | None = None
        ciphers = ()
        if is_java and self._told_counts:
            lags = traits["counts lag"] and self.chance.random() < 0.1
            opened = client.count_open(at - 2.0 if lags else at)
        tls = client.security.tls
        if is_java and tls and opened and not traits["no ciphers"] and client.version >= "2.6":
            ciphers = (tls.use(opened),)
        return ClientReading(
            client_id=client.client_id, kind=client.kind, library=client.library, nodes=rows,
            instance=client.instance, version=client.version, connection_count=opened,
            authentications=client.successes.at(at) if is_java else None, ciphers=ciphers,
        )  # fmt: skip

    def _statistics(self, poll: KernelReading) -> list[Read]:
        """Return the documents that librdkafka's clients pushed since the last poll."""
        chance, reads = self.chance, []
        late = 0.176 if self.host.traits["late statistics"] else 0.0
        for process in self.host.processes:
            for client in process.clients if process.library is not Library.JAVA else ():
                due = self._documents.setdefault(client, client.started_at + chance.uniform(1, 4))
                while due < poll.at + late:
                    if client.is_alive(due) and due >= self._polls[0].at and not client.hidden:
                        reads.append(self._document(process, client, due))
                    due += 3.0
                self._documents[client] = due
        reads.sort(key=lambda read: read.sample.reading.begun_at)
        return reads

    def _document(self, process: Process, client: Client, at: float) -> Read:
        before = self._polls[0]
        after = self._polls[-1]
        for known in self._polls:
            if known.at <= at:
                before = known
            elif known.at >= at + 0.001:
                after = known
                break
        rows = self._rows(client, at, at + 0.0005)
        reading = self._client(process, client, rows, at)
        about = (
            "" if at <= after.at else f"written {1e3 * (at - after.at):.0f} ms after the last look"
        )
        return Read(self._sample(process, (reading,), before, after, at, at + 0.1), process, about)


def give_group(tracked: TrackedConnection, process: Process, group: int) -> None:
    """Note a connection's epoll group: the only place that knows how the core holds it."""
    if _TAKES_GROUPS:
        tracked.group = (process.owner.key, group)
