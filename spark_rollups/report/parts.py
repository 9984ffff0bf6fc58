"""What the sections of the report have in common: a plot with the table behind it."""

from __future__ import annotations

__all__ = ["Figure", "Section", "number", "section", "table"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rollups.report.markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, on the page and as a file."""

    name: str
    svg: Markup
    png: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page, with the drawings in it."""

    html: Markup
    title: str
    name: str = ""
    figures: tuple[Figure, ...] = ()


def number(shown: str) -> Markup:
    """Make a cell whose figures stand under each other."""
    return element("td", shown, class_="n")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Markup:
    """Make a table; a head that ends in `#` is that of a column of numbers."""
    cells = [
        element("th", head.rstrip("#"), scope="col", class_="n" if head.endswith("#") else None)
        for head in heads
    ]
    body = []
    for row in rows:
        made = [
            cell
            if isinstance(cell, Markup) and cell.startswith("<td")
            else (number(cell) if head.endswith("#") else element("td", cell))
            for head, cell in zip(heads, row, strict=True)
        ]
        body.append(element("tr", *made))
    made_table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *cells)),
        element("tbody", *body),
    )
    return element(
        "div", made_table, class_="scroll", tabindex="0", role="group", aria_label=caption
    )


def section(
    name: str,
    title: str,
    says: str,
    *parts: Markup,
    figure: Figure | None = None,
    behind: Markup | None = None,
) -> Section:
    """Make a section: what it says, the drawing, and the figures behind the drawing."""
    inside: list[str] = [
        element("h2", title, id=f"{name}-title"),
        element("p", says, class_="says"),
    ]
    if figure is not None:
        inside.append(element("figure", figure.svg))
    inside += parts
    if behind is not None:
        inside.append(element("details", element("summary", "The figures behind it"), behind))
    html = element("section", *inside, id=name, aria_labelledby=f"{name}-title")
    return Section(html, title, name, (figure,) if figure else ())
