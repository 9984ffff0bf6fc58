"""A JSON schema without its descriptions, for what is recorded: nobody reads them there."""

from __future__ import annotations

__all__ = ["bare"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def bare(node: Any, finish: Callable[[dict[str, Any]], None] = lambda _: None) -> Any:
    """Return a copy without descriptions; `finish` may change each of its objects in place."""
    if isinstance(node, list):
        return [bare(child, finish) for child in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: bare(child, finish)
        for key, child in node.items()
        # A property that has this name is an object.
        if not (key == "description" and isinstance(child, str))
    }
    finish(made)
    return made
