"""A drawing surface: matplotlib, told how our plots look, and its SVG made fit for a page.

The page decides on the colours: a drawing carries marks that become CSS variables, so the same
drawing is right on light and on dark paper. Letters stay letters, in the page's own font.
"""

from __future__ import annotations

__all__ = ["Canvas", "draw"]

import io
import re
import warnings
from functools import partial
from typing import TYPE_CHECKING
from unicodedata import east_asian_width
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.figure import Figure

from spark_rollups.report.markup import Markup

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

_SVG = "http://www.w3.org/2000/svg"
_LINK = "http://www.w3.org/1999/xlink"
ET.register_namespace("", _SVG)
ET.register_namespace("xlink", _LINK)

# Light values: those of the PNG files. The page's style sheet has both.
COLOURS = {
    "ink": "#1c2430", "quiet": "#5c6675", "line": "#dde2e9", "paper": "#ffffff",
    "accent": "#1f5fbf", "good": "#1e7d3c", "bad": "#c62828",
    "red": "#c62828", "orange": "#b25000", "amber": "#8a6500", "teal": "#0b7285",
    "violet": "#6d3fb5", "blue": "#1f5fbf", "grey": "#667080",
}  # fmt: skip
# No colour of ours: each stands for a variable until the drawing is finished.
_MARKS = {name: f"#fe{number:02x}ef" for number, name in enumerate(COLOURS)}
_BY_MARK = {mark: f"var(--{name})" for name, mark in _MARKS.items()}

_STYLE = {
    "svg.fonttype": "none",
    # Names are not formulas, whatever dollars they hold.
    "text.parse_math": False,
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 0.8,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.axisbelow": True,
    "lines.solid_capstyle": "round",
}
_WIDE, _NARROW = 8.6, 3.9
_DPI = 160


class Canvas:
    """One figure in the making: its axes, and what colours are called there."""

    def __init__(
        self, figure: Figure, axes: Axes, colours: dict[str, str], *, narrow: bool
    ) -> None:
        self.figure = figure
        self.axes = axes
        self.narrow = narrow
        self._colours = colours

    def colour(self, name: str) -> str:
        """Return a colour by its name in the style sheet."""
        return self._colours[name]

    def grid(self, axis: str) -> None:
        """Draw thin lines across."""
        self.axes.grid(visible=True, axis=axis, color=self.colour("line"), linewidth=0.8)

    @staticmethod
    def cut(name: str, columns: int = 36) -> str:
        """Cut a name to what fits beside a bar, or above it; some letters take two columns."""
        room = columns
        for place, letter in enumerate(name):
            room -= 2 if east_asian_width(letter) in {"W", "F"} else 1
            if room < 0:
                return f"{name[: max(place - 1, 0)]}…"
        return name


def draw(
    name: str, plot: Callable[[Canvas], None], heights: tuple[float, float], description: str
) -> tuple[Markup, Callable[[], bytes]]:
    """Draw a plot: as SVG for wide and narrow screens, and when called as PNG on light paper.

    `heights` are in inches on a wide and on a narrow screen. The description is what a screen
    reader says.
    """
    with warnings.catch_warnings():
        # The browser has letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        return _draw(name, plot, heights, description)


def _draw(
    name: str, plot: Callable[[Canvas], None], heights: tuple[float, float], description: str
) -> tuple[Markup, Callable[[], bytes]]:
    svgs = []
    sizes = ((_WIDE, heights[0], "wide"), (_NARROW, heights[1], "narrow"))
    for width, height, kind in sizes:
        with mpl.rc_context(_STYLE | {"svg.hashsalt": f"{name}-{kind}"}):
            figure = _drawn(plot, width, height, _MARKS)
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        svgs.append(_for_page(file.getvalue(), f"{name}-{kind}", kind, description))
    return Markup("".join(svgs)), partial(_picture, plot, heights[0])


def _picture(plot: Callable[[Canvas], None], height: float) -> bytes:
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        picture = io.BytesIO()
        _drawn(plot, _WIDE, height, COLOURS).savefig(
            picture, format="png", dpi=_DPI, facecolor=COLOURS["paper"]
        )
    return picture.getvalue()


def _drawn(
    plot: Callable[[Canvas], None], width: float, height: float, colours: dict[str, str]
) -> Figure:
    narrow = width == _NARROW
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.tick_params(colors=colours["quiet"], labelcolor=colours["ink"])
    axes.spines["bottom"].set_color(colours["line"])
    axes.patch.set_alpha(0)
    plot(Canvas(figure, axes, colours, narrow=narrow))
    return figure


def _for_page(svg: str, name: str, kind: str, description: str) -> str:
    """Take what only a file needs off, and make every id the page's own."""
    root = ET.fromstring(svg)  # noqa: S314 -- it was written a moment ago, by matplotlib
    for child in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(child)
    for key in ("width", "height"):
        root.attrib.pop(key, None)
    for node in root.iter():
        for key, value in list(node.attrib.items()):
            if key == "id":
                node.set(key, f"{name}-{value}")
            elif key == f"{{{_LINK}}}href" and value.startswith("#"):
                node.set(key, f"#{name}-{value[1:]}")
            else:
                node.set(key, _restyled(value, name))
    root.set("class", f"plot {kind}")
    root.set("role", "img")
    root.set("aria-label", description)
    return ET.tostring(root, encoding="unicode")


def _restyled(value: str, name: str) -> str:
    value = value.replace("url(#", f"url(#{name}-")
    return re.sub(r"#fe[0-9a-f]{2}ef", lambda mark: _BY_MARK.get(mark[0], mark[0]), value)
