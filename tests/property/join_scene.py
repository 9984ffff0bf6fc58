"""A process made by hand for the join: each byte that its sockets and its metrics count is given.

Bytes of the kernel follow from what is exchanged, so a scene cannot break the laws.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.clients.node_ids import parse_node_id
from exporter.connections.tracker import TrackedConnection
from exporter.join.attribution import Attributor
from exporter.model import (
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

PLAIN = (0, 0)
JSSE = (38, 38)

# A handshake with RSA certificates under TLS 1.3, and one that resumes a session.
FULL = (536, 4_130)
RESUMED = (2_499, 2_207)

IMPOSTOR = "impostor"


@dataclass(eq=False)
class Member:
    """A client of the scene."""

    name: str
    kind: ClientKind
    number: int
    pid: int
    library: Library


@dataclass(eq=False)
class SceneNode:
    """A node, what it counted, and its connection's kernel counts."""

    client: Member
    node_id: str
    role: Role
    broker_id: int | None
    remote: Endpoint | None = None
    cookie: int = 0
    opened_at: float = 0.0
    active_at: float = 0.0
    out: int = 0
    incoming: int = 0
    requests: int = 0
    responses: int = 0
    kernel_out: int = 0
    kernel_in: int = 0
    waits_out: int = 0
    """What the send buffer had no room for: counted, and not in the kernel."""

    @property
    def name(self) -> str:
        return f"{self.client.kind} {self.client.name!r} node {self.node_id}"


