"""One screen of `brokerwire top`, from 80 columns up; names that others gave are made harmless."""

from __future__ import annotations

__all__ = ["Shown", "screen_of"]

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from exporter.commands.explain import paragraph
from exporter.commands.top_state import HELP, Line, State
from exporter.model import WASTED_CLASSES
from exporter.text import MISSING, count_words, duration, percent, printable, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from exporter.commands.answers import Document
    from exporter.commands.top_state import Group, Rates

_BLOCKS = " ▁▂▃▄▅▆▇█"
_MOST_ADVICE = 4
_LONGEST_NAME = 40
_LONGEST_LINE = 400
# Head, totals, two lines of history, the table's head, advice's head and the keys.
_FIXED_LINES = 8
_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_PASSING = frozenset({"bootstrap", "connecting", "probe", "unknown"})


@dataclass(slots=True)
class Shown:
    """What a screen is made of beside the state."""

    document: Document
    lines: Sequence[Line]
    rates: Rates = field(default_factory=dict)
    past: Sequence[tuple[int, int]] = ()
    """All and wasted connections of each look, the last one last."""


def screen_of(shown: Shown, state: State, width: int, height: int) -> RenderableType:
    """Return the whole screen: it has no more lines than there are."""
    if state.is_help:
        return Text("\n".join(f"{key:8}{words}" for key, words in HELP))
    if state.story:
        return _story(shown.document, state.story)
    advice = _advice(shown.document, width)
    room = max(3, height - _FIXED_LINES - len(advice))
    parts: list[RenderableType] = [
        _head(shown.document, state, width),
        _totals(shown.document),
        _past(shown.past, width),
        _table(shown, state, room, width),
        Text(f"RECOMMENDATIONS ({len(advice)})", style="bold"),
        *advice,
        _foot(state),
    ]
    return Lines(*parts)


def _head(document: Document, state: State, width: int) -> Text:
    time = str(document.get("time") or "")[11:19]
    now = "paused" if state.is_paused else "live"
    if document.get("stale"):
        now = "out of date"
    head = Text(
        f"brokerwire {printable(str(document.get('version') or ''), _LONGEST_NAME)}", "bold"
    )
    rest = f"{now}  {printable(time, _LONGEST_NAME)} UTC"
    head.append(rest.rjust(max(1, width - len(head))), style="not bold")
    head.truncate(width)
    return head


def _totals(document: Document) -> Text:
    summary = document["summary"]
    connections = document["connections"]
    wasted = sum(each.get("class") in WASTED_CLASSES for each in connections)
    up = sum(bool(each.get("up")) for each in document["sources"])
    text = Text(count_words(len(connections), "connection"), style="bold", no_wrap=True)
    text.append(f" ({summary.get('expected', MISSING)} expected)  ")
    text.append(f"{wasted} wasted", style="bold red" if wasted else "green")
    text.append(f"  {percent(summary.get('efficiency'))} efficient")
    if document["sources"]:
        text.append(f"  sources {up}/{len(document['sources'])}")
    return text


def _past(past: Sequence[tuple[int, int]], width: int) -> Text:
    """Draw what there was since the start, all above and the wasted ones below."""
    seen = past[-(width - 12) :]
    top = max((every for every, _ in seen), default=0) or 1
    rows = [
        "".join(_BLOCKS[round((len(_BLOCKS) - 1) * look[place] / top)] for look in seen)
        for place in (0, 1)
    ]
    text = Text(f"{'all':<7}{top:>4} ", style="dim", no_wrap=True)
    text.append(rows[0], style="not dim green")
    text.append(f"\n{'wasted':<12}")
    text.append(rows[1], style="not dim red")
    return text


