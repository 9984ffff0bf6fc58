"""Whether one socket may be one node under one law, after all that was read of both.

What the socket counts beyond the node is V = K - B + what unreported records cost. K and B never
change, so V only grows, by whole records; each read gives bounds for it, and a pair whose bounds
contradict each other twice is none. No pair is ever preferred here: that is the search's task.
Pure.
"""

from __future__ import annotations

__all__ = ["LARGEST_HANDSHAKE", "MATURE_READS", "Pair", "Span"]

from typing import TYPE_CHECKING, NamedTuple

from exporter.join.history import LAG
from exporter.join.laws import PLAIN, most_extra_records

if TYPE_CHECKING:
    from exporter.join.history import Read, Row, Socket, Window
    from exporter.join.laws import Counts, Law

# A thread that is interrupted between writing and counting for longer than LAG makes one read
# false; the next read then agrees with those before it.
_STRIKES = 2

# So many reads after its opening, a socket's node has its first bytes on the page for certain.
MATURE_READS = 2

# Client certificates and stateless tickets with a chain of certificates in them stay below this.
LARGEST_HANDSHAKE = 65_536

# One TLS record: what a client has encrypted, or received in part, and counted or not.
_RECORD = 16_709

# More than one segment at once may end in the middle of a record.
_SEGMENT = 1_200

# What both have counted since then shows that they count the same, if it is so many times what the
# bounds leave open: less may be chance.
_SHARPNESS = 8

# JSSE and OpenSSL renew a key by a message of so many bytes each way (TLS, section 2).
_KEY_UPDATE = 5

# They do so after 128 GiB (jdk.tls.keyLimits): what a socket had carried before it was first read
# may hold such messages, each as long as a record.
_KEY_LIMIT = 2**37

# What a login in the middle of a connection (connections.max.reauth.ms) may weigh, tokens included.
_LOGIN = 8_192

# Logins before the agent began may weigh anything, and so does what nobody has read.
_ANYTHING = 2**53


class Span(NamedTuple):
    """Bounds of a number of bytes, both included."""

    low: int
    high: int

    def plus(self, low: int, high: int) -> Span:
        """Return the bounds of a sum."""
        return Span(self.low + low, self.high + high)

    def distance(self, other: Span) -> int:
        """Return the least difference of two such numbers."""
        return max(0, self.low - other.high, other.low - self.high)


_NOTHING = Span(0, 0)