class Scene:
    """Clients of a process, one read after another. Nothing stated may be wrong at any read."""

    def __init__(self, cost: tuple[int, int] = PLAIN, *, groups: bool = False) -> None:
        self.cost, self.groups = cost, groups
        self.join = Attributor()
        self.at = 100.0
        self.nodes: list[SceneNode] = []
        self.sender_pid: int | None = None

    # ---- clients and what they do ----------------------------------------------------------------

    def client(
        self,
        name: str,
        kind: ClientKind = ClientKind.CONSUMER,
        library: Library = Library.JAVA,
        pid: int = 1,
    ) -> Member:
        number = len({id(node.client) for node in self.nodes}) + 1
        return Member(name, kind, number, pid, library)

    def node(
        self,
        client: Member,
        node_id: str,
        broker: int,
        handshake: tuple[int, int] = PLAIN,
        *exchanges: tuple[int, int],
    ) -> SceneNode:
        """Open a node's connection to a broker, and let it send and get so much."""
        _id, role, broker_id = parse_node_id(node_id, client.kind)
        self.at += 0.1
        node = SceneNode(client, node_id, role, broker_id, cookie=len(self.nodes) + 1)
        node.remote = Endpoint(f"10.0.0.{broker}", 9093)
        node.opened_at = node.active_at = self.at
        node.kernel_out, node.kernel_in = handshake
        self.nodes.append(node)
        for out, incoming in exchanges:
            self.exchange(node, out, incoming)
        return node

    def exchange(
        self, node: SceneNode, out: int, incoming: int, *, more_out: int = 0, more_in: int = 0
    ) -> None:
        """Send a request and take its answer; `more` TLS records than one each."""
        node.active_at = self.at
        node.kernel_out += out + self.cost[0] * (1 + more_out)
        node.kernel_in += incoming + self.cost[1] * (1 + more_in)
        node.out += out
        node.incoming += incoming
        node.requests += 1
        node.responses += 1

    # ---- reads -----------------------------------------------------------------------------------

    def look(self) -> KernelReading:
        return KernelReading(
            at=self.at, method=ReadMethod.SOCK_DIAG,
            sockets=tuple(
                SocketReading(
                    at=self.at, cookie=node.cookie, local=Endpoint("10.9.9.9", node.cookie),
                    remote=node.remote, tcp_state=TcpState.ESTABLISHED, inode=node.cookie, uid=0,
                    cgroup_id=None, receive_queue=0, send_queue=0, retransmits=0,
                    info=TcpInfo(
                        bytes_acked=1 + node.kernel_out - node.waits_out,
                        bytes_received=node.kernel_in,
                        last_data_sent_ms=int((self.at - node.active_at) * 1e3),
                        last_data_received_ms=int((self.at - node.active_at) * 1e3),
                        last_ack_received_ms=int((self.at - node.active_at) * 1e3),
                    ),
                )
                for node in self.nodes
            ),
        )  # fmt: skip

    def page(
        self, *only: Member, stale: dict[SceneNode, tuple[int, int]] | None = None
    ) -> SourceReading:
        """Read the metrics; `stale` nodes have exchanged so much that they have not counted yet."""
        clients: dict[int, tuple[Member, list[NodeReading]]] = {}
        for node in self.nodes:
            if only and node.client not in only:
                continue
            late = (stale or {}).get(node)
            out, incoming = late or (0, 0)
            row = NodeReading(
                node_id=node.node_id, role=node.role, broker_id=node.broker_id,
                outgoing_bytes=node.out - out, incoming_bytes=node.incoming - incoming,
                requests=node.requests - bool(late), responses=node.responses - bool(late),
                remote_name=None if node.client.library is Library.JAVA else str(node.remote),
                connection_state=None if node.client.library is Library.JAVA else "UP",
            )  # fmt: skip
            clients.setdefault(id(node.client), (node.client, []))[1].append(row)
        readings = tuple(self._reading(client, rows) for client, rows in clients.values())
        return SourceReading(
            source="app", begun_at=self.at, ended_at=self.at, clients=readings,
            sender_pid=self.sender_pid,
        )  # fmt: skip

    def _reading(self, client: Member, rows: list[NodeReading]) -> ClientReading:
        if client.library is not Library.JAVA:
            return ClientReading(
                client_id=client.name, kind=client.kind, library=client.library, nodes=tuple(rows),
                instance=f"{client.name}@1.0",
            )  # fmt: skip
        count = len(rows)
        return ClientReading(
            client_id=client.name, kind=client.kind, library=client.library, nodes=tuple(rows),
            connection_count=count, connections_created=count, connections_closed=0,
            authentications=0 if self.cost == PLAIN else count, reauthentications=0,
        )  # fmt: skip

    def read(self, times: int = 1, **given: object) -> None:
        """Look, read and look again while nothing goes."""
        for _ in range(times):
            self.at += 2.0
            look = self.look()
            self.take(look, self.page(**given), look)

    def take(self, before: KernelReading, page: SourceReading, after: KernelReading) -> None:
        """Give the join one read, and hold what it states against the truth."""
        self.join.update(JoinSample(before=before, reading=page, after=after), self._tracked())
        wrong = self.wrong()
        assert not wrong, "\n".join(wrong)

    def _tracked(self) -> dict[int, TrackedConnection]:
        found = {}
        for node, reading in zip(self.nodes, self.look().sockets, strict=True):
            pid = node.client.pid
            owner = Owner(key=f"pid:{pid}", rung=OwnerRung.PROC_FD, name="java", pid=pid)
            tracked = TrackedConnection(
                reading=reading, owner=owner, opened_at=node.opened_at, age_is_exact=True,
                first_for_owner=False, last_activity_at=self.at,
            )  # fmt: skip
            if self.groups and node.client.library is Library.JAVA:
                number = node.client.number
                tracked.group = ClientGroup(key=f"{pid}/{number}", number=number, is_whole=True)
            found[node.cookie] = tracked
        return found

    # ---- answers ---------------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """Return what is stated of a socket that is neither so nor up to equals."""
        wrong = []
        for node in self.nodes:
            claim = self.join.attributions.get(node.cookie)
            # What an impostor says of its own sockets is its own affair.
            if claim is None or node.client.name == IMPOSTOR:
                continue
            stated = f"{claim.client.kind} {claim.client.client_id!r} node {claim.node.node_id}"
            if stated != node.name and node.name not in claim.equals:
                wrong.append(
                    f"{node.name} is stated to be {stated} ({claim.confidence}): {claim.evidence}"
                )
        return wrong

    def is_right(self, node: SceneNode) -> bool:
        claim = self.join.attributions.get(node.cookie)
        return claim is not None and (claim.client.client_id, claim.node.node_id) == (
            node.client.name,
            node.node_id,
        )
