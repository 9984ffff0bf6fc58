"""The values that flow from the sources to metrics, page and journal.

All are frozen: a snapshot can be read by any thread without a lock. Missing is None, never 0
and never "". Times named `at` are seconds of the monotonic clock; `wall_time` is seconds since
the epoch.
"""

from __future__ import annotations

__all__ = [
    "NOT_AT_BROKER",
    "UNDECIDED",
    "WASTED_CLASSES",
    "Attribution",
    "Cause",
    "CipherUse",
    "ClientGroup",
    "ClientKey",
    "ClientKind",
    "ClientReading",
    "ClientThreads",
    "ClosedBy",
    "ClosedSocket",
    "Confidence",
    "Connection",
    "ConnectionClass",
    "Endpoint",
    "GroupsReading",
    "JoinSample",
    "KernelReading",
    "Library",
    "NodeReading",
    "Owner",
    "OwnerRung",
    "ReadMethod",
    "Role",
    "SocketReading",
    "SourceReading",
    "TcpInfo",
    "TcpState",
]

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class TcpState(StrEnum):
    """The kernel's state of a socket, spelled as node_exporter spells it."""

    ESTABLISHED = "established"
    SYN_SENT = "syn_sent"
    SYN_RECV = "syn_recv"
    FIN_WAIT1 = "fin_wait1"
    FIN_WAIT2 = "fin_wait2"
    TIME_WAIT = "time_wait"
    CLOSE = "close"
    CLOSE_WAIT = "close_wait"
    LAST_ACK = "last_ack"
    LISTEN = "listen"
    CLOSING = "closing"


class ConnectionClass(StrEnum):
    """The label `class`: each connection has exactly one (DESIGN section 5)."""

    GHOST = "ghost"
    HALF_CLOSED = "half_closed"
    CONNECTING = "connecting"
    STALE = "stale"
    ZOMBIE = "zombie"
    EXCESS = "excess"
    BOOTSTRAP = "bootstrap"
    COORDINATOR = "coordinator"
    TRANSACTION = "transaction"
    DATA = "data"
    ADMIN = "admin"
    PROBE = "probe"
    UNKNOWN = "unknown"


# The classes of connections that nobody needs.
WASTED_CLASSES = (
    ConnectionClass.ZOMBIE,
    ConnectionClass.EXCESS,
    ConnectionClass.HALF_CLOSED,
    ConnectionClass.STALE,
    ConnectionClass.GHOST,
)

# A broker counts what it has accepted and not ended: none of these.
NOT_AT_BROKER = (
    ConnectionClass.CONNECTING,
    ConnectionClass.HALF_CLOSED,
    ConnectionClass.GHOST,
)

# It is not known yet whether such a connection is useful.
UNDECIDED = (ConnectionClass.UNKNOWN, ConnectionClass.CONNECTING)


class Cause(StrEnum):
    """Why a connection is waste, where that is known: what the journal adds up beside the class."""

    SUPERSEDED_BOOTSTRAP = "superseded_bootstrap"
    IDLE_CLOSING_OFF = "idle_closing_off"
    IDLE_CLOSING_FAILED = "idle_closing_failed"
    EXCESS_INSTANCES = "excess_instances"
    UNCLAIMED = "unclaimed"
    NOT_CLOSED_AFTER_BROKER = "not_closed_after_broker"
    DESCRIPTOR_LEAK = "descriptor_leak"
    BROKER_MOVED = "broker_moved"


class Role(StrEnum):
    """What the client opened a connection for, whatever has become of it."""

    BOOTSTRAP = "bootstrap"
    COORDINATOR = "coordinator"
    TRANSACTION = "transaction"
    DATA = "data"
    ADMIN = "admin"
    PROBE = "probe"
    UNKNOWN = "unknown"


class ClientKind(StrEnum):
    """The kind of a Kafka client, as its own metrics name it."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"
    CONNECT = "connect"
    UNKNOWN = "unknown"


class Library(StrEnum):
    """The client library, where it is known."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How sure a role is: `exact` rests on equal byte counts, `none` says that nothing is known."""

    EXACT = "exact"
    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


class ClosedBy(StrEnum):
    """Which side ended a connection first; `refused` never got through."""

    CLIENT = "client"
    BROKER = "broker"
    ABORT = "abort"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class OwnerRung(StrEnum):
    """Which lookup method found the owner of a socket (DESIGN section 3)."""

    PROC_FD = "proc_fd"
    CGROUP = "cgroup"
    UID = "uid"
    NONE = "unattributed"


class ReadMethod(StrEnum):
    """How the socket table was read."""

    SOCK_DIAG = "sock_diag"
    PSUTIL = "psutil"


