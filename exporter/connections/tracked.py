"""The state of one connection across polls.

Pure.
"""

from __future__ import annotations

__all__ = ["KeepaliveTimer", "Progress", "TrackedConnection", "first_seen", "seen_again"]

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.activity import (
    Activity,
    activity_between,
    last_activity_at,
    longest_silence,
    owed_since,
)
from exporter.model import Library

if TYPE_CHECKING:
    from exporter.model import ClientGroup, Owner, SocketReading

# Activity that is remembered of each connection: two minutes of a socket that is busy at each
# poll, much longer of a quiet one; enough for heartbeats (3 s) and metadata refreshes.
REMEMBERED_ACTIVITIES = 120

# The kernel's clock ticks each 1 to 10 ms, and its timers with it.
TIMER_SECONDS = 0.05

# What comes within so long is the client's greeting (ApiVersions), whatever it does afterwards.
GREETING_SECONDS = 2.0

# An answer that took so long was meant to: a long poll. Whoever does so again and again waits.
LONG_POLL_SECONDS = 5.0
MOST_LONG_POLLS = 3


@dataclass(slots=True)
class TrackedConnection:
    """One connection over its life. Only this module and the tracker write here."""

    reading: SocketReading
    owner: Owner
    opened_at: float
    age_is_exact: bool
    """Whether `opened_at` is when it was opened; else it was opened then or before."""
    first_for_owner: bool
    last_activity_at: float
    activities: deque[Activity] = field(default_factory=lambda: deque(maxlen=REMEMBERED_ACTIVITIES))
    state_since: float = 0.0
    vanished_polls: int = 0
    ghost: bool = False
    ghost_since: float | None = None
    descriptor_seen: bool = False
    owed_since: float | None = None
    answered: int = 0
    unanswered: int = 0
    long_polls: int = 0
    seen_opening: bool = True
    """Whether it was opened between two polls of the agent."""
    group: ClientGroup | None = None
    """The client that holds it, where the kernel shows that; None proves nothing."""
    opened_after: float = float("-inf")
    """It was established then or later, until `opened_at`."""

    @property
    def cookie(self) -> int:
        """The kernel's name of this socket."""
        return self.reading.cookie

    @property
    def unanswered_since(self) -> float | None:
        """Since when a request waits for an answer that it is used to get; None while none does.

        Producers with acks=0 get none, and a fetch may wait long by design: only a connection that
        never got a byte, or whose requests are mostly answered soon, can be owed one.
        """
        if self.owed_since is None or not (self.reading.incoming_bytes or 0):
            return self.owed_since
        is_used_to_answers = self.answered > 1 and self.unanswered <= self.answered
        if not is_used_to_answers or self.long_polls >= MOST_LONG_POLLS:
            return None
        return self.owed_since

    def idle_seconds(self, now: float) -> float:
        """Seconds since bytes last went either way."""
        return max(0.0, now - self.last_activity_at)

    def age_seconds(self, now: float) -> float:
        """Seconds since it was opened, or at least so many (`age_is_exact`)."""
        return max(0.0, now - self.opened_at)


class KeepaliveTimer(NamedTuple):
    """What the keep-alive timers of a process's connections begin with, and how old it is."""

    begins_ms: int | None
    process_seconds: float | None

    def age_of(self, reading: SocketReading, owner: Owner) -> float | None:
        """Return the age in seconds that a socket's timer shows, None where it shows none.

        It starts when the connection is established and runs for two hours whatever goes over it:
        what is gone of it is the age, to the millisecond. Only of Java clients, which switch
        keep-alive on before they connect and leave its time as it is (Selector.java); others set
        it. And only in a process that is younger than that: a timer that has run out starts again.
        """
        left, begins, alive = reading.keepalive_left_ms, self.begins_ms, self.process_seconds
        if left is None or begins is None or alive is None or owner.library is not Library.JAVA:
            return None
        age = (begins - left) / 1000
        # The kernel counts a process's start in hundredths of a second.
        return age if 0 <= age <= alive + 1.0 < begins / 1000 else None


class Progress(NamedTuple):
    """What a connection did since it was last seen."""

    moved: bool = False
    """Whether bytes went either way."""
    retransmits: int = 0


_NOTHING = Progress()


def first_seen(
    reading: SocketReading,
    owner: Owner,
    at: float,
    polled_at: float | None,
    *,
    is_first: bool,
    timer: KeepaliveTimer | None = None,
) -> TrackedConnection:
    """Begin to follow a connection; `polled_at` is the poll before, None for those at the start.

    `is_first`: its owner had none before. Who knows of those that were before the first poll?
    `timer` is what is known of its keep-alive timer.
    """
    silence = longest_silence(reading.info)
    by_timer = None if timer is None else timer.age_of(reading, owner)
    if by_timer is not None and by_timer + TIMER_SECONDS >= silence:
        # Also of one that was there before its port was watched.
        is_new = polled_at is not None and by_timer <= at - polled_at + TIMER_SECONDS
        age, exact = max(by_timer, silence), True
        opened_after = at - age
    else:
        is_new = exact = polled_at is not None
        age = silence if polled_at is None else min(silence, at - polled_at)
        opened_after = float("-inf") if polled_at is None else polled_at
    tracked = TrackedConnection(
        reading=reading,
        owner=owner,
        opened_at=at - age,
        age_is_exact=exact,
        first_for_owner=is_new and is_first,
        last_activity_at=last_activity_at(reading, fallback=at - age),
        state_since=at,
        seen_opening=is_new,
        opened_after=opened_after,
    )
    if is_new and reading.info is not None:
        activity = activity_between(None, reading.info, reading.at)
        tracked.activities.append(activity)
        tracked.owed_since = owed_since(None, reading, activity)
    return tracked


def seen_again(tracked: TrackedConnection, reading: SocketReading) -> Progress:
    """Take a later reading of it."""
    before = tracked.reading
    progress = _NOTHING
    if before.tcp_state is not reading.tcp_state:
        tracked.state_since = reading.at
    if before.info is not None and reading.info is not None and before is not reading:
        activity = activity_between(before.info, reading.info, reading.at)
        moved = activity.outgoing_bytes > 0 or activity.incoming_bytes > 0
        if moved:
            tracked.last_activity_at = last_activity_at(reading, fallback=reading.at)
        _follow_answers(tracked, reading, activity)
        if moved:
            is_waiting = tracked.owed_since is not None
            tracked.activities.append(activity._replace(is_waiting=is_waiting))
        progress = Progress(moved, _retransmits(reading) - _retransmits(before))
    tracked.reading = reading
    tracked.vanished_polls = 0
    tracked.ghost = False
    tracked.ghost_since = None
    return progress


def _follow_answers(tracked: TrackedConnection, reading: SocketReading, activity: Activity) -> None:
    """Keep count of how a connection's requests are answered."""
    before = tracked.owed_since
    tracked.owed_since = owed_since(before, reading, activity)
    if activity.incoming_bytes > 0:
        if reading.at - tracked.opened_at < GREETING_SECONDS:
            tracked.answered = 1
        else:
            tracked.answered += 1
        if before is not None and tracked.last_activity_at - before >= LONG_POLL_SECONDS:
            tracked.long_polls += 1
    elif activity.outgoing_bytes > 0:
        tracked.unanswered += 1


def _retransmits(reading: SocketReading) -> int:
    return (reading.info.retransmits_total or 0) if reading.info is not None else 0
