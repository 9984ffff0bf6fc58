"""The plot over time: what was held, useful or wasted."""

from __future__ import annotations

__all__ = ["plot_held"]

from collections import defaultdict
from datetime import timedelta
from itertools import groupby
from math import isnan
from typing import TYPE_CHECKING

from matplotlib.dates import AutoDateLocator, num2date
from matplotlib.ticker import FuncFormatter

from spark_rollups.report.digest import HOUR_MS, OTHER
from spark_rollups.report.words import amount, reason_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from spark_rollups.report.canvas import Canvas
    from spark_rollups.report.digest import Digest, Hour

_COLOURS = {
    "superseded_bootstrap": "teal",
    "idle_closing_off": "red",
    "idle_closing_failed": "red",
    "excess_instances": "orange",
    "unclaimed": "orange",
    "not_closed_after_broker": "violet",
    "half_closed": "violet",
    "broker_moved": "amber",
    "descriptor_leak": "blue",
}
_ELSE = "grey"
# Beyond these the reasons are one band: more colours nobody tells apart.
_BANDS = 5


def plot_held(canvas: Canvas, digest: Digest) -> None:
    """Stack what the fleet held: useful below, waste by reason above it."""
    moments = _moments(digest)
    by_hour = {hour.at: hour for hour in digest.hours}
    useful = [_connections(by_hour, at, "useful_ms") for at in moments]
    bands = [("useful", "good", useful)]
    for reason, values in _reasons(digest, moments):
        bands.append((reason, _COLOURS.get(reason, _ELSE), values))
    unknown = [_connections(by_hour, at, "unknown_ms") for at in moments]
    if any(value for value in unknown if not isnan(value)):
        bands.append(("unknown", "line", unknown))
    base = [0.0] * len(moments)
    for name, colour, values in bands:
        top = [low + value for low, value in zip(base, values, strict=True)]
        label = reason_words(name)
        for edges, (lower, upper) in _runs(moments, base, top):
            canvas.axes.fill_between(
                edges, lower, upper, step="post", color=canvas.colour(colour), linewidth=0,
                label=label, alpha=0.85 if name == "useful" else 0.95,
            )  # fmt: skip
            label = "_"
        base = top
    canvas.axes.set_ylim(bottom=0)
    _finish(canvas, moments)
    canvas.axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    canvas.figure.legend(
        loc="outside upper left", ncols=2 if canvas.narrow else 4, frameon=False,
        labelcolor=canvas.colour("ink"), fontsize=9, handlelength=1, handleheight=0.9,
    )  # fmt: skip


def _moments(digest: Digest) -> list[datetime]:
    """Return every hour of the period, also those that nobody saw."""
    return [digest.begin + timedelta(hours=number) for number in range(digest.hours_in_period)]


def _runs(
    moments: Sequence[datetime], *lines: Sequence[float]
) -> Iterator[tuple[list[datetime], list[list[float]]]]:
    """Yield stretches without a gap, each up to the end of its last hour."""
    known = [not isnan(value) for value in lines[-1]]
    for is_known, group in groupby(range(len(moments)), known.__getitem__):
        run = list(group)
        if is_known:
            edges = [*(moments[place] for place in run), moments[run[-1]] + timedelta(hours=1)]
            yield edges, [[*(line[place] for place in run), line[run[-1]]] for line in lines]


def _connections(by_hour: dict[datetime, Hour], at: datetime, name: str) -> float:
    return float(getattr(by_hour[at], name)) / HOUR_MS if at in by_hour else float("nan")


def _reasons(digest: Digest, moments: Sequence[datetime]) -> list[tuple[str, list[float]]]:
    """Return the greatest reasons with their connections by hour, and one for all the rest."""
    totals: dict[str, int] = defaultdict(int)
    held: dict[tuple[str, datetime], float] = defaultdict(float)
    for waste in digest.waste:
        totals[waste.reason] += waste.waste_ms
    named = totals.keys() - {OTHER}
    kept = sorted(named, key=lambda reason: (-totals[reason], reason))[:_BANDS]
    for waste in digest.waste:
        name = waste.reason if waste.reason in kept else "other waste"
        held[name, waste.at] += waste.waste_ms / HOUR_MS
    names = [*kept, "other waste"] if len(totals) > len(kept) else kept
    known = {hour.at for hour in digest.hours}
    return [
        (name, [held[name, at] if at in known else float("nan") for at in moments])
        for name in names
    ]


def _finish(canvas: Canvas, moments: Sequence[datetime]) -> None:
    canvas.grid("y")
    canvas.axes.set_xlim(moments[0], moments[-1] + timedelta(hours=1))
    locator = AutoDateLocator(minticks=2, maxticks=5 if canvas.narrow else 9)
    canvas.axes.xaxis.set_major_locator(locator)
    canvas.axes.xaxis.set_major_formatter(FuncFormatter(_moment))


def _moment(value: float, _: int | None) -> str:
    at = num2date(value)
    return f"{at:%H:%M}" if at.hour or at.minute else f"{at:%a %d %b}"
