"""`brokerwire-rollups optimize`: put the tables' small files together."""

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
    """Add `optimize`."""
    parser = commands.add_parser(
        "optimize",
        help="put the small files of the tables together",
        description="Put the small files of each table's partitions together. It may run beside"
        " everything else; the files that it replaces are deleted by vacuum, a week later.",
    )
    add_tables_flag(parser)
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    tables = open_tables(options)
    from spark_rollups.jobs.vacuum import optimize

    if not optimize(tables, talk):
        raise UsageError(f"no table of the rollups is below {options.tables}")
    return 0
