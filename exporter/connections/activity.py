"""The traffic of a connection between two readings, and since when a response is pending.

Pure.
"""

from __future__ import annotations

__all__ = ["Activity", "activity_between", "last_activity_at", "longest_silence", "owed_since"]

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from exporter.model import SocketReading, TcpInfo


class Activity(NamedTuple):
    """What went over a connection between two polls."""

    at: float
    outgoing_bytes: int
    incoming_bytes: int
    data_segments_out: int
    data_segments_in: int
    is_waiting: bool = False
    """Whether a request was left without its answer at the end, as by a consumer that fetches."""


def activity_between(before: TcpInfo | None, after: TcpInfo | None, at: float) -> Activity:
    """Count what went since `before`, or since the opening; an unknown count is 0 here."""
    if after is None:
        return Activity(at, 0, 0, 0, 0)
    if before is None:
        return Activity(
            at,
            max(0, (after.bytes_acked or 0) - 1),
            after.bytes_received or 0,
            after.data_segments_out or 0,
            after.data_segments_in or 0,
        )
    return Activity(
        at,
        _grown(before.bytes_acked, after.bytes_acked),
        _grown(before.bytes_received, after.bytes_received),
        _grown(before.data_segments_out, after.data_segments_out),
        _grown(before.data_segments_in, after.data_segments_in),
    )


def _grown(before: int | None, after: int | None) -> int:
    return max(0, after - before) if before is not None and after is not None else 0


def longest_silence(info: TcpInfo | None) -> float:
    """Return the greatest age in seconds that the kernel reports: the connection is no younger."""
    if info is None:
        return 0.0
    ages = (info.last_data_sent_ms, info.last_data_received_ms, info.last_ack_received_ms)
    return max((age for age in ages if age is not None), default=0) / 1000


def last_activity_at(reading: SocketReading, *, fallback: float) -> float:
    """Return when bytes last went either way."""
    info = reading.info
    if info is None:
        return fallback
    ages = [age for age in (info.last_data_sent_ms, info.last_data_received_ms) if age is not None]
    return reading.at - min(ages) / 1000 if ages else fallback


def owed_since(known: float | None, reading: SocketReading, activity: Activity) -> float | None:
    """Return since when a request waits for its answer; None where none does.

    `known` is what was known before. An answer and the next request may fall between two polls,
    even into one tick of the kernel's clock: then the acknowledgement of that request decides: it
    comes later than the answer (a broker that has nothing to say yet delays it by 40 ms).
    """
    info = reading.info
    if info is None or (known is not None and activity.incoming_bytes == 0):
        return known
    sent, received, acked = (
        info.last_data_sent_ms,
        info.last_data_received_ms,
        info.last_ack_received_ms,
    )
    if sent is None:
        return reading.at if activity.outgoing_bytes > 0 == activity.incoming_bytes else None
    if activity.outgoing_bytes > 0 and activity.incoming_bytes == 0:
        return reading.at - sent / 1000
    if not info.data_segments_in or received is None:
        return None
    if sent < received or (acked is not None and acked < received):
        return reading.at - sent / 1000
    return None
