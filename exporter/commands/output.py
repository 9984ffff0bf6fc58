"""Where words go: data to standard output, talk to standard error, hostile names made harmless."""

from __future__ import annotations

__all__ = ["CONNECTION_COLUMNS", "console", "rendered", "say", "talk", "tsv"]

import os
import sys
from typing import TYPE_CHECKING

from exporter.text import LONGEST_VALUE, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, RenderableType

# Into a pipe or a file a table is written this wide: nothing is cut for a screen that is not there.
WIDE = 200
LONGEST_TALK = 2000

# Of --output tsv: what names a connection and says what it is, by their names in the API.
CONNECTION_COLUMNS = (
    "process",
    "pid",
    "client_kind",
    "client_id",
    "broker_id",
    "broker",
    "local",
    "remote",
    "class",
    "role",
    "confidence",
)


def say(text: str) -> None:
    """Write data to standard output.

    A reader that has seen enough (`| head`) is no error; what is left goes nowhere, and the exit
    code stays the one of the command.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _stop_writing()


def tsv(rows: Iterable[Sequence[object]], longest: int = LONGEST_VALUE) -> str:
    """Return rows as tab-separated values. What is unknown is empty; no value breaks a line."""
    return "".join(
        "\t".join("" if value is None else printable(str(value), longest) for value in row) + "\n"
        for row in rows
    )


def talk(text: str, *, prefix: str = "brokerwire: ") -> None:
    """Write one line for people to standard error."""
    try:
        sys.stderr.write(f"{prefix}{printable(text, LONGEST_TALK)}\n")
        sys.stderr.flush()
    except OSError:  # nobody is there to be told
        return


def console() -> Console:
    """Return a console for tables: coloured on a terminal, plain elsewhere and with NO_COLOR."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(
        file=sys.stdout, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False
    )


def rendered(screen: Console, what: RenderableType) -> str:
    """Return a table as text, without the spaces that fill its lines."""
    with screen.capture() as captured:
        screen.print(what)
    return "".join(f"{line.rstrip(' ')}\n" for line in captured.get().split("\n")[:-1])


def _stop_writing() -> None:
    """Send the rest nowhere: Python would complain again when it closes the stream."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
