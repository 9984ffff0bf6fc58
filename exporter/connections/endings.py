"""How connections ended, and which side closed them.

The destroy event's own state is always CLOSE and it names no side. What decides is the last state
that a poll saw, and what the final counters say of FINs: `bytes_acked` and `bytes_received` count
one each, `bytes_sent` does not. Measured on Linux 6.18 for every way to end:

    the client closes, the broker follows     its FIN is acknowledged; mostly none came back
    ... and the broker is quick               one segment comes: the acknowledgement and a FIN
    the broker closes, the client follows     two segments come: a FIN, an acknowledgement; one
                                              goes, or two where the client takes its time
    ... with a request that it had read       the same: its FIN acknowledges that, too
    the client shuts down, the broker is slow two segments come, too, and two go
    the broker resets                         a segment comes, the client's FIN never went
    the client resets (SO_LINGER 0)           the kernel forgets the port and all figures
    never got through                         not even the SYN is acknowledged
Pure.
"""

from __future__ import annotations

__all__ = ["ClosedConnection", "closed_unseen", "closed_watched", "judge_together"]

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.activity import Activity, activity_between, longest_silence
from exporter.model import ClosedBy, TcpInfo, TcpState

if TYPE_CHECKING:
    from collections.abc import Collection
    from collections.abc import Set as AbstractSet

    from exporter.connections.tracked import TrackedConnection
    from exporter.model import ClosedSocket, Endpoint

# What the broker's side adds to bytes_received when it closes: its FIN, under TLS after a
# close_notify record (research: 40 bytes in TLS 1.3 and 31 in 1.2 from a JVM, 24 from OpenSSL).
BROKER_CLOSE_BYTES = frozenset({1, 25, 32, 41})

# Segments that come when the broker closes first: its FIN, and the acknowledgement of the client's.
BROKER_CLOSE_SEGMENTS = 2

# A broker that acknowledges with its answers: after so many requests, so seldom without.
LEAST_REQUESTS = 10
MOST_BARE_ANSWERS = 0.2

# What the counters say once a connection has got through and before anything goes over it.
_HANDSHAKE = TcpInfo(
    bytes_acked=1, bytes_received=0, bytes_sent=0, segments_in=1, data_segments_in=0
)

_CLIENT_CLOSED = frozenset(
    {TcpState.FIN_WAIT1, TcpState.FIN_WAIT2, TcpState.CLOSING, TcpState.TIME_WAIT}
)
_BROKER_CLOSED = frozenset({TcpState.CLOSE_WAIT, TcpState.LAST_ACK})
_CONNECTING = frozenset({TcpState.SYN_SENT, TcpState.SYN_RECV})

_TURNED_AWAY = frozenset({ClosedBy.REFUSED, ClosedBy.BROKER})

# So many at once, and none left, are a broker's doing: a client that closes leaves all its brokers.
WHOLE_BROKER = 3

# What is seen at one broker at one poll, and nothing else, when it was the broker that went.
_ENDED_BY_BROKER = frozenset({ClosedBy.BROKER, ClosedBy.REFUSED, ClosedBy.UNKNOWN})


class ClosedConnection(NamedTuple):
    """A connection that ended. `tracked` is None where no poll ever met it.

    `rest` is what went over it after the last reading, or altogether where there was none.
    A tuple, since thousands may end between two polls: it is made five times as fast.
    """

    at: float
    local: Endpoint
    remote: Endpoint
    closed_by: ClosedBy
    lifetime_seconds: float
    tracked: TrackedConnection | None
    info: TcpInfo | None
    rest: Activity

    @property
    def had_conversation(self) -> bool:
        """Whether data came back from the other side: a Kafka client's does within a second."""
        if self.tracked is not None and (self.tracked.reading.incoming_bytes or 0) > 1:
            return True
        return self.info is not None and (self.info.data_segments_in or 0) > 0

    @property
    def hung_up(self) -> bool:
        """Whether the client's side left without a conversation, as a health check does.

        A broker that refused it, or ended it (a client that connects as its broker dies), did not
        want to talk: that is no check.
        """
        return not self.had_conversation and self.closed_by not in _TURNED_AWAY


def closed_watched(
    tracked: TrackedConnection, at: float, event: ClosedSocket | None
) -> ClosedConnection:
    """Describe the end of a connection that polls have met."""
    last = tracked.reading
    info = event.info if event is not None and event.info is not None else last.info
    return ClosedConnection(
        at=at,
        local=last.local,
        remote=last.remote,
        closed_by=_closed_by(tracked, event),
        lifetime_seconds=tracked.age_seconds(at),
        tracked=tracked,
        info=info,
        rest=_without_fins(activity_between(last.info, info, at), info, last.info),
    )


