"""Charts as paths in a box of 100 by 100 that the page stretches; words stay outside. Pure."""

from __future__ import annotations

__all__ = [
    "Band",
    "Tick",
    "area",
    "bands",
    "line",
    "reasons",
    "scale",
    "stacked",
    "time_scale",
]

from collections import Counter
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_rollups.report.digest import HOUR_MS, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from spark_rollups.report.digest import Digest

_OTHER_WASTE: Final = "other waste"
_COLOURS: Final = ("red", "orange", "teal", "violet", "amber")
_STEPS_OF_HOURS: Final = (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 672, 1344)
_MOST_TICKS: Final = 7

Values = tuple[float | None, ...]


class Band(NamedTuple):
    """One layer of the stack; None where the hour is unknown."""

    name: str
    colour: str
    values: Values


class Tick(NamedTuple):
    """A mark on an axis: where it is, in percent, and what it stands for."""

    at: float
    value: float


def line(values: Sequence[float | None], top: float) -> str:
    """Return a line through values, with gaps where nothing is known."""
    step = 100 / max(1, len(values) - 1)
    path = ""
    for run in _runs(values):
        points = [f"{at * step:.1f} {100 - 100 * value / top:.1f}" for at, value in run]
        # The round ends of a line to itself are what shows a single point.
        path += "M" + "L".join(points if len(points) > 1 else points * 2)
    return path


def area(lower: Sequence[float | None], upper: Sequence[float | None], top: float) -> str:
    """Return what lies between two lines of steps, one step for each hour."""
    step = 100 / max(1, len(upper))
    path = ""
    for run in _runs(upper):
        first, last = run[0][0], run[-1][0]
        there = "".join(f"V{100 - 100 * v / top:.1f}H{(at + 1) * step:.2f}" for at, v in run)
        back = "".join(
            f"V{100 - 100 * (lower[at] or 0) / top:.1f}H{at * step:.2f}"
            for at in range(last, first - 1, -1)
        )
        path += f"M{first * step:.2f} 100{there}{back}Z"
    return path


def reasons(digest: Digest) -> list[tuple[str, float, float]]:
    """Return each reason of waste, its connections on average, and its share of all waste."""
    totals: Counter[str] = Counter()
    for waste in digest.waste:
        totals[waste.reason] += waste.waste_ms
    hours, in_all = HOUR_MS * max(1, len(digest.hours)), totals.total()
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return [(reason, spent / hours, spent / in_all) for reason, spent in ordered if spent]


def bands(digest: Digest) -> list[Band]:
    """Return what was held in each hour: useful, the greatest reasons of waste, the rest."""
    moments = [digest.begin + timedelta(hours=n) for n in range(digest.hours_in_period)]
    by_hour = {hour.at: hour for hour in digest.hours}
    named = [reason for reason, *_ in reasons(digest) if reason != OTHER][: len(_COLOURS)]
    wasted: Counter[tuple[str, datetime]] = Counter()
    for waste in digest.waste:
        wasted[waste.reason if waste.reason in named else _OTHER_WASTE, waste.at] += waste.waste_ms

    def held(figure: str) -> Values:
        return tuple(
            getattr(by_hour[at], figure) / HOUR_MS if at in by_hour else None for at in moments
        )

    def spent(reason: str) -> Values:
        return tuple(wasted[reason, at] / HOUR_MS if at in by_hour else None for at in moments)

    found = [
        Band("useful", "good", held("useful_ms")),
        *(Band(name, colour, spent(name)) for name, colour in zip(named, _COLOURS, strict=False)),
        Band(_OTHER_WASTE, "grey", spent(_OTHER_WASTE)),
        Band("unknown", "line", held("unknown_ms")),
    ]
    return [band for band in found if any(band.values)]


def stacked(layers: Sequence[Band]) -> list[tuple[Band, Values, Values]]:
    """Return each layer with its lower and its upper edge in the stack."""
    edges: list[tuple[Band, Values, Values]] = []
    for band in layers:
        lower = edges[-1][2] if edges else (0.0,) * len(band.values)
        upper = tuple(
            None if low is None or more is None else low + more
            for low, more in zip(lower, band.values, strict=True)
        )
        edges.append((band, lower, upper))
    return edges


def scale(top: float) -> list[Tick]:
    """Return round figures from 0 up to the top of an axis of values."""
    step = next(
        step
        for power in range(-3, 16)
        for step in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)
        if top / step <= 5  # noqa: PLR2004 -- marks on the axis
    )
    return [Tick(100 * n * step / top, n * step) for n in range(int(top / step) + 1)]


def time_scale(digest: Digest) -> list[tuple[float, datetime]]:
    """Return the moments to write below an axis of time, and where, in percent."""
    length = digest.hours_in_period
    step = next((n for n in _STEPS_OF_HOURS if length / n <= _MOST_TICKS), _STEPS_OF_HOURS[-1])
    return [
        (100 * n / length, at)
        for n in range(length)
        if not int((at := digest.begin + timedelta(hours=n)).timestamp()) // 3600 % step
    ]


def _runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Yield stretches without a gap, with their places."""
    for known, group in groupby(enumerate(values), key=lambda place: place[1] is not None):
        if known:
            yield [(at, value or 0.0) for at, value in group]