def _table(shown: Shown, state: State, room: int, width: int) -> RenderableType:
    lines = shown.lines
    keys = [line.key for line in lines]
    place = keys.index(state.chosen) if state.chosen in keys else 0
    first = max(0, min(place - room // 2, len(lines) - room))
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True, width=width)
    table.add_column(f"{state.group.upper()}", ratio=1, no_wrap=True, overflow="ellipsis")
    for name, least in (("OPEN", 4), ("EXP", 3), ("WASTE", 5), ("OUT", 10), ("IN", 10)):
        table.add_column(name, justify="right", no_wrap=True, min_width=least)
    for line in lines[first : first + room]:
        style = "reverse" if line.key == state.chosen else ""
        cells = _group_cells(line.group, state, shown.rates)
        if line.record is not None:
            cells = _record_cells(line.record, state, shown.rates)
        table.add_row(*cells, style=style)
    if not lines:
        table.add_row(Text("no connection" + (f" with {state.words!r}" if state.words else "")))
    return table


def _group_cells(group: Group, state: State, rates: Rates) -> list[Text]:
    record = group.records[0]
    name = Text("▾ " if state.opened == group.key else "▸ ")
    name.append(_group_name(record, state), style="bold")
    name.append(f"  {_about(group, state)}", style="dim")
    held = len(group.records)
    return [
        name,
        Text(str(held)),
        Text(MISSING if group.expected is None else str(group.expected)),
        Text(str(group.wasted), style="red" if group.wasted else ""),
        *_rate_cells([str(each.get("cookie")) for each in group.records], rates),
    ]


def _group_name(record: Mapping[str, Any], state: State) -> str:
    if state.group == "broker":
        return _broker(record)
    name = record.get("client_id") if state.group == "client" else record.get("process")
    unknown = "no client id" if state.group == "client" else "unknown process"
    return printable(str(name or unknown), _LONGEST_NAME)


def _about(group: Group, state: State) -> str:
    record = group.records[0]
    if state.group == "client":
        return printable(str(record.get("process") or ""), _LONGEST_NAME)
    if state.group == "broker":
        return printable(str(record.get("broker") or ""), _LONGEST_NAME)
    pids = {each.get("pid") for each in group.records}
    return f"pid {record.get('pid')}" if len(pids) == 1 and None not in pids else ""


def _record_cells(record: Mapping[str, Any], state: State, rates: Rates) -> list[Text]:
    kind = str(record.get("class"))
    text = Text("  ")
    text.append(printable(kind.replace("_", " "), _LONGEST_NAME).ljust(12), style=_style(kind))
    other = str(record.get("process") or "") if state.group == "broker" else _broker(record)
    text.append(f" {printable(other, _LONGEST_NAME)}")
    if state.group != "client" and record.get("client_id"):
        text.append(f" {printable(str(record['client_id']), _LONGEST_NAME)}")
    if record.get("idle_seconds") is not None:
        text.append(f"  idle {duration(record['idle_seconds'])}", style="dim")
    return [text, *(Text() for _ in range(3)), *_rate_cells([str(record.get("cookie"))], rates)]


def _broker(record: Mapping[str, Any]) -> str:
    number = record.get("broker_id")
    name = f"broker {number}" if isinstance(number, int) else str(record.get("broker") or "?")
    return printable(name, _LONGEST_NAME)


def _rate_cells(cookies: Sequence[str], rates: Rates) -> list[Text]:
    known = [rates[cookie] for cookie in cookies if cookie in rates]
    if not known:
        return [Text(MISSING), Text(MISSING)]
    return [Text(f"{size(round(sum(each[place] for each in known)))}/s") for place in (0, 1)]


def _style(kind: str) -> str:
    if kind in WASTED_CLASSES:
        return "bold red"
    return "yellow" if kind in _PASSING else "green"


def _advice(document: Document, width: int) -> list[Text]:
    """Return one line for each cause: what, whose, what it saves."""
    wasted = {
        str(each.get("cookie"))
        for each in document["connections"]
        if each.get("class") in WASTED_CLASSES
    }
    kinds: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for finding in document["findings"]:
        kinds[str(finding.get("summary")), str(finding.get("remedy"))].append(finding)
    lines = []
    for (summary, remedy), members in list(kinds.items())[:_MOST_ADVICE]:
        style = _STYLES.get(str(members[0].get("severity")), "")
        line = Text("! ", style=style, no_wrap=True, overflow="ellipsis")
        saved = wasted & {str(cookie) for one in members for cookie in one.get("cookies") or ()}
        saves = f" (saves {len(saved)})" if saved else ""
        line.append(printable(summary + saves, _LONGEST_LINE), style="bold default")
        line.append(f" {printable(remedy, _LONGEST_LINE)}", style="default")
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return lines


def _story(document: Document, cookie: str) -> Text:
    for record in document["connections"]:
        if str(record.get("cookie")) == cookie:
            return Text(f"{paragraph(record)}\nany key: back")
    return Text("This connection is closed.\n\nany key: back")


def _foot(state: State) -> Text:
    if state.is_typing or state.words:
        cursor = "▏" if state.is_typing else "  (Esc: all)"
        return Text(f"/{printable(state.words, _LONGEST_NAME)}{cursor}", style="yellow")
    return Text("j k enter  / filter  g group  b brokers  p pause  ? help  q quit", style="dim")
