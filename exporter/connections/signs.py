"""Roles by one connection's own traffic: heartbeats, fetches, produced records, silence.

Sizes are those of Kafka's own messages, so they hold whatever the application sends, but not under
TLS. What waits, what leaves in parts and what is repeated shows under TLS, too.
Pure.
"""

from __future__ import annotations

__all__ = [
    "SILENCE_SECONDS",
    "Sign",
    "has_rhythm",
    "is_beating",
    "is_busy",
    "is_established",
    "is_fetch",
    "is_in_use",
    "is_produce",
    "is_quiet",
    "is_steady",
    "sign_of_one",
]

from collections import Counter
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import Confidence, Role, TcpState
from exporter.text import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.connections.activity import Activity
    from exporter.connections.tracked import TrackedConnection

# Size, correlation id, [tags,] [throttle time,] error code[, tags]: HeartbeatResponse v0, v1-3, v4.
# Under TLS a record adds 21 to 38 bytes, and then other answers in plaintext have the same size (a
# produce answer for a topic of three letters: 54): no answer from sizes there.
_HEARTBEAT_RESPONSES = frozenset({10, 14, 16})

# ConsumerGroupHeartbeatResponse (KIP-848) without an assignment, a member id of 22 letters in it.
_NEW_HEARTBEAT_RESPONSES = frozenset({49})

_LEAST_BEATS = 8
_LEAST_ALIKE = 0.7

# A fetch leaves as soon as the last one is answered, so that most looks find one that waits for its
# answer: 0.3 to 0.7 of them (its answer may come in the same 4 ms of the kernel's clock), beside
# 0.12 at most of a producer's and none of a coordinator's (0.16 where six processes shared a core);
# where nothing comes in, 0.07 to 0.3.
_LEAST_WAITS = 4
_WAITING_SHARE = 0.25
_ALWAYS_SHARE = 0.8
_DOUBTFUL_SHARE = 0.2

# A fetch answer leaves the broker in three parts or more (header, records, the rest); JSSE sends
# records in three parts or more and other requests whole (before 3.0 all in two).
_FETCH_PARTS = 1.5
_PRODUCE_PARTS = 2.5

# A coordinator gets a heartbeat each 3 or 5 s and a commit each 5 s at most, unless set otherwise:
# two requests in one look, which leave in two parts each before 3.0 under TLS.
_MOST_BEAT_SEGMENTS = 6
_BEAT_SECONDS = (1.3, 6.1)
_LEAST_RHYTHM = 5


_RECENT = 12

# A connection that is silent for so long has said what it was opened to say. All that a bootstrap
# connection carries comes within this time of its opening (measured: 0.75 s, 2.5 s under load).
SILENCE_SECONDS = 3.0
_OPENING_SECONDS = 2.5

# A bootstrap connection may be in use for long where metadata comes late: InitProducerId at once,
# Metadata 4 s after it (2.1.0). What is used again and again after this time is used for good.
_SETTLED_SECONDS = 6.0
_LEAST_USES = 2

# ApiVersions, Metadata and, for some, InitProducerId or FindCoordinator; more under TLS and SASL,
# where clients before 3.0 send each request in two parts (measured: 15 at most).
_OPENING_SEGMENTS = 24


class _Beat(NamedTuple):
    """How heartbeats of one protocol look: their answers, their period, their share."""

    sizes: frozenset[int]
    seconds: tuple[float, float]
    least_share: float
    confidence: Confidence


# heartbeat.interval.ms is 3 s unless set; polls of 1 s see it 2 to 4 s apart. Three in five of a
# coordinator's single answers or more are heartbeats', beside auto-commits each 5 s. EndTxn answers
# are as large, but with each comes another of the same transaction.
_CLASSIC = _Beat(_HEARTBEAT_RESPONSES, (2.0, 4.0), 0.58, Confidence.STRONG)

# group.consumer.heartbeat.interval.ms is 5 s, and so is auto.commit.interval.ms: half the answers.
# One of ListOffsets for one partition of a topic of four letters is as large: not so sure.
_NEW = _Beat(_NEW_HEARTBEAT_RESPONSES, (4.5, 5.5), 0.45, Confidence.WEAK)


class Sign(NamedTuple):
    """A role that the kernel's figures show, and what shows it."""

    role: Role
    confidence: Confidence
    evidence: str


# ---- one connection ---------------------------------------------------------------------------


def sign_of_one(tracked: TrackedConnection) -> Sign | None:
    """Return the role that a connection's own figures prove, None where they prove none."""
    activities = list(tracked.activities)
    return _beats(activities, _CLASSIC) or _beats(activities, _NEW) or _fetches(activities)


