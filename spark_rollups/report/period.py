"""Which hours a report tells of: up to the last whole one, whatever a single clock says. Pure."""

from __future__ import annotations

__all__ = ["Period", "Seen", "choose"]

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from spark_rollups.report.digest import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_HOUR = timedelta(hours=1)


class Seen(NamedTuple):
    """What the agents' own records say of an hour of the fleet."""

    at: datetime
    agents: int
    agents_at_end: int
    """Of these, those that were heard in its last minute."""
    covered_ms: int
    minutes_seen: int
    minutes_expected: int


class Period(NamedTuple):
    """What a report is about."""

    hours: tuple[Seen, ...]
    begin: datetime
    end: datetime
    day: datetime
    hours_of_day: float
    """How many hours the tables of that day hold; one that has only begun is a part of one."""
    whole: bool
    """Whether its last hour is whole; if not, no hour in the tables is."""


def choose(hours: Sequence[Seen], days: int, until: datetime | None) -> Period | None:
    """Choose the last `days` days of `hours` (in order) that end before `until`; None: nothing."""
    inside = [hour for hour in hours if until is None or hour.at < until]
    if not inside:
        return None
    wholes = [place for place in range(len(inside)) if _is_whole(hours, place)]
    last = inside[wholes[-1]] if wholes else inside[-1]
    end = last.at + _HOUR
    told = tuple(hour for hour in inside if end - timedelta(days=days) <= hour.at < end)
    day = last.at.replace(hour=0)
    of_day = [hour for hour in hours if day <= hour.at < day + timedelta(days=1)]
    if wholes:
        length = sum(1.0 if hour.at <= last.at else _part(hour, last) for hour in of_day)
    else:
        length = sum(min(1.0, hour.covered_ms / (HOUR_MS * max(1, hour.agents))) for hour in of_day)
    return Period(told, told[0].at, end, day, length or 1.0, bool(wholes))


def _is_whole(hours: Sequence[Seen], place: int) -> bool:
    """Tell whether most of the fleet has been heard up to the end of an hour, or after it.

    Most of it, not some of it: the journals of a new hour come one after the other, and an agent
    with a fast clock is in the next hour before all others.
    """
    here = hours[place]
    if any(2 * later.agents > here.agents for later in hours[place + 1 :]):
        return True
    before = hours[place - 1] if place and hours[place - 1].at == here.at - _HOUR else here
    return 2 * here.agents_at_end > max(before.agents, 1)


def _part(hour: Seen, whole: Seen) -> float:
    """Return how much of an hour is there, by the time that the agents covered in a whole one."""
    return min(1.0, hour.covered_ms / whole.covered_ms) if whole.covered_ms else 0.0
