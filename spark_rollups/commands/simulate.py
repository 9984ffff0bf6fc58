"""`brokerwire-rollups simulate`: a fleet to try the rollups on; it needs no Spark.

The simulator is no part of what is installed: it is there where this runs from a source checkout.
"""

from __future__ import annotations

__all__ = ["add_parser"]

import argparse
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from spark_rollups.errors import MissingPartError

if TYPE_CHECKING:
    from spark_rollups.commands.arguments import Commands

_SIMULATOR: Final = "fleet_simulator"
_WORDS: Final = "write journals of a fleet that does not exist, and their exact truth"


def add_parser(commands: Commands) -> None:
    """Add `simulate`, with the simulator's own arguments where there is one."""
    if find_spec(_SIMULATOR) is None:
        parser = commands.add_parser(
            "simulate",
            help=f"{_WORDS} (from a source checkout only)",
            add_help=False,
            prefix_chars="\0",
        )
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        parser.set_defaults(execute=_missing)
        return
    command = import_module(f"{_SIMULATOR}.command")
    parser = commands.add_parser("simulate", help=_WORDS, description=_WORDS)
    command.add_arguments(parser)
    parser.set_defaults(execute=command.run)


def _missing(_: argparse.Namespace) -> int:
    raise MissingPartError(
        "the fleet simulator is not installed with brokerwire: in a checkout of its source run"
        " 'python -m fleet_simulator' with the same arguments; it needs no packages"
    )
