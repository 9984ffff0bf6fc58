"""`brokerwire-rollups refresh`: every table behind `silver` anew, and what was set aside."""

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
    parser.add_argument(
        "--quarantine",
        action="store_true",
        help="before that read again what was set aside: after an upgrade some of it is a record",
    )
    add_tables_flag(parser)
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    tables = open_tables(options)
    from spark_rollups.jobs.quarantine import read_again
    from spark_rollups.jobs.stale import StaleHours, catch_up

    if options.quarantine:
        read_again(tables, talk)
    stale = StaleHours(tables.spark, tables.root)
    catch_up(tables, stale, talk, also=tables.hours("silver"))
    return 0
