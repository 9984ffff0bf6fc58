"""`brokerwire-rollups simulate`: a fleet to try the rollups on; it needs no Spark."""

from __future__ import annotations

__all__ = ["add_parser"]

from typing import TYPE_CHECKING

from spark_rollups.simulate import command

if TYPE_CHECKING:
    from spark_rollups.commands.arguments import Commands


def add_parser(commands: Commands) -> None:
    """Add `simulate`."""
    words = "write journals of a fleet that does not exist, and their exact truth"
    parser = commands.add_parser("simulate", help=words, description=words)
    command.add_arguments(parser)
    parser.set_defaults(execute=command.run)