def closed_unseen(
    event: ClosedSocket, polled_at: float | None, *, is_reachable: bool
) -> ClosedConnection:
    """Describe a connection that opened and closed between two polls.

    `is_reachable`: other connections to that address are established.
    """
    info = event.info
    closed_by = _unseen_closed_by(event, is_reachable=is_reachable)
    age = 0.0 if closed_by is ClosedBy.REFUSED else longest_silence(info)
    longest = event.at - polled_at if polled_at is not None else age
    return ClosedConnection(
        at=event.at,
        local=event.local,
        remote=event.remote,
        closed_by=closed_by,
        lifetime_seconds=max(0.0, min(age, longest)),
        tracked=None,
        info=info,
        rest=_without_fins(activity_between(None, info, event.at), info, None),
    )


def judge_together(
    closed: list[ClosedConnection],
    still_open: Collection[TrackedConnection],
    half_closed: AbstractSet[Endpoint],
) -> list[ClosedConnection]:
    """Judge what the counters leave open by what else happened since the last poll.

    A broker that ends takes the connections of many with it, leaves those half closed that nobody
    polls (`half_closed`), and refuses the next attempts; a process that ends takes all of its own.
    """
    open_owners = {tracked.owner.key for tracked in still_open}
    open_remotes = {tracked.reading.remote for tracked in still_open}
    by_remote: dict[Endpoint, Counter[ClosedBy]] = defaultdict(Counter)
    remotes: dict[str, set[Endpoint]] = defaultdict(set)
    for ended in closed:
        by_remote[ended.remote][ended.closed_by] += 1
        if ended.tracked is not None:
            remotes[ended.tracked.owner.key].add(ended.remote)

    def judged(ended: ClosedConnection) -> ClosedConnection:
        if ended.closed_by is not ClosedBy.UNKNOWN:
            return ended
        owner = None if ended.tracked is None else ended.tracked.owner.key
        if owner is not None and len(remotes[owner]) > 1 and owner not in open_owners:
            return ended._replace(closed_by=ClosedBy.CLIENT)
        there = by_remote[ended.remote]
        is_told = len(there) > 1 or ended.remote in half_closed
        is_whole = there.total() >= WHOLE_BROKER and ended.remote not in open_remotes
        if _ENDED_BY_BROKER.issuperset(there) and (is_told or (is_whole and owner in open_owners)):
            return ended._replace(closed_by=ClosedBy.BROKER)
        return ended

    return [judged(ended) for ended in closed]


def _closed_by(tracked: TrackedConnection, event: ClosedSocket | None) -> ClosedBy:
    """Return which side ended a connection that was watched."""
    last = tracked.reading
    if last.tcp_state in _CONNECTING:
        through = event is not None and _got_through(event.info)
        return ClosedBy.UNKNOWN if through else ClosedBy.REFUSED
    if last.tcp_state in _BROKER_CLOSED or tracked.ghost:
        return ClosedBy.BROKER
    if last.tcp_state in _CLIENT_CLOSED:
        return ClosedBy.CLIENT
    if event is None:
        return ClosedBy.UNKNOWN
    if event.remote.port == 0:
        return ClosedBy.ABORT
    return _by_counters(last.info, event.info)


def _unseen_closed_by(event: ClosedSocket, *, is_reachable: bool) -> ClosedBy:
    info = event.info
    if event.remote.port == 0:
        # tcp_disconnect() has wiped everything: a blocking connect() that was refused, or an
        # abort (SO_LINGER 0) of a connection that had got through.
        aborted = is_reachable or _got_through(info)
        return ClosedBy.ABORT if aborted else ClosedBy.REFUSED
    if info is None:
        return ClosedBy.UNKNOWN
    if not _got_through(info):
        return ClosedBy.REFUSED
    return _by_counters(_HANDSHAKE, info)


def _got_through(info: TcpInfo | None) -> bool:
    """Whether the SYN was acknowledged; a kernel that does not count is taken to say no."""
    return info is not None and bool(info.bytes_acked or info.bytes_received)


