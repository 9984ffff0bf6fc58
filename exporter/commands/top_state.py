"""What `brokerwire top` shows of a document, and what a key changes: the page's table and keys.

Pure.
"""

from __future__ import annotations

__all__ = ["GROUPS", "HELP", "Group", "Line", "State", "lines_of", "press", "rates_between"]

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from exporter.model import WASTED_CLASSES, ConnectionClass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from exporter.commands.answers import Document

    Record = Mapping[str, Any]

HELP = (
    ("j k", "next and previous line"),
    ("enter", "open a group, or the story of a connection"),
    ("/", "filter; enter keeps it, Esc drops it"),
    ("g", "next grouping"),
    ("b", "group by broker"),
    ("p", "pause or go on"),
    ("q", "quit"),
)
_SEARCHED = ("process", "pid", "client_id", "client_kind", "library", "class", "role", "broker")
_LONGEST_FILTER = 80
_ORDER = {str(each): place for place, each in enumerate(ConnectionClass)}

Rates = dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class State:
    """What is looked at: the same as in the address of the page."""

    group: str = "process"
    chosen: str = ""
    opened: str = ""
    story: str = ""
    words: str = ""
    is_typing: bool = False
    is_paused: bool = False
    is_help: bool = False
    is_over: bool = False


@dataclass(slots=True)
class Group:
    """Connections of one process, client or broker."""

    key: str
    records: list[Record] = field(default_factory=list)
    wasted: int = 0
    expected: int | None = None


class Line(NamedTuple):
    """One line of the table: a group, or one of its connections."""

    key: str
    group: Group
    record: Record | None = None


def _client(record: Record) -> str:
    names = (record.get("client_id"), record.get("client_kind"), record.get("process"))
    return "/".join(str(name or "") for name in names)


GROUPS: dict[str, Callable[[Record], str]] = {
    "process": lambda record: str(record.get("process") or ""),
    "client": _client,
    "broker": lambda record: str(record.get("broker") or ""),
}


def lines_of(document: Document, state: State) -> list[Line]:
    """Return the table: groups with the most waste first, and what is open of them."""
    key_of = GROUPS[state.group]
    groups: dict[str, Group] = {}
    words = state.words.lower().split()
    for record in document["connections"]:
        text = " ".join(str(record.get(name) or "") for name in (*_SEARCHED, "local")).lower()
        if all(word in text for word in words):
            group = groups.setdefault(key_of(record), Group(key_of(record)))
            group.records.append(record)
            group.wasted += record.get("class") in WASTED_CLASSES
    for pair in document["expected"]:
        # With a filter the rest is not counted, and there is nothing to compare with.
        known = groups.get(key_of(pair)) if not words else None
        if known is not None and pair.get("expected") is not None:
            known.expected = (known.expected or 0) + pair["expected"]
    lines: list[Line] = []
    for group in sorted(
        groups.values(), key=lambda each: (-each.wasted, -len(each.records), each.key)
    ):
        lines.append(Line(f"group {group.key}", group))
        if group.key == state.opened:
            members = sorted(group.records, key=_place)
            lines += [Line(f"connection {each.get('cookie')}", group, each) for each in members]
    return lines


def _place(record: Record) -> tuple[int, str, str]:
    kind = _ORDER.get(str(record.get("class")), len(_ORDER))
    return (kind, str(record.get("broker")), str(record.get("local")))


def press(state: State, key: str, lines: Sequence[Line]) -> State:
    """Return what is looked at after a key."""
    if state.is_typing:
        return _typed(state, key)
    if state.is_help or state.story:
        return replace(state, is_help=False, story="", is_over=key == "q")
    act = _KEYS.get(key)
    return state if act is None else act(state, lines)


def _typed(state: State, key: str) -> State:
    if key == "enter":
        return replace(state, is_typing=False)
    if key == "esc":
        return replace(state, is_typing=False, words="")
    if key == "backspace":
        return replace(state, words=state.words[:-1])
    if len(key) == 1 and key.isprintable():
        return replace(state, words=(state.words + key)[:_LONGEST_FILTER])
    return state


def _move(state: State, lines: Sequence[Line], step: int) -> State:
    keys = [line.key for line in lines]
    if not keys:
        return state
    place = keys.index(state.chosen) + step if state.chosen in keys else 0
    return replace(state, chosen=keys[min(max(place, 0), len(keys) - 1)])


def _enter(state: State, lines: Sequence[Line]) -> State:
    line = next((line for line in lines if line.key == state.chosen), None)
    if line is None:
        return state
    if line.record is not None:
        return replace(state, story=str(line.record.get("cookie")))
    return replace(state, opened="" if state.opened == line.group.key else line.group.key)


def _grouped(state: State, name: str) -> State:
    return replace(state, group=name, chosen="", opened="")


def _next_group(state: State) -> State:
    names = list(GROUPS)
    return _grouped(state, names[(names.index(state.group) + 1) % len(names)])


_KEYS: dict[str, Callable[[State, Sequence[Line]], State]] = {
    "j": lambda state, lines: _move(state, lines, 1),
    "down": lambda state, lines: _move(state, lines, 1),
    "k": lambda state, lines: _move(state, lines, -1),
    "up": lambda state, lines: _move(state, lines, -1),
    "enter": _enter,
    "/": lambda state, _: replace(state, is_typing=True),
    "g": lambda state, _: _next_group(state),
    "b": lambda state, _: _grouped(state, "broker"),
    "p": lambda state, _: replace(state, is_paused=not state.is_paused),
    "?": lambda state, _: replace(state, is_help=True),
    "esc": lambda state, _: replace(state, words="", opened=""),
    "q": lambda state, _: replace(state, is_over=True),
}


def rates_between(before: Document | None, now: Document) -> Rates:
    """Return the bytes a second that each connection sent and received between two documents."""
    if before is None:
        return {}
    seconds = (_time(now) - _time(before)) if before.get("time") and now.get("time") else 0.0
    if seconds <= 0:
        return {}
    known = {str(each.get("cookie")): each for each in before["connections"]}
    rates: Rates = {}
    for each in now["connections"]:
        cookie = str(each.get("cookie"))
        last = known.get(cookie)
        names = ("outgoing_bytes", "incoming_bytes")
        if last is not None and all(
            isinstance(one.get(name), int) for one in (last, each) for name in names
        ):
            out, into = (max(0.0, (each[name] - last[name]) / seconds) for name in names)
            rates[cookie] = (out, into)
    return rates


def _time(document: Document) -> float:
    try:
        return datetime.fromisoformat(str(document["time"])).timestamp()
    except ValueError:
        return 0.0
