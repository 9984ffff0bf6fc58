"""`brokerwire-rollups batch`: journal files, or a range of a topic, into the tables."""

from __future__ import annotations

__all__ = ["add_parser"]

import argparse
import json

from spark_rollups.commands.arguments import (
    Commands,
    add_session_flags,
    add_tables_flag,
    open_tables,
    talk,
)
from spark_rollups.commands.kafka import add_kafka_flags, options_of
from spark_rollups.errors import UsageError

EPILOG = """\
examples:
  brokerwire-rollups batch --input /var/log/brokerwire --tables tables
  brokerwire-rollups batch --input '/mnt/journals/2026-11-*/' --tables /mnt/fleet/tables
  brokerwire-rollups batch --kafka kafka:9092 --topic brokerwire-journal --tables tables

Run it as often as you like: files that were read are left alone, only the hours that changed are
written, and what is read twice changes nothing. Of a topic it reads the whole range each time; for
what is new in it there is `stream --once --checkpoint DIR`."""


def add_parser(commands: Commands) -> None:
    """Add `batch`."""
    parser = commands.add_parser(
        "batch",
        help="bring the tables up to date once",
        description="Bring the tables up to date with what is new.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="DIR",
        help="folder, file or pattern of journal files; may be given several times; names that"
        " begin with . or _ are passed over",
    )
    add_kafka_flags(parser)
    parser.add_argument(
        "--from-offsets",
        type=_offsets,
        default="earliest",
        metavar="JSON",
        help='where to begin, as {"topic": {"0": 23, "1": -2}} (default: earliest)',
    )
    parser.add_argument(
        "--to-offsets",
        type=_offsets,
        default="latest",
        metavar="JSON",
        help="where to end (default: latest)",
    )
    add_tables_flag(parser)
    add_session_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    if bool(options.input) == bool(options.kafka):
        raise UsageError("give --input or --kafka, and not both")
    tables = open_tables(options)
    from spark_rollups.jobs.batch import batch_files, batch_kafka

    if options.kafka:
        ranged = {"startingOffsets": options.from_offsets, "endingOffsets": options.to_offsets}
        loads = batch_kafka(tables, options_of(options) | ranged, talk)
    else:
        loads = batch_files(tables, options.input, talk)
    if not loads:
        talk("nothing new")
    quarantined = sum(load.quarantined for load in loads)
    if quarantined:
        talk(f"{quarantined} texts could not be read: see {tables.path('quarantine')}")
    return 0


def _offsets(text: str) -> str:
    if text in {"earliest", "latest"}:
        return text
    try:
        topics = json.loads(text)
    except ValueError:
        topics = None
    partitions = list(topics.values()) if isinstance(topics, dict) else [None]
    offsets = [offset for each in partitions if isinstance(each, dict) for offset in each.values()]
    if not all(isinstance(each, dict) for each in partitions) or not all(
        type(offset) is int for offset in offsets
    ):
        raise argparse.ArgumentTypeError(
            f'must be earliest, latest or as {{"topic": {{"0": 23, "1": -2}}}}, not {text!r}'
        )
    return text
