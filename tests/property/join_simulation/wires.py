"""A connection as the kernel counts it, and a node as its client counts it, both over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.model import ClientKind, Endpoint, Library, Role, TcpState

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.model import NodeReading, SocketReading
    from tests.property.join_simulation.security import Security

# A client's thread counts bytes so long after it wrote or read them, a message a moment later.
COUNT_SECONDS = 5e-6


class Total:
    """A total that grows: what it was at any moment."""

    __slots__ = ("times", "totals")

    def __init__(self) -> None:
        self.times: list[float] = [0.0]
        self.totals: list[int] = [0]

    def add(self, at: float, amount: int) -> None:
        """Let it grow, never before it grew last: bytes and a thread's work keep their order."""
        times, totals = self.times, self.totals
        last = times[-1]
        times.append(at if at > last else last)  # noqa: FURB136 - the innermost loop of all
        totals.append(totals[-1] + amount)

    def at(self, moment: float) -> int:
        times = self.times
        if moment >= times[-1]:
            return self.totals[-1]
        return self.totals[bisect_right(times, moment) - 1]

    def last_before(self, moment: float, otherwise: float) -> float:
        """Return when it last grew."""
        number = bisect_right(self.times, moment) - 1
        return self.times[number] if number else otherwise

    @property
    def last(self) -> int:
        return self.totals[-1]


@dataclass(eq=False, slots=True)
class Wire:
    """One connection: what was written, acknowledged, what arrived and was taken."""

    cookie: int
    local: Endpoint
    remote: Endpoint
    node: Node
    opened_at: float
    closed_at: float = float("inf")
    half_closed_at: float = float("inf")
    ready_at: float = 0.0
    delay: float = 0.0002
    resumed: bool = False
    written: Total = field(default_factory=Total)
    acknowledged: Total = field(default_factory=Total)
    arrived: Total = field(default_factory=Total)
    taken: Total = field(default_factory=Total)
    uncounted_out: Total = field(default_factory=Total)
    uncounted_in: Total = field(default_factory=Total)
    records_out: Total = field(default_factory=Total)
    records_in: Total = field(default_factory=Total)
    login_at: float = float("inf")
    reading: SocketReading | None = None
    """The last look at it, as long as nothing happened."""

    def write(self, at: float, size: int) -> None:
        self.written.add(at, size)
        self.acknowledged.add(at + self.delay, size)

    def arrive(self, at: float, size: int, taken_at: float) -> None:
        self.arrived.add(at, size)
        self.taken.add(max(taken_at, self.arrived.times[-1]), size)

    def uncounted(self, at: float, out: int, incoming: int, taken_at: float) -> None:
        """Let bytes go that no metric counts."""
        if out:
            self.write(at, out)
            self.uncounted_out.add(at, out)
        if incoming:
            self.arrive(at, incoming, taken_at)
            self.uncounted_in.add(self.taken.times[-1], incoming)

    def is_open(self, at: float) -> bool:
        return self.opened_at <= at < self.closed_at

    def state(self, at: float) -> TcpState:
        return TcpState.CLOSE_WAIT if at >= self.half_closed_at else TcpState.ESTABLISHED


