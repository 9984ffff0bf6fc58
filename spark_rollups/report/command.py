"""`brokerwire-rollups report`: what the tables say, as a page, as pictures and as metrics."""

from __future__ import annotations

__all__ = ["add_arguments", "run"]

import argparse
import os
import re
import tempfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from spark_rollups.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rollups.tables import Tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this command takes, besides the tables."""
    parser.add_argument(
        "--days", type=_days, default=7, metavar="N", help="days of the charts over time (7)"
    )
    parser.add_argument(
        "--until",
        type=date.fromisoformat,
        metavar="YYYY-MM-DD",
        help="the last day to tell of (the last one there is)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page: one HTML file")
    parser.add_argument(
        "--png", type=Path, metavar="DIR", help="the main charts as pictures, in this folder"
    )
    parser.add_argument(
        "--runbooks",
        type=_runbooks,
        metavar="URL",
        help="where the page's runbooks are, such as https://wiki.example/{alert} (no links)",
    )
    parser.add_argument(
        "--openmetrics",
        type=Path,
        metavar="FILE",
        help="metrics of the fleet, for node_exporter's textfile folder",
    )
    parser.add_argument(
        "--push",
        type=_url,
        metavar="URL",
        help="a Pushgateway that gets these metrics, such as http://pushgateway:9091",
    )


def run(
    arguments: argparse.Namespace, tables: Callable[[], Tables], say: Callable[[str], None]
) -> int:
    """Write what was asked for; `tables` opens them, which takes some seconds."""
    if not (arguments.out or arguments.png or arguments.openmetrics or arguments.push):
        raise UsageError(
            "say what to write: --out FILE, --png DIR, --openmetrics FILE or --push URL"
        )
    opened = tables()
    from spark_rollups.report.reading import read_digest

    digest = read_digest(opened, days=arguments.days, until=arguments.until)
    if arguments.out:
        from spark_rollups.report.page import render

        page = render(digest, arguments.runbooks).encode("utf-8")
        _write(arguments.out, page)
        say(f"{arguments.out}: {len(page)} bytes")
    if arguments.png:
        from spark_rollups.report.pictures import draw

        pictures = dict(draw(digest))
        for name, picture in pictures.items():
            _write(arguments.png / f"{name}.png", picture)
        say(f"{arguments.png}: {len(pictures)} pictures")
    if arguments.openmetrics or arguments.push:
        from spark_rollups.report.openmetrics import render as render_metrics
        from spark_rollups.report.push import push

        metrics = render_metrics(digest)
        if arguments.openmetrics:
            _write(arguments.openmetrics, metrics.encode("utf-8"))
            say(f"{arguments.openmetrics}: metrics")
        if arguments.push:
            push(metrics, arguments.push)
            say(f"{arguments.push}: metrics")
    return 0


def _write(path: Path, content: bytes) -> None:
    """Put a file in place whole: who reads it meanwhile reads the old one.

    The name of the unfinished one does not end as the folders' readers expect (`*.prom`).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(unfinished).chmod(0o644)
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 400:  # noqa: PLR2004 -- more nobody can see
        raise argparse.ArgumentTypeError(f"must be a number of days from 1 to 400, not {text!r}")
    return int(text)


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^/\s@]+(/\S*)?", text):
        raise argparse.ArgumentTypeError(
            f"must be a URL such as http://pushgateway:9091, without a password, not {_named(text)}"
        )
    return text


def _runbooks(text: str) -> str:
    if not re.fullmatch(r"https?://[^/\s@{}]+/\S*", text) or "{alert}" not in text:
        raise argparse.ArgumentTypeError(
            "must be a URL with {alert} for the runbook's name, such as"
            f" https://wiki.example/{{alert}}, not {_named(text)}"
        )
    return text


def _named(text: str) -> str:
    """Repeat what was given, unless it could hold a password."""
    return "one with @" if "@" in text else repr(text)
