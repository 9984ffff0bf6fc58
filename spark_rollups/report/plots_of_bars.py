"""Plots that compare: reasons, fixes, brokers, versions, restarts and weeks."""

from __future__ import annotations

__all__ = ["bar_heights", "plot_bars", "plot_brokers", "plot_changes", "plot_surges"]

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, MaxNLocator

from spark_rollups.report.words import amount, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rollups.report.canvas import Canvas
    from spark_rollups.report.digest import BrokerLoad

_BAR, _NARROW_BAR = 0.62, 0.36
# Room at the right of the longest bar for its figure.
_ROOM = 1.18


def plot_bars(canvas: Canvas, bars: Sequence[tuple[str, float, str, str]]) -> None:
    """Draw bars from the top: name, value, what is written beside it, colour."""
    places = range(len(bars))
    canvas.axes.barh(
        places,
        [value for _, value, _, _ in bars],
        height=_height(canvas),
        color=[canvas.colour(colour) for *_, colour in bars],
    )
    greatest = max((value for _, value, _, _ in bars), default=1) or 1
    for place, (_, value, label, _) in enumerate(bars):
        canvas.axes.text(
            value + greatest * 0.015, place, label, va="center", color=canvas.colour("ink")
        )
    _names(canvas, [name for name, *_ in bars])
    canvas.axes.set_xlim(0, greatest * (1.45 if canvas.narrow else _ROOM))
    canvas.axes.set_xticks([])
    canvas.axes.spines["bottom"].set_visible(False)


def plot_brokers(canvas: Canvas, brokers: Sequence[tuple[str, BrokerLoad]]) -> None:
    """Draw each broker's peak as a bar, what a restart of all would make it, and its limit."""
    ink, axes = canvas.colour("ink"), canvas.axes
    for place, (_, load) in enumerate(brokers):
        full = (load.worst_share or 0) > 1
        colour = canvas.colour("bad" if full else "accent")
        bar = _height(canvas)
        axes.barh(place, load.forecast_peak or 0, height=bar, color=colour, alpha=0.28)
        axes.barh(place, load.peak or 0, height=bar * 0.55, color=colour)
        if load.max_connections:
            ends = [place - bar * 0.68, place + bar * 0.68]
            axes.plot([load.max_connections] * 2, ends, color=ink, linewidth=2.2)
    greatest = max(
        max(load.forecast_peak or 0, load.peak or 0, load.max_connections or 0)
        for _, load in brokers
    )
    for place, (_, load) in enumerate(brokers):
        share = load.worst_share
        label = percent(share) if share is not None else "no limit known"
        end = max(load.forecast_peak or 0, load.peak or 0, load.max_connections or 0)
        colour = canvas.colour("bad") if (share or 0) > 1 else canvas.colour("ink")
        axes.text(end + greatest * 0.02, place, label, va="center", color=colour)
    _names(canvas, [name for name, _ in brokers])
    axes.set_xlim(0, greatest * (1.5 if canvas.narrow else 1.2))
    axes.xaxis.set_major_locator(MaxNLocator(3 if canvas.narrow else 6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    canvas.grid("x")


def plot_surges(canvas: Canvas, surges: Sequence[tuple[str, float, float]]) -> None:
    """Draw a line from what is usual to the peak: name, steady, peak."""
    for place, (_, steady, peak) in enumerate(surges):
        canvas.axes.plot(
            [steady, peak], [place, place], color=canvas.colour("orange"), linewidth=3, alpha=0.45
        )
        canvas.axes.plot([steady], [place], "o", color=canvas.colour("good"), markersize=7)
        canvas.axes.plot([peak], [place], "o", color=canvas.colour("orange"), markersize=7)
    greatest = max(peak for *_, peak in surges)
    for place, (_, _, peak) in enumerate(surges):
        canvas.axes.text(
            peak + greatest * 0.03, place, amount(peak), va="center", color=canvas.colour("ink")
        )
    _names(canvas, [name for name, *_ in surges])
    canvas.axes.set_xlim(0, greatest * _ROOM)
    canvas.axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    canvas.grid("x")


def plot_changes(canvas: Canvas, changes: Sequence[tuple[str, float, float]]) -> None:
    """Draw an arrow from last week's share to this week's: green where it rose."""
    for place, (_, before, now) in enumerate(changes):
        colour = canvas.colour("good" if now >= before else "bad")
        canvas.axes.annotate(
            "",
            xy=(now, place),
            xytext=(before, place),
            arrowprops={
                "arrowstyle": "-|>",
                "color": colour,
                "lw": 2.4,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        canvas.axes.plot([before], [place], "o", color=canvas.colour("grey"), markersize=5)
        left = now < before
        canvas.axes.text(
            now + (-0.02 if left else 0.02), place, percent(now), va="center",
            ha="right" if left else "left", color=canvas.colour("ink"),
        )  # fmt: skip
    _names(canvas, [name for name, *_ in changes])
    canvas.axes.set_xlim(0, 1.1)
    canvas.axes.set_xticks([0, 0.5, 1] if canvas.narrow else [0, 0.25, 0.5, 0.75, 1])
    canvas.axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
    canvas.grid("x")


def bar_heights(count: int) -> tuple[float, float]:
    """Return how high a plot of so many bars is, on a wide and on a narrow screen."""
    return 0.5 + 0.34 * count, 0.5 + 0.5 * count


def _height(canvas: Canvas) -> float:
    return _NARROW_BAR if canvas.narrow else _BAR


def _names(canvas: Canvas, names: Sequence[str]) -> None:
    """Write the names beside the bars, or above them where there is no room."""
    if not canvas.narrow:
        canvas.axes.set_yticks(range(len(names)), [canvas.cut(name) for name in names])
        canvas.axes.set_ylim(len(names) - 0.4, -0.6)
        return
    canvas.axes.set_yticks([])
    for place, name in enumerate(names):
        above = canvas.axes.text(
            0.01, place - 0.38, canvas.cut(name), va="bottom", color=canvas.colour("ink"),
            transform=canvas.axes.get_yaxis_transform(),
        )  # fmt: skip
        above.set_in_layout(False)
    canvas.axes.set_ylim(len(names) - 0.55, -0.95)