@dataclass(eq=False, slots=True)
class Node:
    """A node of a client: what it counts, on which connection."""

    client: Client
    node_id: str
    role: Role
    broker_id: int | None
    remote: Endpoint
    certificate: int = 0
    """By how many bytes its broker's certificate differs."""
    remote_name: str | None = None
    born_at: float = float("inf")
    gone_at: float = float("inf")
    wire: Wire | None = None
    next_at: float = float("inf")
    busy_until: float = 0.0
    talk: Callable[[float], float] | None = None
    """Does one exchange and says when the next is due."""
    make_talk: Callable[..., Callable[[float], float]] | None = None
    out: Total = field(default_factory=Total)
    incoming: Total = field(default_factory=Total)
    requests: Total = field(default_factory=Total)
    responses: Total = field(default_factory=Total)
    connects: int = 0
    reading: NodeReading | None = None
    """The last row of it, as long as nothing happened."""

    def state(self, at: float) -> str:
        """Return the state of its connection as librdkafka's statistics name it."""
        wire = self.wire
        return "UP" if wire is not None and wire.ready_at <= at < wire.closed_at else "DOWN"

    def exchange(
        self, at: float, sent: Message, answer: Message, after: float, written_late: float = 0.0
    ) -> float:
        """Send a request and take its answer `after` seconds; return when the answer was counted.

        `written_late`: the send buffer is full; a part of the last TLS record, which the client has
        counted, reaches the kernel so much later.
        """
        wire, client = self.wire, self.client
        assert wire is not None
        free, cost = client.free, client.security.cost
        at = free(max(at, wire.ready_at, self.born_at))
        size = sent.size + cost.out * sent.records
        wire.records_out.add(at, sent.records)
        if written_late:
            waits = min(sent.size // 2, written_late_bytes(client.security, sent.size))
            wire.write(at, size - waits)
            done = free(at + written_late)
            wire.write(done, waits)
            self.out.add(free(at + COUNT_SECONDS), sent.size)
            self.requests.add(free(done + 2 * COUNT_SECONDS), 1)
            at = done
        else:
            wire.write(at, size)
            self.out.add(free(at + COUNT_SECONDS), sent.size)
            self.requests.add(free(at + 2 * COUNT_SECONDS), 1)
        if answer.size == 0:
            return at + 2 * COUNT_SECONDS
        arrives = at + after
        if answer.pieces > 1:
            arrives = self._take_in_pieces(arrives, answer)
        else:
            size = answer.size + cost.incoming * answer.records
            taken = free(arrives + COUNT_SECONDS)
            wire.arrive(arrives, size, taken)
            wire.records_in.add(taken, answer.records)
            self.incoming.add(free(taken + COUNT_SECONDS), answer.size)
            arrives = taken
        done = free(arrives + 2 * COUNT_SECONDS)
        self.responses.add(done, 1)
        self.busy_until = done
        return done

    def _take_in_pieces(self, at: float, answer: Message) -> float:
        """Take an answer record by record as its segments come."""
        wire, free, cost = self.wire, self.client.free, self.client.security.cost
        assert wire is not None
        size, records = answer.size, answer.records
        for left in range(answer.pieces, 0, -1):
            part = size if left == 1 else size // left
            some = records if left == 1 else records // left
            taken = free(at + COUNT_SECONDS)
            wire.arrive(at, part + cost.incoming * some, taken)
            wire.records_in.add(taken, some)
            self.incoming.add(free(taken + COUNT_SECONDS), part)
            size, records = size - part, records - some
            at = taken + 0.004
        return taken


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer: plaintext bytes, TLS records, reads that it takes."""

    size: int
    records: int = 1
    pieces: int = 1


NO_ANSWER = Message(0, 0)


def written_late_bytes(security: Security, size: int) -> int:
    """Return how many bytes of a full buffer's last record may wait: at most one record."""
    return min(size, security.tls.record_bytes) if security.tls else 0


@dataclass(eq=False, slots=True)
class Client:
    """One client instance, and the thread that writes, reads and counts for it."""

    client_id: str
    kind: ClientKind
    library: Library
    version: str
    security: Security
    port: int
    group: int
    """Its epoll instance: no two clients have the same."""
    instance: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)
    stalled_until: float = 0.0
    steady_from: float = 0.0
    """From when on nothing that was planned happens to it."""
    started_at: float = 0.0
    ended_at: float = float("inf")
    largest_answer: int = 0
    is_here: bool = True
    """Whether its sockets are seen on this host."""
    hidden: bool = False
    """Whether no page tells of it."""
    full_buffer: bool = False
    """Whether its send buffer is too small for what it sends."""
    successes: Total = field(default_factory=Total)
    repeats: Total = field(default_factory=Total)
    sessions: set[Endpoint] = field(default_factory=set)
    """Remote ends with which it has a TLS session to resume."""

    def free(self, at: float) -> float:
        """Return when its thread can do what is due at a moment: then, or when it wakes up."""
        for begin, end in self.stalls:
            if begin <= at < end:
                return end
        return at

    def is_alive(self, at: float) -> bool:
        return self.started_at <= at < self.ended_at

    def count_open(self, at: float) -> int:
        return sum(wire.is_open(at) for wire in self.wires)
