"""The checked-in dashboards as a reader of their JSON sees them: panels, queries, links."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "dashboards"
FILES = sorted(FOLDER.glob("*.json"))

# What Grafana puts in by itself.
BUILT_IN = {"__rate_interval", "__range", "__url_time_range"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")


@dataclass(frozen=True)
class Asked:
    """One query, and where it stands."""

    uid: str
    panel: dict
    ref: str
    expression: str
    legend: str

    @property
    def name(self) -> str:
        return f"{self.uid} / {self.panel['title']} / {self.ref}"


@dataclass(frozen=True)
class Board:
    """One dashboard."""

    text: str

    @property
    def document(self) -> dict:
        return json.loads(self.text)

    @property
    def uid(self) -> str:
        return self.document["uid"]

    @property
    def everything(self) -> list[dict]:
        """All panels, headings and what is folded under them included."""
        found = []
        for panel in self.document["panels"]:
            found += [panel, *panel.get("panels", [])]
        return found

    @property
    def panels(self) -> list[dict]:
        return [panel for panel in self.everything if panel["type"] != "row"]

    @property
    def variables(self) -> dict[str, dict]:
        return {each["name"]: each for each in self.document["templating"]["list"]}

    @property
    def queries(self) -> list[Asked]:
        return [
            Asked(self.uid, panel, each["refId"], each["expr"], each.get("legendFormat", ""))
            for panel in self.panels
            for each in panel["targets"]
        ]

    @property
    def lists(self) -> dict[str, str]:
        """The queries that fill the variables' lists: a selector and a label of it."""
        return {
            name: each["query"]["query"]
            for name, each in self.variables.items()
            if each["type"] == "query"
        }


BOARDS = [Board(path.read_text()) for path in FILES]
UIDS = {board.uid: board for board in BOARDS}


def variables_in(text: str) -> set[str]:
    return {braced or plain for braced, plain in _VARIABLE.findall(text)} - {"1"}


def filled(text: str, values: dict[str, str]) -> str:
    """Put values in for variables, as Grafana does; `$1` of label_replace is none."""

    def value(match: re.Match) -> str:
        name = match[1] or match[2]
        return match[0] if name == "1" else values[name]

    return _VARIABLE.sub(value, text)


def all_chosen(board: Board, interval: str = "1m") -> dict[str, str]:
    """What the variables are when a dashboard is opened: everything."""
    chosen = {
        name: each["allValue"] for name, each in board.variables.items() if each["type"] == "query"
    }
    return chosen | {"__rate_interval": interval, "__range": "1h"}


def labels_shown(panel: dict) -> set[str]:
    """The labels whose values a panel shows: in legends, or as columns."""
    shown = set()
    for each in panel["targets"]:
        shown |= set(re.findall(r"\{\{(\w+)\}\}", each.get("legendFormat", "")))
    for transformation in panel.get("transformations", ()):
        names = transformation["options"].get("renameByName", {})
        shown |= {name for name in names if not name.startswith("Value")}
    return shown


def urls_in(value: object) -> list[str]:
    """Every address in a document."""
    if isinstance(value, dict):
        own = [value["url"]] if isinstance(value.get("url"), str) else []
        return own + [url for each in value.values() for url in urls_in(each)]
    if isinstance(value, list):
        return [url for each in value for url in urls_in(each)]
    return []
