"""`brokerwire-rollups optimize` and `vacuum`: fewer files, for every table that is there."""

from __future__ import annotations

__all__ = ["add_parser"]

from typing import TYPE_CHECKING, Final

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

_COMMANDS: Final = {
    "optimize": (
        "put the small files of the tables together",
        (
            "Put the small files of each table's partitions together. It may run beside everything"
            " else; the files that it replaces are deleted by vacuum, a week later."
        ),
    ),
    "vacuum": (
        "delete the files that the tables no longer need",
        (
            "Delete the files that were replaced more than seven days ago. Every run replaces files"
            " and leaves the old ones: do this once a week, at any time."
        ),
    ),
}


def add_parser(commands: Commands) -> None:
    """Add `optimize` and `vacuum`."""
    for name, (summary, description) in _COMMANDS.items():
        parser = commands.add_parser(name, help=summary, description=description)
        add_tables_flag(parser)
        add_session_flags(parser)
        parser.set_defaults(execute=_execute, job=name)


def _execute(options: argparse.Namespace) -> int:
    tables = open_tables(options)
    from spark_rollups.jobs import vacuum

    if not getattr(vacuum, options.job)(tables, talk):
        raise UsageError(f"no table of the rollups is below {options.tables}")
    return 0