class Endpoint(NamedTuple):
    """An address and a port; an IPv4-mapped IPv6 address is held as IPv4."""

    address: str
    port: int

    def __str__(self) -> str:
        if ":" in self.address:
            return f"[{self.address}]:{self.port}"
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpInfo:
    """The kernel's `tcp_info` of a socket; a field that an older kernel lacks is None.

    `bytes_acked` counts the SYN and the FIN, `bytes_received` the peer's FIN.
    The `last_*_ms` are ages at the reading's `at`; a socket that never sent or received shows its
    own age there, and one in SYN_SENT nonsense, which decoders leave out (None).
    """

    bytes_acked: int | None = None
    bytes_received: int | None = None
    bytes_sent: int | None = None
    segments_out: int | None = None
    segments_in: int | None = None
    data_segments_out: int | None = None
    data_segments_in: int | None = None
    retransmits_total: int | None = None
    rtt_us: int | None = None
    last_data_sent_ms: int | None = None
    last_data_received_ms: int | None = None
    last_ack_received_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketReading:
    """One socket at one moment.

    A socket of which only the ages changed keeps its earlier reading, `at` and all: the ages
    are then to be counted from that `at`. So identity of the object means "nothing happened".
    """

    at: float
    cookie: int
    local: Endpoint
    remote: Endpoint
    tcp_state: TcpState
    inode: int
    uid: int
    cgroup_id: int | None
    receive_queue: int
    send_queue: int
    retransmits: int
    info: TcpInfo | None
    receive_buffer: int | None = None
    """What the kernel may hold for it, twice of what was asked for; None where nobody asked."""
    is_ipv6: bool | None = None
    """Whether it is an AF_INET6 socket, as a JVM's are for IPv4 addresses, too; None: unknown."""
    keepalive_left_ms: int | None = None
    """What is left of its keep-alive timer at `at`; None where none runs, or another one does."""

    @property
    def outgoing_bytes(self) -> int | None:
        """Bytes that the client handed to the kernel; `bytes_acked` counts the SYN as 1."""
        if self.info is None or self.info.bytes_acked is None:
            return None
        return self.info.bytes_acked - 1 + self.send_queue

    @property
    def incoming_bytes(self) -> int | None:
        """Bytes that the client took from the kernel."""
        if self.info is None or self.info.bytes_received is None:
            return None
        return self.info.bytes_received - self.receive_queue


