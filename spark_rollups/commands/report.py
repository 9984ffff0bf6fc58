"""`brokerwire-rollups report`: what the tables say, as a page, as pictures and as metrics."""

from __future__ import annotations

__all__ = ["add_parser"]

import argparse
from functools import partial

from spark_rollups.commands.arguments import (
    Commands,
    add_session_flags,
    add_tables_flag,
    open_tables,
    talk,
)
from spark_rollups.report import command

EPILOG = """\
examples:
  brokerwire-rollups report --tables tables --out report.html
  brokerwire-rollups report --tables tables --openmetrics /var/lib/node_exporter/fleet.prom
  brokerwire-rollups report --tables tables --push http://pushgateway:9091
  brokerwire-rollups report --tables tables --days 28 --until 2026-03-31 --out march.html"""


def add_parser(commands: Commands) -> None:
    """Add `report`."""
    parser = commands.add_parser(
        "report",
        help="write what the tables say: a page, pictures, metrics",
        description="Write what the tables say, for people and for Prometheus.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_tables_flag(parser)
    command.add_arguments(parser)
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    return command.run(options, partial(open_tables, options), talk)
