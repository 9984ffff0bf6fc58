"""What one socket and one node counted, and when: the two sides that the join compares.

Neither is read at one instant, so both give bounds: a count is somewhere between what it was seen
to be before a moment and after it.
Pure.
"""

from __future__ import annotations

__all__ = ["LAG", "READS_OF_LAG", "Read", "Row", "Socket", "Window"]

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exporter.join.laws import Counts, Shape, counts_of, shape_of
from exporter.model import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.model import (
        ClientGroup,
        ClientKey,
        ClientKind,
        Endpoint,
        Library,
        NodeReading,
        SocketReading,
    )

# A client counts what it wrote a moment later, a page may be put together before it is asked for,
# and pushed statistics are stamped before they are complete: up to 176 ms seen, in seconds.
LAG = 0.25

# The kernel's ages are whole ticks of its clock, of 10 ms at most.
_TICK = 0.01

# Looks and reads that are remembered: a page each two seconds makes a minute of a busy socket.
_REMEMBERED_LOOKS = 64
_REMEMBERED_READS = 24

# A page may be older than the one before it; two in a row are not.
_FALLS = 2

# A page counts connections, and what went over one that is gone, a read late at most; statistics
# may be written before a socket closes and read after that.
READS_OF_LAG = 2


class Window(NamedTuple):
    """The bounds of a socket's counts at any one moment of a period."""

    out_low: int
    out_high: int
    in_low: int
    in_high: int
    is_queued: bool
    """Whether bytes waited in the send queue: the client may have counted a record more or less."""


@dataclass(slots=True)
class _Look:
    """Counts that did not change from `*_since` until `until`, the last look that saw them."""

    out_since: float
    in_since: float
    until: float
    out: int
    incoming: int
    is_queued: bool

    def is_since(self, begin: float) -> bool:
        """Whether nothing was counted from then on, and nothing waited."""
        return self.out_since <= begin and self.in_since <= begin and not self.is_queued


@dataclass(slots=True, eq=False)
class Socket:
    """One socket, what it counted, and the client that the kernel shows to hold it."""

    cookie: int
    remote: Endpoint
    owner: str
    opened_by: float
    """It was open at this time for certain, ..."""
    opened_from: float
    """... and was opened after this one; minus infinity where nobody saw it."""
    group: ClientGroup | None = None
    looks: deque[_Look] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_LOOKS))
    latest: SocketReading | None = None

    def note(self, at: float, reading: SocketReading) -> None:
        """Take one look at it; the kernel's ages say since when its counts have not changed."""
        last = self.looks[-1] if self.looks else None
        if reading is self.latest and last is not None:
            last.until = max(last.until, at)
            return
        if last is not None and at < last.until:
            return
        out, incoming = reading.outgoing_bytes, reading.incoming_bytes
        if out is None or incoming is None or reading.info is None:
            return
        self.latest = reading
        queued = reading.send_queue > 0
        if last is not None and (last.out, last.incoming) == (out, incoming):
            last.until, last.is_queued = at, last.is_queued or queued
            return
        sent, received = reading.info.last_data_sent_ms, reading.info.last_data_received_ms
        out_since = reading.at if sent is None or queued else reading.at - sent / 1000 + _TICK
        in_since = reading.at if received is None or reading.receive_queue else (
            reading.at - received / 1000 + _TICK
        )  # fmt: skip
        if last is not None:
            out_since = last.out_since if last.out == out else max(out_since, last.until)
            in_since = last.in_since if last.incoming == incoming else max(in_since, last.until)
        self.looks.append(_Look(min(out_since, at), min(in_since, at), at, out, incoming, queued))

    def window(self, begin: float, end: float) -> Window | None:
        """Return the bounds of the counts from `begin` to `end`; None until a look after that."""
        looks = self.looks
        if not looks or looks[-1].until < end:
            return None
        out_low = in_low = 0
        has_out = has_in = queued = False
        out_high, in_high = looks[-1].out, looks[-1].incoming
        for look in reversed(looks):
            if look.until >= end:
                out_high, in_high = look.out, look.incoming
            if look.until >= begin:
                queued = queued or look.is_queued
            if not has_out and look.out_since <= begin:
                out_low, has_out = look.out, True
            if not has_in and look.in_since <= begin:
                in_low, has_in = look.incoming, True
            if has_out and has_in and look.until < begin:
                queued = queued or look.is_queued
                break
        if len(looks) == _REMEMBERED_LOOKS and not (has_out and has_in):
            return None
        return Window(out_low, out_high, in_low, in_high, queued)

    @property
    def active_at(self) -> float:
        """When bytes last went either way, as far as it was seen."""
        last = self.looks[-1]
        return max(last.out_since, last.in_since)

    def is_idle_since(self, moment: float) -> bool:
        """Whether its counts were seen to stand still from some moment on, by two looks."""
        last = self.looks[-1] if self.looks else None
        return last is not None and last.is_since(moment)

    @property
    def is_talking(self) -> bool:
        """Whether bytes went both ways."""
        return bool(self.looks and self.looks[-1].out and self.looks[-1].incoming)


