"""What the parts of the page have in common: sections, tables, cells."""

from __future__ import annotations

__all__ = [
    "MOST_ROWS",
    "Document",
    "badge",
    "broker",
    "number",
    "rest",
    "section",
    "table",
    "whose",
]

from typing import TYPE_CHECKING, Any

from exporter.text import MISSING
from exporter.web.markup import Markup, element
from exporter.web.words import CLASS_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# For those without scripts; the rest is in the API.
MOST_ROWS = 100
_NUMBERS = frozenset(
    {
        "Held",
        "Expected",
        "Age",
        "Idle",
        "Unused",
        "Sent",
        "Received",
        "Clients",
        "Took",
        "Reads",
        "Errors",
    }
)

Document = dict[str, Any]


def section(name: str, title: str, *children: str) -> Markup:
    """Make a section."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def table(head: Sequence[str], rows: Iterable[Markup], **attributes: str | bool) -> Markup:
    """Make a table that scrolls by itself where it is too wide."""
    cells = [
        element("th", title, scope="col", class_="n" if title in _NUMBERS else None)
        for title in head
    ]
    table = element(
        "table", element("thead", element("tr", *cells)), element("tbody", *rows), **attributes
    )
    return element("div", table, class_="scroll")


def number(value: object, shown: str | None = None) -> Markup:
    """Make a cell that sorts by its number; what is missing sorts last and shows a dash."""
    missing = value is None
    return element(
        "td", MISSING if missing else (shown or str(value)), class_="n", data_sort=str(value or 0)
    )


def badge(name: str, words: str | None = None) -> Markup:
    """Make a badge: colour and words, for those who see one of them."""
    return element(
        "span", words or name.replace("_", " "), class_=f"badge {name}", title=CLASS_WORDS.get(name)
    )


def whose(each: Document) -> Markup:
    """Name a client by its id, else by its process."""
    kind = "" if each["client_kind"] == "unknown" else f"{each['client_kind']}, "
    if each["client_id"] is None:
        name = element("i", "no client id")
    else:
        name = element("b", each["client_id"])
    return element("td", name, element("small", f"{kind}{each['process']}"), class_="who")


def rest(total: int) -> Markup:
    """Say how many rows are left out."""
    if total <= MOST_ROWS:
        return Markup()
    return element("p", f"and {total - MOST_ROWS} more: see the API.", class_="quiet")


def broker(each: Document) -> Markup:
    """Name a broker by its id, where it is known, and its address."""
    name = each["broker"] if each["broker_id"] is None else f"broker {each['broker_id']}"
    place = Markup() if each["broker_id"] is None else element("small", each["broker"])
    return element("span", name, place, class_="who")
