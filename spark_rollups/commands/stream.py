"""`brokerwire-rollups stream`: a topic into the tables, for as long as it runs."""

from __future__ import annotations

__all__ = ["add_parser"]

import argparse
import signal
from typing import Final

from spark_rollups.commands.arguments import (
    Commands,
    add_session_flags,
    add_tables_flag,
    open_tables,
    talk,
)
from spark_rollups.commands.kafka import add_kafka_flags, options_of
from spark_rollups.errors import UsageError

_LOOK_SECONDS: Final = 5


def add_parser(commands: Commands) -> None:
    """Add `stream`."""
    parser = commands.add_parser(
        "stream",
        help="keep the tables up to date with a topic",
        description="Keep the tables up to date with a topic, until SIGTERM or Ctrl-C.",
    )
    add_kafka_flags(parser)
    add_tables_flag(parser)
    parser.add_argument(
        "--checkpoint",
        required=True,
        metavar="DIR",
        help="where the query remembers its offsets; lost, it begins anew and all is the same",
    )
    parser.add_argument(
        "--every", default="1 minute", metavar="TIME", help="time between batches (1 minute)"
    )
    parser.add_argument(
        "--refresh-every",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="silver has each batch at once, the tables behind it after so long (300)",
    )
    parser.add_argument(
        "--once", action="store_true", help="take what is there since the last time, and end"
    )
    parser.add_argument(
        "--most-per-batch",
        type=int,
        default=5_000_000,
        metavar="N",
        help="most messages of one batch (default: 5000000)",
    )
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    if not options.kafka:
        raise UsageError("give the brokers: --kafka HOST:PORT")
    tables = open_tables(options)
    from spark_rollups.jobs.streaming import Stream

    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(options.most_per_batch)}
    stream = Stream(tables, options.checkpoint, talk, refresh_seconds=options.refresh_every)
    query = stream.run(options_of(options) | limits, every=None if options.once else options.every)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: query.stop())
    # Where no messages come there is no batch either: what is stale is made anew here.
    while not query.awaitTermination(_LOOK_SECONDS):
        stream.refresh_if_due()
    stream.refresh()
    return 0


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be seconds, not {text!r}")
    return value
