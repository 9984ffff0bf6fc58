"""HTML that is escaped by construction: plain text becomes text nodes, whatever it says."""

from __future__ import annotations

__all__ = ["Markup", "element", "text"]

from exporter.metrics.labels import safe_label

# A name longer than this is cut; it still is told from others by the digits at its end.
_LONGEST = 512
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "`": "&#96;"}
)
_VOID = frozenset({"input", "link", "meta"})


class Markup(str):
    """HTML made by `element`, not to be escaped again."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Make a text node; what is invisible is shown as an escape."""
    return Markup(safe_label(value, _LONGEST).translate(_ESCAPES))


def element(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """Make an element.

    A trailing underscore is dropped from an attribute's name (`class_`), others become hyphens.
    True stands for an attribute without a value; None and False leave it out.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        shown = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {shown}")
        elif value not in (None, False):
            parts.append(f' {shown}="{text(str(value))}"')
    parts.append(">")
    if name not in _VOID:
        parts += [child if isinstance(child, Markup) else text(child) for child in children]
        parts.append(f"</{name}>")
    return Markup("".join(parts))