class Pair:
    """A socket and a node under one law."""

    __slots__ = (
        "_base_in", "_base_out", "_counts", "_first", "_grown", "_in", "_is_firm_in",
        "_is_firm_out", "_look", "_out", "_seen", "growths", "has_no_past", "increments",
        "law", "reads", "row", "socket", "strikes",
    )  # fmt: skip

    def __init__(self, socket: Socket, row: Row, law: Law) -> None:
        """Begin without having read anything."""
        self.socket, self.row, self.law = socket, row, law
        self.strikes = 0
        self.growths = 0
        """How often both had counted more than the bounds leave open."""
        self.increments: frozenset[int] = frozenset()
        """By how much it was, each time."""
        self._grown = 0
        """What the node has counted since the last of these."""
        self.reads = 0
        self.has_no_past = False
        """Whether the node is known to have had no connection before this one: B is 0."""
        self._seen = -1
        self._look: object = None
        """The socket's last look, where it had counted nothing new since long before the read."""
        self._counts: Counts | None = None
        self._first: Counts | None = None
        self._out = self._in = self._base_out = self._base_in = _NOTHING
        self._is_firm_out = self._is_firm_in = True

    @property
    def is_possible(self) -> bool:
        """Whether nothing that was read contradicts it."""
        return self.strikes < _STRIKES

    @property
    def is_settled(self) -> bool:
        """Whether a read at which neither counted anything says nothing new."""
        return self._look is self.socket.looks[-1] and self.reads >= MATURE_READS

    @property
    def is_read(self) -> bool:
        """Whether anything was read of both."""
        return self._counts is not None

    def advance(self, *, may_log_in: bool) -> None:
        """Take the reads since the last call for which both sides are known."""
        row, socket = self.row, self.socket
        if not row.reads or row.reads[-1].number == self._seen:
            return
        for read in row.steps(self._seen):
            if read.begun - LAG < socket.opened_by:
                self._seen = read.number
                continue
            begin, end = read.begun - LAG, read.ended + LAG
            look = socket.looks[-1]
            if look.until < end:
                break
            self._seen = read.number
            self.reads += 1
            if look is self._look and read.counts == self._counts and look.is_since(begin):
                continue
            window = socket.window(begin, end)
            if window is None:
                continue
            self._look = look if look.is_since(begin) and not self.strikes else None
            self._observe(window, read, may_log_in=may_log_in)
            if not self.is_possible:
                break

    def _observe(self, window: Window, read: Read, *, may_log_in: bool) -> None:
        counts, earlier = read.counts, self._counts
        law, shape = self.law, self.row.shape
        out, incoming = self._spans(window, counts)
        if earlier is None:
            self._counts, self._out, self._in = counts, out, incoming
            self._first = counts
            self._base_out, self._base_in = self._bases(out, incoming, counts)
            self._is_firm_out = self._base_out == out
            self._is_firm_in = self._base_in == incoming
            if may_log_in or max(window.out_high, window.in_high) >= _KEY_LIMIT:
                # It may have logged in again, or renewed its keys, before anybody looked.
                self._base_out = Span(-_ANYTHING, self._base_out.high)
                self._base_in = Span(-_ANYTHING, self._base_in.high)
                self._is_firm_out = self._is_firm_in = False
            return
        sent, received = counts.outgoing - earlier.outgoing, counts.incoming - earlier.incoming
        login = _LOGIN if may_log_in and sent > 0 else 0
        more_out = law.out * most_extra_records(
            counts.requests - earlier.requests, sent, exact=shape.out
        )
        more_in = law.incoming * most_extra_records(
            counts.responses - earlier.responses, received, exact=shape.incoming
        )
        now_out = _narrowed(self._out, out, more_out + login, law.out if not login else 1)
        now_in = _narrowed(self._in, incoming, more_in + login, law.incoming if not login else 1)
        renewed = False
        if law != PLAIN and (now_out is None or now_in is None):
            renewed = True
            by_out, by_in = law.out + _KEY_UPDATE, law.incoming + _KEY_UPDATE
            now_out = _narrowed(self._out.plus(by_out, by_out), out, more_out + login, 1)
            now_in = _narrowed(self._in.plus(by_in, by_in), incoming, more_in + login, 1)
        if now_out is None or now_in is None:
            self.strikes += 1
            self.growths = self._grown = 0
            self.increments = frozenset()
            return
        if sent > 0 or received > 0 or (out.low == out.high and incoming.low == incoming.high):
            self.strikes = 0
        if sent > 0 or received > 0:
            self._grown += sent + received
            # In steady traffic no read falls between two messages: the sum of several shows more.
            open_bytes = (now_out.high - now_out.low) + (now_in.high - now_in.low)
            if open_bytes * _SHARPNESS < self._grown:
                self.growths += 1
                self.increments |= {self._grown}
                self._grown = 0
        self._counts, self._out, self._in = counts, now_out, now_in
        # From the first record on that nobody counted, V says no more of K.
        self._is_firm_out = self._is_firm_out and not (login or more_out or renewed)
        self._is_firm_in = self._is_firm_in and not (login or more_in or renewed)
        if self._is_firm_out:
            self._base_out = _within(self._base_out, now_out)
        if self._is_firm_in:
            self._base_in = _within(self._base_in, now_in)

    def _spans(self, window: Window, counts: Counts) -> tuple[Span, Span]:
        """Return the bounds of both V at one read.

        Bytes and requests are counted one after the other: in traffic, records widen the bounds.
        """
        law = self.law
        paid_out = counts.outgoing + law.out * law.per_request * max(0, counts.requests)
        paid_in = counts.incoming + law.incoming * max(0, counts.responses)
        sent, received = window.out_high - window.out_low, window.in_high - window.in_low
        slack_out = sent if law.out else 0
        slack_in = received if law.incoming else 0
        # A full send buffer: a record is counted that the kernel has not, or, by clients that count
        # a request when all of it is written, the other way round.
        waiting = _RECORD if window.is_queued else 0
        behind = _RECORD if received > _SEGMENT else 0
        return (
            Span(
                window.out_low - paid_out - slack_out - waiting,
                window.out_high - paid_out + slack_out + (waiting if law.out else 0),
            ),
            Span(window.in_low - paid_in - slack_in - behind, window.in_high - paid_in + slack_in),
        )

    def _bases(self, out: Span, incoming: Span, counts: Counts) -> tuple[Span, Span]:
        """Return the bounds of K - B: V less what the records so far may have cost."""
        law, shape = self.law, self.row.shape
        # The first message of a connection is ApiVersions, one record each way.
        extra_out = law.out * most_extra_records(
            counts.requests, counts.outgoing, exact=shape.out or counts.requests == 1
        )
        extra_in = law.incoming * most_extra_records(
            counts.responses, counts.incoming, exact=shape.incoming or counts.responses == 1
        )
        return Span(out.low - extra_out, out.high), Span(incoming.low - extra_in, incoming.high)

    def handshake(self) -> tuple[Span, Span]:
        """Return the bounds of K, out and in, with what the node may have counted before."""
        if self._first is None:
            return Span(-_ANYTHING, _ANYTHING), Span(-_ANYTHING, _ANYTHING)
        if self.has_no_past or self.row.node.connects == 1:
            return self._base_out, self._base_in
        counts, law = self._first, self.law
        low_out = low_in = 0
        known = self.row.counted_before(self.socket)
        if known is not None:
            low_out = known.outgoing + law.out * law.per_request * max(0, known.requests)
            low_in = known.incoming + law.incoming * max(0, known.responses)
        high_out = counts.outgoing + law.out * law.per_request * max(0, counts.requests)
        high_in = counts.incoming + law.incoming * max(0, counts.responses)
        return self._base_out.plus(low_out, high_out), self._base_in.plus(low_in, high_in)

    def may_begin(self, *, is_open: bool) -> bool:
        """Whether K may be what it must be: 0 where the client neither encrypts nor logs in.

        A node that has counted nothing yet may have a socket that did no more than that.
        """
        most = LARGEST_HANDSHAKE if not is_open else 0
        if not self.is_read and not self.row.reads:
            last = self.socket.looks[-1]
            return max(last.out, last.incoming) <= most
        return all(span.high >= 0 and span.low <= most for span in self.handshake())

    @property
    def may_be_equal(self) -> bool:
        """Whether the totals are equal as far as they were read: nothing encrypts or logs in."""
        return (
            self.law == PLAIN
            and self.is_read
            and self._out.low <= 0 <= self._out.high
            and self._in.low <= 0 <= self._in.high
            and not self.strikes
        )

    @property
    def is_equal(self) -> bool:
        """Whether the totals are equal, to the byte, both ways: nothing encrypts or logs in."""
        return (
            self.law == PLAIN
            and self.is_read
            and self._out == self._in == _NOTHING
            and not self.strikes
        )


def _within(known: Span, now: Span) -> Span:
    return Span(max(known.low, now.low), min(known.high, now.high))


def _narrowed(before: Span, now: Span, more: int, cost: int) -> Span | None:
    """Return what both leave of V that may have grown by `more`, in steps of `cost`."""
    span = Span(max(before.low, now.low), min(before.high + more, now.high))
    if span.low > span.high:
        return None
    is_sharp = before.low == before.high and now.low == now.high
    if is_sharp and cost and (now.low - before.low) % cost:
        return None
    return span
