"""A connection's role from the kernel's figures alone, where they leave no doubt.

Sizes are those of Kafka's own messages, so they hold whatever the application sends. What cannot be
told apart by figures (an idle node from a bootstrap connection, a slow producer from a
transaction coordinator) stays unknown: no answer is better than a wrong one.
Pure.
"""

from __future__ import annotations

__all__ = ["BOOTSTRAP_SILENCE", "Sign", "role_from_signs"]

from collections import Counter
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import Confidence, Library, Role

if TYPE_CHECKING:
    from exporter.core.activity import Activity
    from exporter.core.tracked import TrackedConnection

# Size, correlation id, [tags,] [throttle time,] error code[, tags]: HeartbeatResponse v0, v1-3, v4.
# Under TLS a record adds 21 to 38 bytes, and then other answers in plaintext have the same size (a
# produce answer for a topic of three letters: 54): no answer from sizes there.
_HEARTBEAT_RESPONSES = frozenset({10, 14, 16})

# An empty answer inside a fetch session: FetchResponse v12 and later, v7 to v11.
_IDLE_FETCH_RESPONSES = frozenset({21, 22})

# ConsumerGroupHeartbeatResponse (KIP-848) without an assignment, a member id of 22 letters in it.
_NEW_HEARTBEAT_RESPONSES = frozenset({49})

_LEAST_BEATS = 8

_RECENT = 12
_LEAST_ACTIVITIES = 5
_MOST = 0.7

# Bytes in one poll, poll after poll, that no control traffic of a client reaches: offsets of three
# thousand partitions committed each second.
_BULK_BYTES = 65536
_BULK_SECONDS = 30.0

# ApiVersions, Metadata and, for some, InitProducerId or FindCoordinator; three more under SASL.
_BOOTSTRAP_SECONDS = 5.0
_BOOTSTRAP_SEGMENTS = 12
BOOTSTRAP_SILENCE = 5.0


# A fetch answer leaves the broker in three parts or more (header, records, the rest), each in a
# segment of its own; other answers leave whole. Two requests may share a segment: so three times.
_PARTS_PER_REQUEST = 3
_MOST_PART_BYTES = 700


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


def role_from_signs(tracked: TrackedConnection, now: float) -> Sign | None:
    """Return the role that the figures prove, None where they prove none."""
    activities = list(tracked.activities)
    recent = activities[-_RECENT:]
    return (
        _coordinator(activities, _CLASSIC)
        or _coordinator(activities, _NEW)
        or _fetching(recent)
        or _in_parts(recent)
        or _bulk(recent)
        or _first(tracked, now)
    )


def _coordinator(activities: list[Activity], kind: _Beat) -> Sign | None:
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
        or alike < _MOST * len(beats)
        or len(sizes) != 1
        or not kind.seconds[0] <= period <= kind.seconds[1]
    ):
        return None
    return Sign(
        Role.COORDINATOR,
        kind.confidence,
        f"a request of {request} B each {period:.0f} s whose answer has the size of a heartbeat's"
        f" ({beats[-1].incoming_bytes} B)",
    )


def _fetching(recent: list[Activity]) -> Sign | None:
    idle_fetches = [
        activity
        for activity in recent
        if activity.data_segments_in > 0
        and activity.incoming_bytes % activity.data_segments_in == 0
        and activity.incoming_bytes // activity.data_segments_in in _IDLE_FETCH_RESPONSES
    ]
    if len(idle_fetches) < _LEAST_ACTIVITIES or len(idle_fetches) < _MOST * len(recent):
        return None
    last = idle_fetches[-1]
    size = last.incoming_bytes // last.data_segments_in
    return Sign(
        Role.DATA,
        Confidence.STRONG,
        f"request after request whose answer has the size of an empty fetch's ({size} B)",
    )


def _in_parts(recent: list[Activity]) -> Sign | None:
    parted = [
        activity
        for activity in recent
        if activity.data_segments_out > 0
        and activity.data_segments_in >= _PARTS_PER_REQUEST * activity.data_segments_out
        and activity.incoming_bytes <= _MOST_PART_BYTES * activity.data_segments_in
    ]
    if len(parted) < _LEAST_ACTIVITIES or len(parted) < _MOST * len(recent):
        return None
    last = parted[-1]
    return Sign(
        Role.DATA,
        Confidence.STRONG,
        f"small answers that come in parts, as fetched records do ({last.data_segments_in} segments"
        f" for {last.data_segments_out})",
    )


def _bulk(recent: list[Activity]) -> Sign | None:
    bulky = [
        activity
        for activity in recent
        if max(activity.outgoing_bytes, activity.incoming_bytes) >= _BULK_BYTES
    ]
    if len(bulky) < _LEAST_ACTIVITIES or len(bulky) < _MOST * len(recent):
        return None
    if bulky[-1].at - bulky[0].at > _BULK_SECONDS:
        return None
    return Sign(
        Role.DATA,
        Confidence.STRONG,
        f"{_BULK_BYTES // 1024} KiB and more, poll after poll: records, not control requests",
    )


def _first(tracked: TrackedConnection, now: float) -> Sign | None:
    """Tell a Java client's first connection: it knows only bootstrap addresses then."""
    info = tracked.reading.info
    if not tracked.first_for_owner or info is None:
        return None
    silent_since = tracked.last_activity_at - tracked.opened_at
    if (
        tracked.owner.library is not Library.JAVA
        or (info.data_segments_in or 0) == 0
        or (info.data_segments_out or 0) > _BOOTSTRAP_SEGMENTS
        or silent_since > _BOOTSTRAP_SECONDS
        or tracked.idle_seconds(now) < BOOTSTRAP_SILENCE
    ):
        return None
    return Sign(
        Role.BOOTSTRAP,
        Confidence.STRONG,
        f"the first connection of its process, silent since {silent_since:.1f} s after its opening",
    )
