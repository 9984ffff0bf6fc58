"""`brokerwire-rollups vacuum`: delete the files that the tables no longer need."""

from __future__ import annotations

__all__ = ["add_parser"]

from typing import TYPE_CHECKING

from spark_rollups.commands.arguments import (
    Commands,
    add_session_flags,
    add_tables_flag,
    open_tables,
    talk,
)
from spark_rollups.errors import UsageError

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Commands) -> None:
    """Add `vacuum`."""
    parser = commands.add_parser(
        "vacuum",
        help="delete the files that the tables no longer need",
        description="Delete the files that were replaced more than seven days ago. Every run"
        " replaces files and leaves the old ones: do this once a week, at any time.",
    )
    add_tables_flag(parser)
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    tables = open_tables(options)
    from spark_rollups.jobs.vacuum import vacuum

    if not vacuum(tables, talk):
        raise UsageError(f"no table of the rollups is below {options.tables}")
    return 0
