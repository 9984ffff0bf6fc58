"""Look-up of nodes by a figure and by where they are known to be.

Pure.
"""

from __future__ import annotations

__all__ = ["MOST_PAIRS", "Index", "Key", "grouped"]

from collections import defaultdict
from typing import TYPE_CHECKING

from exporter.core.join_state import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exporter.core.join_state import Look, Row, SourceState

# Pairs that are followed for one socket. A figure that more nodes share tells nothing, and to
# follow some of them only would make a choice look certain that is none.
MOST_PAIRS = 128

Key = tuple[object, ...]


class Index:
    """Rows by a key, and under it by where they are known to be."""

    def __init__(self, state: SourceState) -> None:
        self._state = state
        self._rows: dict[Key, dict[object, list[Row]]] = defaultdict(lambda: defaultdict(list))

    def add(self, key: Key, row: Row) -> None:
        """Put a row under a key."""
        self._rows[key][self._place(row)].append(row)

    def _place(self, row: Row) -> object:
        return place_of(row, self._state.rows[row].node)

    def at(self, keys: Iterable[Key], look: Look, *, few: int | None = None) -> set[Row]:
        """Return the rows under some keys that may be at the socket's remote end, else all of them.

        Nothing where they are a crowd, unless a `few` of each key are all that is asked for.
        """
        found: set[Row] = set()
        for key in keys:
            places = self._rows.get(key, {})
            here = [
                rows for rows in places.values() if self._state.fit_of(rows[0], look.remote) >= 0
            ]
            for rows in here or places.values():
                found.update(rows[:few])
            if few is None and len(found) > MOST_PAIRS:
                return set()
        return found


def grouped(looks: Iterable[Look], key: Callable[[Look], float]) -> dict[float, list[Look]]:
    """Return the looks by a key, in the order given."""
    groups: dict[float, list[Look]] = defaultdict(list)
    for look in looks:
        groups[key(look)].append(look)
    return groups
