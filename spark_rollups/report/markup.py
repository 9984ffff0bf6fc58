"""HTML that is escaped by construction: plain text becomes text nodes, whatever it says."""

from __future__ import annotations

__all__ = ["Markup", "element", "text"]

from html import escape

from spark_rollups.report.words import printable

_LONGEST = 2000
_VOID = frozenset({"meta", "link"})


class Markup(str):
    """HTML made here, not to be escaped again."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Make a text node."""
    return Markup(escape(printable(value, _LONGEST)))


def element(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """Make an element; a trailing underscore of an attribute is dropped, others become hyphens.

    True stands for an attribute without a value; None and False leave it out.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        shown = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {shown}")
        elif value not in {None, False}:
            parts.append(f' {shown}="{text(str(value))}"')
    parts.append(">")
    if name not in _VOID:
        parts += [child if isinstance(child, Markup) else text(child) for child in children]
        parts.append(f"</{name}>")
    return Markup("".join(parts))
