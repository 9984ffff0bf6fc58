"""`brokerwire-rollups refresh`: every table behind `silver` anew, for all hours or some days."""

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

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Commands) -> None:
    """Add `refresh`."""
    parser = commands.add_parser(
        "refresh",
        help="make all tables anew from silver",
        description="Make every table behind silver anew, as after an upgrade that adds columns.",
    )
    add_tables_flag(parser)
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    tables = open_tables(options)
    from spark_rollups.jobs.refresh import refresh

    refresh(tables, tables.hours("silver"), talk)
    return 0
