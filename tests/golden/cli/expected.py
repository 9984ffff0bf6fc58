"""What the command line prints: `python -m tests.golden.cli.expected` writes it anew.

Look at the difference before you commit it: a test only compares.
"""

from __future__ import annotations

import argparse
import io
import os
from pathlib import Path

from rich.console import Console

from exporter.cli import parser
from exporter.commands import explain
from exporter.commands.inspect import COLUMNS, report
from exporter.commands.output import WIDE, rendered, tsv
from exporter.web.document import connections_document
from tests.unit.snapshots import page_sample

HERE = Path(__file__).parent


def expected():
    """File name → text."""
    document = connections_document(page_sample())
    rows = ([one.get(name) for name in COLUMNS] for one in document["connections"])
    zombies = explain.matching(document, "zombie")
    return {
        "explain.tsv": tsv([explain.COLUMNS, *(explain.row(one) for one in zombies)], 600),
        "explain.txt": "\n".join(explain.paragraph(one) for one in zombies),
        "help.txt": "\n".join(helps(parser())),
        "inspect-80.txt": shown(document, 80),
        "inspect-piped.txt": shown(document, WIDE),
        "inspect.tsv": tsv([COLUMNS, *rows]),
    }


def shown(document, width):
    screen = Console(
        file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False, no_color=True
    )
    return rendered(screen, report(document, width=width))


def helps(of):
    """The help of every command, on a screen of 80 columns."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        yield of.format_help()
        for action in of._actions:
            if isinstance(action, argparse._SubParsersAction):
                for inner in action.choices.values():
                    yield from helps(inner)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


if __name__ == "__main__":
    for name, text in expected().items():
        (HERE / name).write_text(text, "utf-8")
