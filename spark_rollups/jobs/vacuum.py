"""Keeps the tables' files few: each run leaves those that it replaced, and adds small ones."""

from __future__ import annotations

__all__ = ["TABLES", "optimize", "vacuum"]

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rollups.tables import Tables

TABLES: Final = (
    *("inputs", "silver", "quarantine", "hourly", "brokers", "daily", "coverage", "findings"),
    *("savings", "forecast"),
)


def optimize(tables: Tables, say: Callable[[str], None]) -> list[str]:
    """Compact every table of ours that is there; return their names."""
    done = []
    for name in _ours(tables):
        removed, added = tables.compact(name)
        say(f"{name}: {removed} files are {added} now")
        done.append(name)
    return done


def vacuum(tables: Tables, say: Callable[[str], None]) -> list[str]:
    """Vacuum every table of ours that is there, and no other; return their names."""
    done = []
    for name in _ours(tables):
        say(f"vacuuming {name}")
        tables.vacuum(name)
        done.append(name)
    return done


def _ours(tables: Tables) -> Iterator[str]:
    return filter(tables.exists, TABLES)
