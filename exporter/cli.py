"""The command line: `brokerwire COMMAND`, one module of `exporter.commands` for each command.

Errors end here as one line each on standard error and an exit code:

0  done
1  a bug
2  the command line or the configuration is wrong, or an address is taken
3  nothing could be read
4  `check`: a threshold is crossed
5  what was asked for is not there: `explain`, `--pid`, or a `check` that saw no connection
"""

from __future__ import annotations

__all__ = ["entry_point", "main", "parser"]

import sys
import traceback
from typing import TYPE_CHECKING

import exporter
from exporter.commands import (
    bundle,
    check,
    completion,
    config,
    demo,
    explain,
    history,
    inspect,
    rules,
    run,
    top,
)
from exporter.commands.arguments import Parser
from exporter.commands.output import talk
from exporter.errors import BrokerwireError, ConfigError, NotFoundError, SourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

BUG = 1
USAGE = 2
UNREADABLE = 3
NOT_FOUND = 5
INTERRUPTED = 130

DESCRIPTION = """\
Shows every TCP connection that Kafka clients on this host hold: what each one
is for, which are waste, why, and what to change."""

EPILOG = """\
first steps:
  brokerwire demo      see it work: clients that behave and clients that do not
  brokerwire inspect   look at this host's clients once
  brokerwire run       serve metrics and a page on port 10920

exit codes: 0 done, 1 a bug, 2 usage or configuration, 3 nothing readable,
  4 check failed, 5 nothing found"""


def entry_point() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        options = parser().parse_args(arguments)
        return int(options.execute(options))
    except ConfigError as error:
        for problem in error.problems:
            talk(str(problem), prefix="" if problem.line is not None else "brokerwire: ")
        return USAGE
    except UsageError as error:
        talk(str(error))
        return USAGE
    except NotFoundError as error:
        talk(str(error))
        return NOT_FOUND
    except SourceError as error:
        talk(str(error))
        return UNREADABLE
    except BrokerwireError as error:
        talk(str(error))
        return BUG
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- the last one: a bug must not look like success
        traceback.print_exc()
        talk(f"this is a bug, please report it: {type(error).__name__}: {error}")
        return BUG


def parser() -> Parser:
    """Return the parser of the whole command line."""
    root = Parser(prog="brokerwire", description=DESCRIPTION, epilog=EPILOG)
    version = f"brokerwire {exporter.__version__}"
    root.add_argument("--version", action="version", version=version)
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (run, demo, inspect, top, explain, history, bundle, check, config, rules):
        command.add_parser(commands)
    completion.add_parser(commands, root)
    return root
