"""The command line: `brokerwire-rollups COMMAND`, and how each of them ends.

Errors end here as one line each on standard error and an exit code:

0  done
1  a bug
2  the command line is wrong, or what it names: a path, brokers, offsets
3  something that Spark needs is missing
"""

from __future__ import annotations

__all__ = ["entry_point", "main"]

import argparse
import sys
import traceback
from typing import TYPE_CHECKING

from spark_rollups.commands import (
    batch,
    maintenance,
    package,
    refresh,
    report,
    retain,
    simulate,
    stream,
)
from spark_rollups.commands.arguments import talk
from spark_rollups.errors import MissingPartError, RollupsError, UsageError
from spark_rollups.mistakes import as_mistake, without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

BUG = 1
USAGE = 2
MISSING = 3
INTERRUPTED = 130

_COMMANDS = (simulate, batch, stream, refresh, maintenance, retain, report, package)


def entry_point() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.execute(options))
    except RollupsError as error:
        return _told(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- the last one: a bug must not look like success
        mistake = as_mistake(error, options)
        if mistake is not None:
            return _told(mistake)
        sys.stderr.write(without_secrets(traceback.format_exc(), options))
        talk(f"this is a bug, please report it: {type(error).__name__}")
        return BUG


def _told(error: RollupsError) -> int:
    talk(str(error))
    if isinstance(error, UsageError):
        return USAGE
    return MISSING if isinstance(error, MissingPartError) else BUG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="brokerwire-rollups",
        description="Adds up a whole fleet's journals: who wastes connections, and what to change.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser
