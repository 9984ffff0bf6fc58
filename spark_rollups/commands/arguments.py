"""Flags that several commands share, and where their words go."""

from __future__ import annotations

__all__ = ["Commands", "add_session_flags", "add_tables_flag", "open_tables", "talk"]

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from spark_rollups.tables import Tables

Commands = Any  # argparse keeps the type of its subparsers to itself


def add_tables_flag(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the tables."""
    parser.add_argument(
        "--tables", required=True, metavar="DIR", help="folder (or bucket) of the tables"
    )


def add_session_flags(parser: argparse.ArgumentParser) -> None:
    """Add what a local Spark needs to know; spark-submit has its own flags for it."""
    parser.add_argument(
        "--master", metavar="URL", help="Spark's master (default: local[*], or spark-submit's)"
    )
    parser.add_argument(
        "--memory", default="2g", metavar="SIZE", help="heap of a local Spark (default: 2g)"
    )


def open_tables(options: argparse.Namespace) -> Tables:
    """Start Spark and return the tables of the command line."""
    from spark_rollups.session import spark_session

    spark = spark_session("brokerwire-rollups", master=options.master, memory=options.memory)
    from spark_rollups.commands.progress import tell_of
    from spark_rollups.tables import Tables

    # On a terminal Spark draws a bar by itself.
    if spark.conf.get("spark.ui.showConsoleProgress", "false") != "true":
        tell_of(spark.sparkContext.statusTracker(), talk)
    return Tables(spark, options.tables)


def talk(line: str) -> None:
    """Say something to whoever waits; data goes to standard output."""
    print(f"brokerwire-rollups: {line}", file=sys.stderr, flush=True)  # noqa: T201
