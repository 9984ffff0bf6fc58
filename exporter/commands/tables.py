"""The API's document as tables for people. Whatever it holds was written by others: made harmless.

Only what stands in the document is shown, so that a look and a running agent look the same.
"""

from __future__ import annotations

__all__ = ["connections_table", "findings_table", "summary_text"]

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from exporter.model import WASTED_CLASSES, ConnectionClass
from exporter.text import MISSING, count_words, duration, percent, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from exporter.commands.looking import Document

WIDE, MEDIUM, NARROW = 200, 110, 90
_LEAST_BROKER = 17
_FIGURES = {"HELD", "EXPECTED", "N", "IDLE", "UNUSED", "OUT", "IN"}
PASSING = frozenset({"bootstrap", "connecting", "probe", "unknown"})
_ORDER = {str(each): place for place, each in enumerate(ConnectionClass)}
_SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
LONGEST_NAME = 48
LONGEST_LINE = 400
MOST_EXAMPLES = 3


if TYPE_CHECKING:
    _Record = Mapping[str, Any]


class _Client(NamedTuple):
    process: str
    kind: str
    client_id: str


class _Row(NamedTuple):
    client: _Client
    broker: str
    connection_class: str
    role: str


def connections_table(document: Document, *, each: bool = False, width: int = WIDE) -> Group:
    """Return the connections by client and broker; with `each`, one line for every connection.

    On a narrow screen a client's name stands above its lines, on a very narrow one the byte
    counts are left out: they are in the JSON.
    """
    layout = _layout(width, each=each)
    is_narrow = "CLIENT" not in layout
    pids = _pids(document["connections"])
    pairs = {(_client_of(entry), str(entry.get("broker"))): entry for entry in document["expected"]}
    clients: dict[_Client, list[tuple[_Row, list[_Record]]]] = defaultdict(list)
    for row, members in sorted(_groups(document["connections"]).items(), key=_place):
        parted = [[one] for one in members] if each else [members]
        clients[row.client] += [(row, part) for part in parted]
    named: list[tuple[Text, list[dict[str, Text]]]] = []
    for client, lines in clients.items():
        name = _who(client, pids.get(client, ()))
        rows: list[dict[str, Text]] = []
        before = ""
        for row, members in lines:
            cells = _cells(row, members) | {"LOCAL": _local(members[0])}
            if before != row.broker:
                cells |= _pair_cells(row.broker, members[0], pairs.get((client, row.broker)))
                cells |= {} if before else {"CLIENT": name}
            before = row.broker
            rows.append(cells)
        named.append((name, rows))
    every = [cells for _, rows in named for cells in rows]
    if not is_narrow:
        return Group(_table(layout, every))
    widths = _widths(layout, every, width)
    parts: list[RenderableType] = [_table(layout, (), widths)]
    for name, rows in named:
        parts += [name, _table(layout, rows, widths, show_header=False)]
    return Group(*parts)


def _layout(width: int, *, each: bool) -> list[str]:
    columns = ["CLIENT", "BROKER", "HELD", "EXPECTED", "CLASS", "ROLE"]
    columns += ["LOCAL" if each else "N", "IDLE", "UNUSED", "OUT", "IN"]
    if width < MEDIUM:
        columns.remove("CLIENT")
    if width < NARROW:
        dropped = {"OUT", "IN", *(("HELD", "EXPECTED") if each else ())}
        columns = [column for column in columns if column not in dropped]
    return columns


def _table(
    layout: Sequence[str],
    rows: Iterable[Mapping[str, Text]],
    widths: Mapping[str, int] | None = None,
    *,
    show_header: bool = True,
) -> Table:
    table = Table(
        box=None, pad_edge=False, header_style="bold", expand=False, show_header=show_header
    )
    for name in layout:
        side: Literal["left", "right"] = "right" if name in _FIGURES else "left"
        width = None if widths is None else widths[name]
        table.add_column(name, justify=side, no_wrap=True, width=width)
    for cells in rows:
        table.add_row(*(cells.get(name, Text()) for name in layout))
    return table


def _widths(
    layout: Sequence[str], rows: Iterable[Mapping[str, Text]], width: int
) -> dict[str, int]:
    """Return one width for each column of all tables; a broker's name takes what is left."""
    widths = {name: len(name) for name in layout}
    for cells in rows:
        for name in layout:
            widths[name] = max(widths[name], cells.get(name, Text()).cell_len)
    others = sum(widths.values()) - widths["BROKER"] + 2 * (len(layout) - 1)
    widths["BROKER"] = max(_LEAST_BROKER, min(widths["BROKER"], width - others))
    return widths


def _groups(records: Iterable[_Record]) -> dict[_Row, list[_Record]]:
    groups: dict[_Row, list[_Record]] = defaultdict(list)
    for record in records:
        groups[_row_of(record)].append(record)
    return groups


def _who(client: _Client, pids: Sequence[int]) -> Text:
    pid = f" {pids[0]}" if len(pids) == 1 else f" x{len(pids)}" if pids else ""
    who = Text(printable(client.process or "?", LONGEST_NAME) + pid, style="bold")
    if client.client_id or client.kind != "unknown":
        kind = printable(client.kind, LONGEST_NAME)
        who.append(f" {kind} {printable(client.client_id, LONGEST_NAME)}", style="not bold")
    return who