def _by_counters(before: TcpInfo | None, after: TcpInfo | None) -> ClosedBy:
    """Read the ending from how the counters grew since the last look."""
    if before is None or after is None:
        return ClosedBy.UNKNOWN
    if before.bytes_received is None or after.bytes_received is None:
        return ClosedBy.UNKNOWN
    came = after.bytes_received - before.bytes_received
    fin_acked = _fin_was_acked(after)
    if fin_acked is None:
        return _by_bytes_alone(came)
    if not fin_acked:
        # A reset. The broker's arrives; one of the client's own goes when it leaves bytes unread.
        arrived = (after.segments_in or 0) > (before.segments_in or 0)
        return ClosedBy.BROKER if arrived and came == 0 else ClosedBy.ABORT
    segments = _closing_segments(before, after)
    if segments is None or came in BROKER_CLOSE_BYTES - {1}:
        return _by_bytes_alone(came)
    if came != 1:
        return _after_data(before, after)
    went = _bare_segments_out(before, after)
    # A request's acknowledgement comes by itself, but a broker that ends before it has answered
    # sends it with its FIN (within the 40 ms for which Linux waits for an answer to carry it).
    asked = (after.bytes_sent or 0) > (before.bytes_sent or 0)
    if segments - (asked and went is None) < BROKER_CLOSE_SEGMENTS:
        return ClosedBy.CLIENT
    # Who follows at once has one segment for its FIN and the acknowledgement of the other's. Two
    # went where either side was slow: a client that follows late, or a broker that does, after a
    # client that shuts down and closes later (Java).
    return ClosedBy.BROKER if went is None or went <= 1 else ClosedBy.UNKNOWN


def _after_data(before: TcpInfo, after: TcpInfo) -> ClosedBy:
    """Judge where data came last, so that no byte count shows a FIN.

    One segment without data is the acknowledgement of the client's FIN. A second one is the
    broker's FIN if its answers have always come so soon that they carried the acknowledgements;
    those of a connection that no poll met cannot be known.
    """
    extra = _pure_segments(after) - _pure_segments(before)
    if not before.data_segments_out and after.data_segments_out:
        # Before it has answered anything, Linux acknowledges at once: one bare segment for the
        # first request (165 of 167 connections of a client per request had that one and no other).
        extra -= 1
    if extra <= 1:
        return ClosedBy.CLIENT
    sent = before.data_segments_out or 0
    is_quick = sent >= LEAST_REQUESTS and _pure_segments(before) <= sent * MOST_BARE_ANSWERS
    return ClosedBy.BROKER if is_quick and extra == BROKER_CLOSE_SEGMENTS else ClosedBy.UNKNOWN


def _pure_segments(info: TcpInfo) -> int:
    return (info.segments_in or 0) - (info.data_segments_in or 0)


def _fin_was_acked(info: TcpInfo) -> bool | None:
    """Whether the client's FIN was acknowledged; None where the kernel does not count enough."""
    if info.bytes_acked is None or info.bytes_sent is None:
        return None
    if info.retransmits_total:
        # What was sent again counts again in bytes_sent, and in nothing else that is told.
        return None
    return info.bytes_acked - 1 > info.bytes_sent


def _closing_segments(before: TcpInfo, after: TcpInfo) -> int | None:
    """Count the segments without data that came."""
    if before.segments_in is None or after.segments_in is None:
        return None
    if before.data_segments_in is None or after.data_segments_in is None:
        return None
    data = after.data_segments_in - before.data_segments_in
    return after.segments_in - before.segments_in - data


def _bare_segments_out(before: TcpInfo, after: TcpInfo) -> int | None:
    """Count the segments without data that the client sent since; None where nobody counts."""
    if before.segments_out is None or after.segments_out is None:
        return None
    if before.data_segments_out is None or after.data_segments_out is None:
        return None
    data = after.data_segments_out - before.data_segments_out
    return after.segments_out - before.segments_out - data


def _by_bytes_alone(came: int) -> ClosedBy:
    """Judge by bytes where the kernel counts no more."""
    if came == 0:
        return ClosedBy.CLIENT
    return ClosedBy.BROKER if came in BROKER_CLOSE_BYTES else ClosedBy.UNKNOWN


def _without_fins(rest: Activity, info: TcpInfo | None, before: TcpInfo | None) -> Activity:
    """Take the two FINs, which count one byte each, off what went last."""
    if info is None or info is before or not _fin_was_acked(info):
        return rest
    return rest._replace(
        outgoing_bytes=max(0, rest.outgoing_bytes - 1),
        incoming_bytes=max(0, rest.incoming_bytes - 1),
    )