class Read(NamedTuple):
    """One read of a client's figures, taken at moments between two times."""

    number: int
    begun: float
    ended: float
    counts: Counts


@dataclass(slots=True, eq=False)
class Row:
    """One node of one client and what it counted."""

    client: ClientKey
    node_id: str
    library: Library
    node: NodeReading
    shape: Shape
    reads: deque[Read] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_READS))
    falls: int = 0
    """Reads in a row that counted less than those before."""
    lost_at: int = -READS_OF_LAG
    """The number of the last read before a socket closed that may have been this node's."""

    @property
    def counts(self) -> Counts | None:
        """Its totals at the last read."""
        return self.reads[-1].counts if self.reads else None

    @property
    def is_idle(self) -> bool:
        """Whether it counted nothing between the last two reads."""
        reads = self.reads
        return not reads or (len(reads) > 1 and reads[-1].counts == reads[-2].counts)

    @property
    def may_be_in_use(self) -> bool:
        """Whether it says that it has a connection, or counted more within the last two reads."""
        return self.node.connection_state == "UP" or self._has_grown(list(self.reads)[-3:])

    @property
    def is_in_use(self) -> bool:
        """Whether it has a connection for certain.

        When a socket closes that may have been this node's, what was counted until then says
        nothing of the sockets that are left.
        """
        since = self.steps(self.lost_at)
        return len(since) >= READS_OF_LAG and (
            self.node.connection_state == "UP" or self._has_grown(since[-3:])
        )

    @staticmethod
    def _has_grown(reads: Sequence[Read]) -> bool:
        return bool(reads) and reads[-1].counts != reads[0].counts

    @property
    def is_learned(self) -> bool:
        """Whether its client learned of it from metadata."""
        return self.node.role is not Role.BOOTSTRAP

    def take(
        self, node: NodeReading, kind: ClientKind, number: int, times: tuple[float, float]
    ) -> bool:
        """Take what the client reports of it now; False where it restarted: its totals fell."""
        self.node = node
        counts = counts_of(node)
        if counts is None:
            return not self.reads
        before = self.counts
        if before is not None and (
            counts.outgoing < before.outgoing or counts.incoming < before.incoming
        ):
            self.falls += 1
            return self.falls < _FALLS
        self.falls = 0
        self.shape = shape_of(node, kind)
        self.reads.append(Read(number, *times, counts))
        return True

    def counted_before(self, socket: Socket) -> Counts | None:
        """Return what it had counted for certain before a socket was opened; None: unknown."""
        known = None
        for read in self.reads:
            if read.ended + LAG < socket.opened_from:
                known = read.counts
        return known

    def steps(self, after: int) -> list[Read]:
        """Return the reads after one number."""
        return [read for read in self.reads if read.number > after]