def _pair_cells(broker: str, member: _Record, pair: _Record | None) -> dict[str, Text]:
    broker_id = member.get("broker_id")
    number = f"{broker_id} " if isinstance(broker_id, int) else ""
    held = pair.get("connections") if pair else None
    expected = pair.get("expected") if pair else None
    is_more = held is not None and expected is not None and held > expected
    return {
        "BROKER": Text(number + printable(broker, LONGEST_NAME)),
        "HELD": Text(_number(held), style="red" if is_more else ""),
        "EXPECTED": Text(_number(expected)),
    }


def _number(value: object) -> str:
    return MISSING if value is None else str(value)


def _local(member: _Record) -> Text:
    return Text(printable(str(member.get("local")), LONGEST_NAME))


def _cells(row: _Row, members: Sequence[_Record]) -> dict[str, Text]:
    idle = [one["idle_seconds"] for one in members if one.get("idle_seconds") is not None]
    role = "" if row.role == row.connection_class else printable(row.role, LONGEST_NAME)
    return {
        "CLASS": Text(
            printable(row.connection_class, LONGEST_NAME), style=_style(row.connection_class)
        ),
        "ROLE": Text(role),
        "N": Text(str(len(members))),
        "IDLE": Text(duration(max(idle, default=None))),
        "UNUSED": Text(_unused(members)),
        "OUT": Text(size(_sum(members, "outgoing_bytes"))),
        "IN": Text(size(_sum(members, "incoming_bytes"))),
    }


def _unused(members: Sequence[_Record]) -> str:
    """Say for how long one connection, or how many of several, have been unused since opening."""
    unused = [one["unused_seconds"] for one in members if one.get("unused_seconds") is not None]
    if len(members) == 1:
        return duration(unused[0]) if unused else ""
    return str(len(unused)) if unused else ""


def _sum(members: Iterable[_Record], name: str) -> int | None:
    values = [one[name] for one in members if isinstance(one.get(name), int)]
    return sum(values) if values else None


def _style(connection_class: str) -> str:
    if connection_class in WASTED_CLASSES:
        return "bold red"
    return "yellow" if connection_class in PASSING else "green"


def _client_of(record: _Record) -> _Client:
    return _Client(
        str(record.get("process") or ""),
        str(record.get("client_kind") or "unknown"),
        str(record.get("client_id") or ""),
    )


def _row_of(record: _Record) -> _Row:
    return _Row(
        _client_of(record),
        str(record.get("broker") or record.get("remote") or "?"),
        str(record.get("class")),
        str(record.get("role")),
    )


def _place(group: tuple[_Row, list[_Record]]) -> tuple[_Client, str, int, str]:
    row = group[0]
    return row.client, row.broker, _ORDER.get(row.connection_class, len(_ORDER)), row.role


def _pids(records: Iterable[_Record]) -> dict[_Client, list[int]]:
    pids: dict[_Client, set[int]] = defaultdict(set)
    for record in records:
        if isinstance(record.get("pid"), int):
            pids[_client_of(record)].add(record["pid"])
    return {client: sorted(numbers) for client, numbers in pids.items()}


def summary_text(document: Document) -> Text:
    """Return the one line that says whether there is anything to worry about."""
    summary = document["summary"]
    total = len(document["connections"])
    by_class = Counter(str(one.get("class")) for one in document["connections"])
    text = Text(count_words(total, "connection"), style="bold")
    if any(entry.get("expected") is not None for entry in document["expected"]):
        text.append(f", {_number(summary.get('expected'))} expected")
    unused = sum(one.get("unused_seconds") is not None for one in document["connections"])
    if unused:
        text.append(f", {unused} unused since they were opened", style="bold yellow")
    for name in sorted(by_class, key=lambda name: _ORDER.get(name, len(_ORDER))):
        text.append(", ")
        text.append(f"{by_class[name]} {printable(name, LONGEST_NAME)}", style=_style(name))
    known = total - by_class["unknown"] - by_class["connecting"]
    if known == total:
        text.append(f"; efficiency {percent(summary.get('efficiency'))}")
    elif known:
        # What became known this moment was unknown until now: no time to take a share of.
        useful = sum(bool(one.get("useful")) for one in document["connections"])
        text.append(f"; {useful} of {known} known in use")
    return text


def findings_table(document: Document) -> Table:
    """Return each kind of finding once, with its recommendation and some examples."""
    kinds: dict[str, list[_Record]] = defaultdict(list)
    for finding in document["findings"]:
        key = f"{finding.get('name')}/{finding.get('summary')}/{finding.get('remedy')}"
        kinds[key].append(finding)
    table = Table.grid(padding=(0, 2, 0, 0))
    for members in kinds.values():
        severity = str(members[0].get("severity"))
        text = Text(_line(members[0].get("summary")), style="bold")
        for member in members[:MOST_EXAMPLES]:
            text.append(f"\n{_line(member.get('description'))}", style="not bold")
        if len(members) > MOST_EXAMPLES:
            text.append(f"\nand {len(members) - MOST_EXAMPLES} more like this", style="not bold")
        text.append(f"\nRecommendation: {_line(members[0].get('remedy'))}", style="not bold green")
        table.add_row(
            Text(printable(severity, LONGEST_NAME), style=_SEVERITY_STYLES.get(severity, "")), text
        )
    return table


def _line(value: object) -> str:
    return printable(str(value or ""), LONGEST_LINE)