class ClosedSocket(NamedTuple):
    """One destroy event: a socket that is gone, with its last figures.

    `remote.port` is 0 where the kernel no longer knew it (refused or aborted).
    The kernel gives no inode, uid or cgroup here. `window` is how many bytes the socket would have
    received at once, which follows from its receive buffer, and `segment` its largest segment.
    """

    at: float
    cookie: int
    local: Endpoint
    remote: Endpoint
    info: TcpInfo | None
    window: int | None = None
    segment: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReading:
    """A whole look at the socket table: never a part of one (that is a SourceError).

    `events_complete` is False where destroy events are not available or were lost since the last
    reading, so that a socket may have gone without one. `keepalive_ms` is what the keep-alive timer
    of a new connection begins with (net.ipv4.tcp_keepalive_time); None where it is not known.
    """

    at: float
    method: ReadMethod
    sockets: tuple[SocketReading, ...]
    closed: tuple[ClosedSocket, ...] = ()
    events_complete: bool = False
    events_lost: int = 0
    keepalive_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a socket is, as far as the ladder reached.

    `key` is equal exactly for sockets of one owner and lives as long as it does (pid and start
    time, else cgroup id, else uid). `name` is what people call it: the process or container name.
    """

    key: str
    rung: OwnerRung
    name: str
    pid: int | None = None
    started: float | None = None
    uid: int | None = None
    cgroup_id: int | None = None
    library: Library = Library.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientGroup:
    """The sockets of one client, as the kernel shows them: the members of one epoll instance.

    `key` is unique among all groups that there were; `number` counts the groups of a process in
    order of first sight. `is_whole`: the group was seen from its beginning, so that the first of
    its sockets is the first that its client opened.
    """

    key: str
    number: int
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientThreads:
    """How many clients a process runs, by the names of their threads.

    `consumers` are those of a group or of the new consumer protocol: a classic consumer without a
    group has no thread of its own. `librdkafka` counts client instances of any kind.
    """

    producers: int = 0
    consumers: int = 0
    admins: int = 0
    librdkafka: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReading:
    """The client groups of the processes whose descriptors may be read.

    `of` is by cookie and `threads` by the owner's key. `unlisted` are the inodes of sockets that
    share a group with one of the dump: connections of the same clients to ports that are not
    watched. A JVM is in `unreadable`, by the owner's key, where its descriptors are closed to the
    agent; that nothing is known of its groups proves nothing.
    """

    of: Mapping[int, ClientGroup] = field(default_factory=dict)
    threads: Mapping[str, ClientThreads] = field(default_factory=dict)
    unlisted: frozenset[int] = frozenset()
    readable: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """What a client says of one of its nodes. It outlives the connection: it proves none.

    `node_id` is the client's own spelling without quotes ("-1", "0", "2147483646", "+0",
    "GroupCoordinator"). Totals go on over reconnects. `remote_name` is librdkafka's
    `host:port`, unresolved. `requests` and `responses` are None where they are unknown.
    """

    node_id: str
    role: Role
    broker_id: int | None
    outgoing_bytes: int | None
    incoming_bytes: int | None
    requests: int | None = None
    responses: int | None = None
    remote_name: str | None = None
    connection_state: str | None = None
    connects: int | None = None
    disconnects: int | None = None
    idle_seconds: float | None = None
    partitions: int | None = None


class CipherUse(NamedTuple):
    """How many of a client's open connections use a TLS protocol and cipher suite."""

    protocol: str
    cipher: str
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReading:
    """One client instance as its own metrics show it."""

    client_id: str
    kind: ClientKind
    library: Library
    nodes: tuple[NodeReading, ...]
    instance: str = ""
    """Distinguishes clients of equal client_id where the library does (rdkafka#producer-1)."""
    version: str | None = None
    group_id: str | None = None
    connection_count: int | None = None
    connections_created: int | None = None
    connections_closed: int | None = None
    authentications: int | None = None
    """Handshakes and logins that went well: stays 0 without TLS and SASL."""
    reauthentications: int | None = None
    ciphers: tuple[CipherUse, ...] = ()
    """TLS as negotiated, from Java 2.6 on; empty where unknown, as in plaintext."""

    def key(self, source: str) -> ClientKey:
        """Return what identifies this client among those of all sources."""
        return ClientKey(source, self.kind, self.client_id, self.instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReading:
    """One answer of one source; the figures were taken between `begun_at` and `ended_at`."""

    source: str
    begun_at: float
    ended_at: float
    clients: tuple[ClientReading, ...]
    sender_pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSample:
    """A source's figures between two looks at the sockets: the client's value lies between them."""

    before: KernelReading
    reading: SourceReading
    after: KernelReading


@dataclass(frozen=True, slots=True, order=True)
class ClientKey:
    """One client instance of one source."""

    source: str
    kind: ClientKind
    client_id: str
    instance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Which node of which client a socket is, and how that is known.

    `equals` names the other client nodes that it may be. Where these differ in role, `node` has no
    id and no role; where they are of several clients that count differently, `client` has no
    client_id: what they share is said, and nothing else.
    """

    client: ClientKey
    node: NodeReading
    library: Library
    confidence: Confidence
    evidence: tuple[str, ...]
    equals: tuple[str, ...] = ()

    @property
    def names_client(self) -> bool:
        """Whether it says which client this is."""
        return bool(self.client.client_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Everything that is known of one connection at the moment of the snapshot.

    `age_seconds` is a lower bound where `age_is_exact` is False (open before the agent was).
    `idle_seconds` is the time since bytes last went either way. `useful` is the share of DESIGN
    section 5's useful connection-seconds. `close_expected` says what will end it, in words;
    `closes_in_seconds` when, where that is known.
    """

    cookie: int
    local: Endpoint
    remote: Endpoint
    tcp_state: TcpState
    connection_class: ConnectionClass
    role: Role
    confidence: Confidence
    evidence: tuple[str, ...]
    owner: Owner
    client_id: str | None
    client_kind: ClientKind
    client_instance: str
    library: Library
    node_id: str | None
    broker_id: int | None
    broker: str
    useful: bool
    equals: tuple[str, ...]
    age_seconds: float
    age_is_exact: bool
    idle_seconds: float | None
    outgoing_bytes: int | None
    incoming_bytes: int | None
    send_queue: int
    receive_queue: int
    retransmits_total: int | None
    rtt_seconds: float | None
    source: str | None
    expected_rule: str | None
    close_expected: str
    closes_in_seconds: float | None
    unanswered_seconds: float | None = None
    """How long bytes have gone out and none came back; None while nothing is owed."""
    group: ClientGroup | None = None
    """The client that holds it, where the kernel shows that."""
    unused_seconds: float | None = None
    """How long nothing has gone over it since the seconds of its opening; None where it was used,
    is too young, or the kernel's counters prove neither."""
    idle_limit_seconds: float | None = None
    """The client's own idle timeout, 0 where it is disabled; None where it is not known."""