def _beats(activities: list[Activity], kind: _Beat) -> Sign | None:
    single = [activity for activity in activities if activity.data_segments_in == 1]
    beats = [activity for activity in single if activity.incoming_bytes in kind.sizes]
    if len(beats) < _LEAST_BEATS or len(beats) < kind.least_share * len(single):
        return None
    # A member's heartbeats are all alike, until the next generation of its group.
    request, alike = Counter(activity.outgoing_bytes for activity in beats).most_common(1)[0]
    period = median(later.at - earlier.at for earlier, later in pairwise(beats))
    sizes = {activity.incoming_bytes for activity in beats}
    if (
        request == 0
        or alike < _LEAST_ALIKE * len(beats)
        or len(sizes) != 1
        or not kind.seconds[0] <= period <= kind.seconds[1]
    ):
        return None
    return Sign(
        Role.COORDINATOR,
        kind.confidence,
        f"a request of {request} B every {duration(period)} with a response of a heartbeat's size"
        f" ({beats[-1].incoming_bytes} B)",
    )


def _fetches(activities: Sequence[Activity]) -> Sign | None:
    waits = sum(activity.is_waiting for activity in activities)
    if waits < _LEAST_WAITS:
        return None
    # A coordinator's answers may be slow, too, but it is not asked as often.
    is_often = (activities[-1].at - activities[0].at) < _BEAT_SECONDS[0] * len(activities)
    if waits < (_WAITING_SHARE if is_often else _ALWAYS_SHARE) * len(activities):
        return None
    return Sign(
        Role.DATA,
        Confidence.STRONG,
        "a request is waiting for its response at every poll, as fetches do",
    )


# ---- what goes over one connection ------------------------------------------------------------


def is_established(tracked: TrackedConnection) -> bool:
    """Whether it was established, and the kernel has figures of it."""
    return (
        not tracked.ghost
        and tracked.reading.tcp_state in {TcpState.ESTABLISHED, TcpState.CLOSE_WAIT}
        and tracked.reading.info is not None
    )


def uses_of(tracked: TrackedConnection) -> list[Activity]:
    """Return what went over it after its client had the time to learn its brokers."""
    info = tracked.reading.info
    if not tracked.age_is_exact and info and (info.data_segments_out or 0) > _OPENING_SEGMENTS:
        # It was opened long before it was seen: more than an opening has gone over it.
        return list(tracked.activities)
    since = tracked.opened_at + _SETTLED_SECONDS
    return [activity for activity in tracked.activities if activity.at > since]


def is_in_use(tracked: TrackedConnection) -> bool:
    """Whether its client uses it for good."""
    return len(uses_of(tracked)) >= _LEAST_USES


def is_quiet(tracked: TrackedConnection, now: float) -> bool:
    """Whether nothing but what opens a connection has ever gone over it."""
    info = tracked.reading.info
    if info is None or not info.data_segments_in or tracked.idle_seconds(now) < SILENCE_SECONDS:
        return False
    if (info.data_segments_out or 0) > _OPENING_SEGMENTS:
        return False
    return tracked.last_activity_at - tracked.opened_at <= _OPENING_SECONDS


def is_fetch(tracked: TrackedConnection) -> bool:
    """Whether it is a consumer that waits: a producer in a hurry waits always, too."""
    activities = list(tracked.activities)
    if _fetches(activities) is None:
        return False
    sent = sum(activity.data_segments_out for activity in activities)
    received = sum(activity.data_segments_in for activity in activities)
    return received >= _FETCH_PARTS * sent or sent <= 2 * _LEAST_WAITS * len(activities)


def is_produce(tracked: TrackedConnection) -> bool:
    """Whether its requests leave in parts while answers come whole: JSSE does so with records."""
    uses = uses_of(tracked)[-_RECENT:]
    sent = sum(activity.data_segments_out for activity in uses)
    received = sum(activity.data_segments_in for activity in uses)
    return len(uses) >= _LEAST_RHYTHM and sent >= _PRODUCE_PARTS * received


def is_beating(tracked: TrackedConnection) -> bool:
    """Whether heartbeats go over it, by their sizes."""
    sign = sign_of_one(tracked)
    return sign is not None and sign.role is Role.COORDINATOR


def has_rhythm(tracked: TrackedConnection) -> bool:
    """Whether small requests go over it every few seconds, nearly each answered at once."""
    uses = uses_of(tracked)
    last = uses[-_RECENT:]
    if len(last) < _LEAST_RHYTHM or any(
        max(each.data_segments_out, each.data_segments_in) > _MOST_BEAT_SEGMENTS for each in last
    ):
        return False
    waits = sum(activity.is_waiting for activity in uses)
    interval = (last[-1].at - last[0].at) / (len(last) - 1)
    return waits <= _DOUBTFUL_SHARE * len(uses) and _BEAT_SECONDS[0] <= interval <= _BEAT_SECONDS[1]


def is_steady(tracked: TrackedConnection) -> bool:
    """Whether it repeats one request, as heartbeats do, and sends no records."""
    last = uses_of(tracked)[-_RECENT:]
    ((_, alike),) = Counter(
        (each.outgoing_bytes, each.incoming_bytes) for each in last
    ).most_common(1)
    return 2 * alike >= len(last)


def is_busy(tracked: TrackedConnection) -> bool:
    """Whether bytes go over it more often than over a coordinator."""
    last = uses_of(tracked)[-_RECENT:]
    if len(last) < _LEAST_RHYTHM:
        return False
    return (last[-1].at - last[0].at) / (len(last) - 1) < _BEAT_SECONDS[0]
