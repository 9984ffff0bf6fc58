"""`brokerwire history`: what happened to connections lately, as a running agent remembers it."""

from __future__ import annotations

__all__ = ["add_parser", "event_lines"]

import json
from typing import TYPE_CHECKING, Any

from exporter.commands.answers import json_from_answer
from exporter.commands.arguments import add_output_flags
from exporter.commands.output import say, tsv
from exporter.errors import SourceDecodeError
from exporter.text import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from exporter.commands.arguments import Commands

DEFAULT_AGENT = "http://127.0.0.1:10920"
EVENTS_PATH = "/api/v1/events"
_LONGEST_NAME = 48
_LONGEST_LINE = 400

# Of --output tsv, by their names in the API.
COLUMNS = (
    "time",
    "event",
    "process",
    "client_kind",
    "client_id",
    "broker_id",
    "broker",
    "local",
    "class_before",
    "class",
    "detail",
)

EPILOG = """\
examples:
  brokerwire history                   of the agent on this host
  brokerwire history orders zombie     only lines with both words
  brokerwire history --output tsv | cut -f 1-3,10
  brokerwire history --agent http://127.0.0.1:10920 --json | jq '.events[-1]'

The agent keeps the last 1000 events in memory. Times are UTC."""


def add_parser(commands: Commands) -> None:
    """Add `history`."""
    parser = commands.add_parser(
        "history",
        help="show what opened, closed and changed class",
        description="Show what happened to connections lately, as a running agent remembers it.",
        epilog=EPILOG,
    )
    parser.add_argument("words", metavar="WORD", nargs="*", help="show only lines with each word")
    parser.add_argument(
        "--agent", metavar="URL", default=DEFAULT_AGENT, help=f"the agent (default {DEFAULT_AGENT})"
    )
    add_output_flags(parser, document="the API's document")
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    from exporter.commands.looking import ANSWER_SECONDS, LARGEST_ANSWER
    from exporter.http.fetch import fetch

    response = fetch(
        options.agent.rstrip("/") + EVENTS_PATH,
        timeout_seconds=ANSWER_SECONDS,
        max_bytes=LARGEST_ANSWER,
    )
    document = json_from_answer(response.body, response.where)
    events = document.get("events")
    if not isinstance(events, list) or not all(isinstance(each, dict) for each in events):
        raise SourceDecodeError(f"{response.where} is not the API of a brokerwire agent")
    if options.output == "json":
        say(json.dumps(document) + "\n")
        return 0
    shown = [
        (each, line)
        for each, line in zip(events, event_lines(events), strict=True)
        if all(word in line for word in options.words)
    ]
    if options.output == "tsv":
        say(tsv([COLUMNS, *([each.get(name) for name in COLUMNS] for each, _ in shown)]))
    else:
        say("".join(f"{line}\n" for _, line in shown))
    return 0


def event_lines(events: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Give a line for each event: when, what, whose, where to, and why."""
    for each in events:
        kind, before, after = (
            str(each.get(name) or "").replace("_", " ")
            for name in ("event", "class_before", "class")
        )
        change = f"{before} -> {after}" if kind == "class" else f"{kind} {after or before}".strip()
        words = (
            str(each.get("time"))[:19].replace("T", " "),
            printable(change, _LONGEST_NAME).ljust(24),
            printable(str(each.get("process") or "unknown process"), _LONGEST_NAME),
            printable(str(each.get("client_id") or ""), _LONGEST_NAME),
            printable(f"{each.get('local')} -> {each.get('broker')}", 2 * _LONGEST_NAME),
            f"({printable(str(each['detail']), _LONGEST_LINE)})" if each.get("detail") else "",
        )
        yield printable(" ".join(word for word in words if word), 2 * _LONGEST_LINE)
