"""`brokerwire-rollups retain`: delete what the tables need not keep any longer."""

from __future__ import annotations

__all__ = ["add_parser"]

import argparse
import time

from spark_rollups.commands.arguments import (
    Commands,
    add_session_flags,
    add_tables_flag,
    open_tables,
    talk,
)
from spark_rollups.errors import UsageError

_LEAST_DAYS = 15
"""A day's forecast and its week-over-week look back on two weeks."""


def add_parser(commands: Commands) -> None:
    """Add `retain`."""
    parser = commands.add_parser(
        "retain",
        help="delete hours and days that are older than a number of days",
        description="Delete hours and days that are older than so many days. A table without its"
        " flag keeps everything. What is made from silver stays when silver goes, but records that"
        " come later than silver is kept change it no more. The files go with the next vacuum that"
        " runs a week later.",
    )
    for flag, words in (
        ("--silver", "of silver, the largest table"),
        ("--hourly", "of the tables by hour"),
        ("--daily", "of the tables by day"),
    ):
        parser.add_argument(flag, type=_days, metavar="DAYS", help=f"days to keep {words}")
    add_tables_flag(parser)
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    kept = {name: getattr(options, name) for name in ("silver", "hourly", "daily")}
    if not any(kept.values()):
        raise UsageError("say what to keep: --silver DAYS, --hourly DAYS or --daily DAYS")
    tables = open_tables(options)
    from spark_rollups.jobs.retention import retain

    if not retain(tables, now=int(time.time()) // 3600, **kept, say=talk):
        raise UsageError(f"no table of the rollups is below {options.tables}")
    return 0


def _days(text: str) -> int:
    if not text.isdecimal() or int(text) < _LEAST_DAYS:
        raise argparse.ArgumentTypeError(
            f"must be a number of days, {_LEAST_DAYS} or more, not {text!r}"
        )
    return int(text)
