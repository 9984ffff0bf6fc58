"""`brokerwire config check FILE` and `brokerwire config show`."""

from __future__ import annotations

__all__ = ["add_parser"]

from typing import TYPE_CHECKING

from exporter.commands.arguments import Commands, add_config_flags, settings_of
from exporter.commands.output import say
from exporter.config.files import read_settings
from exporter.config.text import yaml_from_settings
from exporter.text import printable

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  brokerwire config check brokerwire.yaml     every mistake with its line
  brokerwire config show --config brokerwire.yaml --log.level debug"""


def add_parser(commands: Commands) -> None:
    """Add `config` and its two subcommands."""
    parser = commands.add_parser(
        "config",
        help="check a configuration file, or show what is in force",
        description="Check a configuration file, or show what is in force.",
        epilog=EPILOG,
    )
    inner = parser.add_subparsers(metavar="check|show", required=True)
    check = inner.add_parser("check", help="name every mistake of a file with its line")
    check.add_argument("file", metavar="FILE")
    check.set_defaults(execute=_check)
    show = inner.add_parser("show", help="print the effective settings; they hold no secrets")
    add_config_flags(show)
    show.set_defaults(execute=_show)


def _check(options: argparse.Namespace) -> int:
    read_settings(options.file)
    say(f"{printable(options.file, 4096)}: ok\n")
    return 0


def _show(options: argparse.Namespace) -> int:
    say(yaml_from_settings(settings_of(options)))
    return 0
