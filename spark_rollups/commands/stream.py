"""`brokerwire-rollups stream`: a topic into the tables, for as long as it runs."""

from __future__ import annotations

__all__ = ["add_parser"]

import argparse
import re
from typing import TYPE_CHECKING, Final

from spark_rollups.commands.arguments import (
    Commands,
    add_session_flags,
    add_tables_flag,
    open_tables,
    talk,
)
from spark_rollups.commands.kafka import add_kafka_flags, options_of
from spark_rollups.commands.stopping import StopSignals
from spark_rollups.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from spark_rollups.jobs.streaming import Stream

_LOOK_SECONDS: Final = 1.0
_TIME: Final = re.compile(r"\d+ *(millisecond|second|minute|hour|day)s?")


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
        "--every",
        type=_time,
        default="1 minute",
        metavar="TIME",
        help="time between batches, such as '30 seconds' (default: 1 minute)",
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
    with StopSignals() as signals:
        settings = options_of(options) | limits
        query = stream.run(settings, every=None if options.once else options.every)
        follow(stream, query, signals, talk)
    return 0


def follow(
    stream: Stream, query: StreamingQuery, signals: StopSignals, say: Callable[[str], None]
) -> None:
    """Stay with a query until it ends or a signal comes, and leave no table behind `silver`.

    A batch that a signal interrupts is taken again by the next run.
    """
    while query.isActive and not signals.wait(_LOOK_SECONDS):
        # Where no messages come there is no batch either: what is stale is made anew here.
        stream.refresh_if_due()
    if signals.told:
        say(f"{signals.told}: stopping; the next run goes on from here")
        query.stop()
    query.awaitTermination()
    stream.refresh()


def _time(text: str) -> str:
    if not _TIME.fullmatch(text.strip()):
        raise argparse.ArgumentTypeError(f"must be a time such as '30 seconds', not {text!r}")
    return text.strip()


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be seconds, not {text!r}")
    return value
