"""`brokerwire inspect`: one look at the clients of this host, for people or as JSON."""

from __future__ import annotations

__all__ = ["add_parser", "report"]

from typing import TYPE_CHECKING

from exporter.commands.arguments import Commands, add_look_flags, add_output_flags
from exporter.commands.output import CONNECTION_COLUMNS, console, rendered, say, tsv

if TYPE_CHECKING:
    import argparse

    from rich.console import Group

    from exporter.commands.looking import Document

EPILOG = """\
examples:
  brokerwire inspect                         all clients of this host
  brokerwire inspect --pid 4711 --for 10s    one process, after ten seconds
  brokerwire inspect --ports 19092 --each    one line for every connection
  brokerwire inspect --agent http://127.0.0.1:10920 --json | jq .summary
  brokerwire inspect --output tsv | cut -f 1,4,9    process, client id, class

HELD and EXPECTED count connections to one broker. A client `#2` is the second
one of its process, by what the kernel shows; its own id is known where its
metrics can be read (`sources` in the configuration). `brokerwire explain` takes
the names that are shown. Exit code 3: nothing could be read."""


# Of --output tsv, by their names in the API.
COLUMNS = (
    *CONNECTION_COLUMNS,
    "age_seconds",
    "idle_seconds",
    "unused_seconds",
    "outgoing_bytes",
    "incoming_bytes",
)


def add_parser(commands: Commands) -> None:
    """Add `inspect`."""
    parser = commands.add_parser(
        "inspect",
        help="look once and show what is there",
        description="Look at this host's Kafka clients once and show every connection's class.",
        epilog=EPILOG,
    )
    add_look_flags(parser)
    parser.add_argument("--each", action="store_true", help="one line for every connection")
    add_output_flags(parser, document="the API's document")
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    from exporter.commands.looking import look

    document = look(options)
    if options.output == "tsv":
        say(
            tsv(
                [COLUMNS, *([one.get(name) for name in COLUMNS] for one in document["connections"])]
            )
        )
    elif options.output == "json":
        from exporter.web.document import encode

        say(encode(document).decode())
    else:
        screen = console()
        say(rendered(screen, report(document, each=options.each, width=screen.width)))
    return 0


def report(document: Document, *, each: bool = False, width: int = 200) -> Group:
    """Return the whole answer: table, summary, what to change, and what is still unknown."""
    from rich.console import Group
    from rich.text import Text

    from exporter.commands.endings import clients_text, ending_text
    from exporter.commands.tables import connections_table, findings_table, summary_text

    parts: list[object] = []
    if document["connections"]:
        parts += [connections_table(document, each=each, width=width), Text()]
    else:
        parts.append(Text("No process of this host is connected to a broker's port."))
        parts.append(
            Text("Name other ports with --ports, or other processes in the configuration.")
        )
    if clients := clients_text(document):
        parts.append(clients)
    parts.append(summary_text(document))
    if document["findings"]:
        parts += [Text(), Text("Recommendations", style="bold"), findings_table(document)]
    if document["connections"] and (ending := ending_text(document)):
        parts += [Text(), ending] if document["findings"] else [ending]
    return Group(*parts)  # type: ignore[arg-type] # rich has no public name for "renderable"
