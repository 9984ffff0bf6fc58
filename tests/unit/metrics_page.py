"""The page of metrics of one snapshot, as the agent's server makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.metrics.collector import BrokerwireCollector
from exporter.metrics.exposition import Exposition, Format
from tests.unit.snapshots import AT

if TYPE_CHECKING:
    from exporter.config.settings import LimitSettings
    from exporter.snapshot import Snapshot


def exposition(
    snap: Snapshot | None,
    now: float = AT,
    *,
    limits: LimitSettings | None = None,
    readings: tuple = (),
) -> Exposition:
    """An exposition that always shows this snapshot."""
    views = [] if snap is None else [({}, snap)]
    collector = BrokerwireCollector(lambda: views, limits, readings, clock=lambda: now)
    return Exposition(collector, clock=lambda: now)


def page(snap: Snapshot | None, now: float = AT, fmt: Format = Format.TEXT, **options) -> bytes:
    """The whole page, not compressed."""
    return exposition(snap, now, **options).page(fmt).body
