"""Deletes what the tables no longer need: each run leaves the files that it replaced."""

from __future__ import annotations

__all__ = ["TABLES", "vacuum"]

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rollups.tables import Tables

TABLES: Final = (
    *("inputs", "silver", "quarantine", "hourly", "daily", "coverage", "findings"),
    *("top_wasters", "savings", "version_cohorts", "surge", "forecast", "week_over_week"),
)


def vacuum(tables: Tables, say: Callable[[str], None]) -> list[str]:
    """Vacuum every table of ours that is there, and no other; return their names."""
    done = []
    for name in TABLES:
        if tables.exists(name):
            say(f"vacuuming {name}")
            tables.vacuum(name)
            done.append(name)
    return done
