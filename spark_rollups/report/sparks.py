"""Sparklines: a figure's course over the period, as small as a word, in the figure's own row."""

from __future__ import annotations

__all__ = ["spark"]

from itertools import groupby
from typing import TYPE_CHECKING

from spark_rollups.report.markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDE, _HIGH, _EDGE = 132, 30, 2


def spark(
    values: Sequence[float | None], label: str, *, marks: Sequence[tuple[str, float | None]] = ()
) -> Markup:
    """Draw values as a line with gaps where nothing is known, and marks as lines across.

    Each mark is the class of its line and its height.
    """
    if not any(value is not None for value in values):
        return Markup("")
    lines = [(kind, height) for kind, height in marks if height is not None]
    top = max([*(value for value in values if value is not None), *(h for _, h in lines), 1e-9])
    step = _WIDE / max(1, len(values) - 1)

    def height(value: float) -> str:
        return f"{_HIGH - _EDGE - value / top * (_HIGH - 2 * _EDGE):.1f}"

    drawn = [element("path", d=f"M0 {height(value)}H{_WIDE}", class_=kind) for kind, value in lines]
    places = enumerate(values)
    for known, group in groupby(places, key=lambda place: place[1] is not None):
        if known:
            run = [f"{at * step:.1f} {height(value or 0.0)}" for at, value in group]
            # A point by itself is a line to itself: its round ends are what is seen.
            drawn.append(element("path", d="M" + "L".join(run if len(run) > 1 else run * 2)))
    return element(
        "svg",
        element("title", label),
        *drawn,
        class_="spark",
        viewBox=f"0 0 {_WIDE} {_HIGH}",
        role="img",
        aria_label=label,
    )
