"""Whether a connection has carried anything since the seconds of its opening.

A fact of the kernel's counters that needs no inference: it holds whatever the connection was opened
for, with TLS and without, and with no client metrics at all.

What counts as its opening are the first `OPENING_SECONDS`. When a connection was opened is known if
the agent saw it open, or if its keep-alive timer shows it (`KeepaliveTimer`); of others the kernel
keeps only the ages of the last segments, which say nothing about the time before them. Such a
connection is unused only if its counters leave no other reading: not more than one data segment
went out, which is the first request. That its bytes have not changed since the agent first saw it
is no proof, and is not used as one.
Pure.
"""

from __future__ import annotations

__all__ = ["OPENING_SECONDS", "silent_since_opening", "unused_since_opening", "was_used"]

from typing import TYPE_CHECKING

from exporter.model import TcpState

if TYPE_CHECKING:
    from exporter.connections.tracked import TrackedConnection

# ApiVersions, authentication and metadata are over within 2.5 s of the opening (measured on 188
# sockets of Java clients); slow TLS may take twice as long.
OPENING_SECONDS = 5.0

# The first request of every client (ApiVersions); without it nothing was asked at all.
_FIRST_REQUEST = 1


def unused_since_opening(tracked: TrackedConnection, now: float) -> float | None:
    """Return for how many seconds a connection has carried nothing since its opening, else None.

    None says that it was used, is younger than its opening takes, is not established, or that the
    counters prove neither.
    """
    since = silent_since_opening(tracked)
    if since is None or now - since < OPENING_SECONDS:
        return None
    return now - since


def silent_since_opening(tracked: TrackedConnection) -> float | None:
    """Return when a connection's opening ended that has certainly carried nothing since, else None.

    Of a young one that says nothing yet: only after `OPENING_SECONDS` it is unused.
    """
    info = tracked.reading.info
    if info is None or tracked.ghost or tracked.reading.tcp_state is not TcpState.ESTABLISHED:
        return None
    if was_used(tracked):
        return None
    sent = info.data_segments_out
    if tracked.age_is_exact or (sent is not None and sent <= _FIRST_REQUEST):
        return tracked.last_activity_at
    return None


def was_used(tracked: TrackedConnection) -> bool:
    """Whether bytes certainly went over a connection after its opening; once true, always true."""
    if tracked.age_is_exact:
        return tracked.last_activity_at - tracked.opened_at > OPENING_SECONDS
    # Of one that was there before the agent, only what the agent itself saw go over it.
    return any(each.outgoing_bytes or each.incoming_bytes for each in tracked.activities)
