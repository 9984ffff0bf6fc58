"""`brokerwire explain WHAT`: one connection or one client in words."""

from __future__ import annotations

__all__ = ["add_parser", "matching"]

from typing import TYPE_CHECKING, Any

from exporter.commands.arguments import Commands, add_look_flags
from exporter.commands.output import say
from exporter.errors import UsageError
from exporter.logs import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from exporter.commands.looking import Document

MOST_SHOWN = 50
LONGEST_LINE = 600

EPILOG = """\
examples:
  brokerwire explain orders-producer               every connection of a client, by its client.id
  brokerwire explain 10.0.0.7:45012                one connection, by its local address
  brokerwire explain 10.0.1.3:9092                 all connections to a broker
  brokerwire explain orders-producer --agent http://127.0.0.1:10920

It shows a connection's owner, its class with the evidence, what will close it and when, and which
setting to change."""


def add_parser(commands: Commands) -> None:
    """Add `explain`."""
    parser = commands.add_parser(
        "explain",
        help="say why a connection is there and what will close it",
        description="Explain connections: class, evidence, and what will close them.",
        epilog=EPILOG,
    )
    parser.add_argument("what", metavar="WHAT", help="a client.id, or a local or remote ip:port")
    add_look_flags(parser)
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    from exporter.commands.looking import look

    document = look(options)
    records = matching(document, options.what)
    if not records:
        raise UsageError(_nothing(document, options.what))
    say("\n".join(_paragraph(record) for record in records[:MOST_SHOWN]))
    if len(records) > MOST_SHOWN:
        say(f"\n... and {len(records) - MOST_SHOWN} more: name one by its local address\n")
    return 0


def matching(document: Document, what: str) -> list[Mapping[str, Any]]:
    """Return the connections of a client id, or those with an end at an address."""
    return [
        record
        for record in document["connections"]
        if what in {record.get("client_id"), record.get("local"), record.get("remote")}
    ]


def _nothing(document: Document, what: str) -> str:
    names = sorted({str(one["client_id"]) for one in document["connections"] if one["client_id"]})
    known = f"client ids seen: {', '.join(names[:10])}" if names else "no client id is known here"
    return f"no connection of or to {what!r}; {known}; `brokerwire inspect --each` lists all"


def _paragraph(record: Mapping[str, Any]) -> str:
    from exporter.commands.records import connection_from_record
    from exporter.core.explanations import explain

    connection = connection_from_record(record)
    told = explain(connection)
    owner = connection.owner
    who = owner.name or "unknown process"
    if owner.pid is not None:
        who += f" ({owner.pid})"
    if connection.client_id is not None:
        who += f", {connection.client_kind} {connection.client_id!r}"
    node = "" if connection.node_id is None else f", node {connection.node_id}"
    lines = [
        f"{connection.local} -> {connection.remote}",
        *_fields("owner", [f"{who}{node}"]),
        *_fields("class", [f"{connection.connection_class}: {told.meaning}"]),
        *_fields("evidence", told.evidence),
        *_fields("confidence", [f"{connection.confidence}{_twins(connection.equals)}"]),
        *_fields("closes", [told.closes]),
        *_fields("recommendation", [told.recommendation]),
    ]
    return "".join(f"{line}\n" for line in lines)


def _twins(equals: Sequence[str]) -> str:
    return f"; indistinguishable from {', '.join(equals[:5])}" if equals else ""


def _fields(name: str, values: Sequence[str]) -> list[str]:
    return [
        f"  {name + ':' if place == 0 else '':<16}{printable(value, LONGEST_LINE)}"
        for place, value in enumerate(values)
    ]
