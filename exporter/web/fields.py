"""What the API's documents have in common: their first fields, and how a value is written."""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION", "Document", "envelope", "number", "plain", "time_text"]

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import exporter

if TYPE_CHECKING:
    from exporter.snapshot import Snapshot

SCHEMA_VERSION = 1

Document = dict[str, Any]


def envelope(snapshot: Snapshot, *, stale: bool) -> Document:
    """Return the fields that every document of a snapshot begins with."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": exporter.__version__,
        "time": time_text(snapshot.wall_time),
        "interval_seconds": snapshot.interval_seconds,
        "stale": stale,
    }


def time_text(seconds: float) -> str:
    """Write a wall time in UTC, to the millisecond."""
    text = datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def plain(value: str | None) -> str | None:
    """Spell out the bytes of a name that is not UTF-8: half a surrogate pair is not JSON."""
    if value is None or value.isascii():
        return value
    return value.encode(errors="backslashreplace").decode()


def number(value: float | None) -> float | None:
    """Return a figure that JSON can have; None where it is not known."""
    return value if value is not None and math.isfinite(value) else None
