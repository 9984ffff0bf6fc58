"""`brokerwire explain WHAT`: one connection or one client in words."""

from __future__ import annotations

__all__ = ["COLUMNS", "add_parser", "explained", "matching", "paragraph", "row"]

from typing import TYPE_CHECKING, Any

from exporter.commands.arguments import Commands, add_look_flags, add_output_flags
from exporter.commands.output import CONNECTION_COLUMNS, say, tsv
from exporter.errors import NotFoundError
from exporter.text import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from exporter.commands.looking import Document
    from exporter.findings.explanations import Explanation

MOST_SHOWN = 50
LONGEST_LINE = 600
# Of --output tsv; the last four are what `explain` says of the connection.
COLUMNS = (
    *CONNECTION_COLUMNS,
    "meaning",
    "evidence",
    "closes",
    "recommendation",
)
_NAMES = ("client_id", "process", "pid", "broker", "client_kind", "class", "role")

EPILOG = """\
examples:
  brokerwire explain orders-producer           a client, by its client.id
  brokerwire explain java                      a process, by its name or pid
  brokerwire explain 'java 4711 producer #2'   a client as `inspect` shows it
  brokerwire explain 10.0.0.7:45012            one connection, by its address
  brokerwire explain 10.0.1.3:9092             all connections to a broker
  brokerwire explain orders zombie             one class of a process
  brokerwire explain orders-producer --agent http://127.0.0.1:10920
  brokerwire explain zombie --output tsv | cut -f 1,7,14    what will close it

It shows each connection's owner, its class with the evidence, what will close
it and when, and which setting to change. Of several words each must fit.
Exit code 5: there is no such connection."""


def add_parser(commands: Commands) -> None:
    """Add `explain`."""
    parser = commands.add_parser(
        "explain",
        help="say why a connection is there and what will close it",
        description="Explain connections: class, evidence, and what will close them.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        nargs="+",
        help="a client.id or '#2', a process's name or pid, a local or a broker's address,"
        " a kind of client, a class, a role",
    )
    add_look_flags(parser)
    add_output_flags(parser, document="the API's connections, explained")
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    from exporter.commands.looking import look

    document = look(options)
    what = " ".join(options.what)
    records = matching(document, what)
    if not records:
        raise NotFoundError(_nothing(document, what))
    if options.output == "tsv":
        say(tsv([COLUMNS, *(row(record) for record in records)], LONGEST_LINE))
        return 0
    if options.output == "json":
        from exporter.web.document import encode

        say(encode({"connections": [explained(record) for record in records]}).decode())
        return 0
    say("\n".join(paragraph(record) for record in records[:MOST_SHOWN]))
    if len(records) > MOST_SHOWN:
        say(f"\n... and {len(records) - MOST_SHOWN} more: name one by its local address\n")
    return 0


def matching(document: Document, what: str) -> list[Mapping[str, Any]]:
    """Return the connections that `what` names as a whole, else those that fit each of its words.

    A client id may hold spaces; `java 4711 producer #2` is four words.
    """
    records: list[Mapping[str, Any]] = document["connections"]
    if whole := [record for record in records if what in _names(record)]:
        return whole
    words = set(what.split())
    return [record for record in records if words and words <= _names(record)]


def _names(record: Mapping[str, Any]) -> set[str]:
    """Return what other commands, the page and the metrics call a connection."""
    local, remote = str(record.get("local")), str(record.get("remote"))
    names = {local, remote, *(_host(address) for address in (local, remote))}
    names |= {str(record[key]) for key in _NAMES if record.get(key)}
    if record.get("client_number") is not None:
        names.add(f"#{record['client_number']}")
    return names


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _nothing(document: Document, what: str) -> str:
    seen = [
        f"{noun} seen: {', '.join(names[:10])}"
        for key, noun in (("process", "processes"), ("client_id", "client ids"))
        if (names := sorted({str(one[key]) for one in document["connections"] if one.get(key)}))
    ]
    if not seen and not document["connections"]:
        return f"no connection of or to {what!r}: none was seen; watch other ports with --ports"
    known = "".join(f"; {each}" for each in seen)
    return f"no connection of or to {what!r}{known}; `brokerwire inspect --each` lists all"


def explained(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connection of the API's document with its explanation."""
    told = _explanation(record)
    return {
        **record,
        "meaning": told.meaning,
        "evidence": list(told.evidence),
        "closes": told.closes,
        "recommendation": told.recommendation,
    }


def row(record: Mapping[str, Any]) -> list[object]:
    """Return the values of `COLUMNS`; the lines of the evidence are one value."""
    values = explained(record)
    values["evidence"] = "; ".join(values["evidence"])
    return [values[name] for name in COLUMNS]


def _explanation(record: Mapping[str, Any]) -> Explanation:
    from exporter.commands.records import connection_from_record
    from exporter.findings.explanations import explain

    return explain(connection_from_record(record))


def paragraph(record: Mapping[str, Any]) -> str:
    """Tell the story of one connection."""
    told = _explanation(record)
    connection = told.connection
    owner = connection.owner
    who = owner.name or "unknown process"
    if owner.pid is not None:
        who += f" ({owner.pid})"
    if connection.client_id is not None:
        who += f", {connection.client_kind} {connection.client_id!r}"
    node = "" if connection.node_id is None else f", node {connection.node_id}"
    lines = [
        printable(f"{connection.local} -> {connection.remote}", LONGEST_LINE),
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
