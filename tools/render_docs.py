"""Writes the reference parts of docs/ from the code; `--check` only compares."""

from __future__ import annotations

__all__ = ["main"]

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.metrics.catalogue import CATALOGUE
from journal_schema import definitions as journal_definitions
from spark_rollups.report.openmetrics import METRICS as FLEET_METRICS
from tools import alert_pages, chart_files, configuration_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parent.parent / "docs"
END = "<!-- end -->"
_FILE = re.compile(r"<!-- file (\S+) -->.*?<!-- end file -->", re.DOTALL)
_LANGUAGES = {".py": "python", ".go": "go", ".cs": "csharp", ".js": "javascript"}
_GROUPS = {
    "kafka_client_": "Of the clients' connections",
    "brokerwire_": "Of the agent",
    "process_": "Of the agent's process",
}
_DOCUMENTS = (
    "connections_document",
    "findings_document",
    "sources_document",
    "history_document",
    "events_document",
    "classes_document",
    "changes_document",
    "networks_document",
)


def main(arguments: list[str]) -> int:
    """Write the pages, or report those that differ from the code."""
    different = []
    for path, text in _pages():
        if not path.exists() or path.read_text("utf-8") != text:
            different.append(path)
            if "--check" not in arguments:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
    for path in chart_files.left_over():
        different.append(path)
        if "--check" not in arguments:
            path.unlink()
    for path in different:
        done = "differs from the code: run make docs" if "--check" in arguments else "written"
        print(f"{path.relative_to(DOCS.parent)}: {done}")
    return 1 if different and "--check" in arguments else 0


def _pages() -> Iterator[tuple[Path, str]]:
    yield configuration_reference.PAGE, configuration_reference.render()
    yield DOCS / "metrics.md", _filled(DOCS / "metrics.md", _metrics())
    yield DOCS / "api.md", _filled(DOCS / "api.md", _api())
    yield DOCS / "journal.md", _filled(DOCS / "journal.md", _journal())
    yield DOCS / "client-metrics.md", _with_files(DOCS / "client-metrics.md")
    yield DOCS / "fleet.md", _filled(DOCS / "fleet.md", _fleet_metrics())
    yield from alert_pages.pages()
    # Last: the chart has copies of what was written before.
    yield from chart_files.pages()


def _filled(page: Path, text: str) -> str:
    """Put a text between the markers of a page."""
    before, marker, rest = page.read_text("utf-8").partition("<!-- generated")
    line, newline, rest = rest.partition("\n")
    after = rest.partition(END)[2]
    return f"{before}{marker}{line}{newline}\n{text}\n{END}{after}"


def _with_files(page: Path) -> str:
    """Put each file that a page names between its markers."""
    return _FILE.sub(_shown, page.read_text("utf-8"))


def _shown(found: re.Match[str]) -> str:
    path = DOCS.parent / found[1]
    fence = f"```{_LANGUAGES[path.suffix]}"
    text = path.read_text("utf-8").rstrip()
    return f"<!-- file {found[1]} -->\n{fence}\n{text}\n```\n<!-- end file -->"


def _fleet_metrics() -> str:
    lines = ["| gauge | labels | |", "| --- | --- | --- |"]
    for metric in FLEET_METRICS:
        labels = " ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {labels} | {metric.help} |")
    return "\n".join([*lines, ""])


def _metrics() -> str:
    tables = []
    for prefix, title in _GROUPS.items():
        rows = [
            "| " + " | ".join(_metric_cells(spec)) + " |"
            for spec in CATALOGUE
            if spec.name.startswith(prefix)
        ]
        head = "| metric | kind | labels | | |\n| --- | --- | --- | --- | --- |"
        tables.append("\n".join([f"### {title}", "", head, *rows, ""]))
    return "\n".join(tables)


def _metric_cells(spec: Any) -> tuple[str, ...]:
    labels = " ".join(f"`{label}`" for label in spec.labels)
    return f"`{spec.name}`", spec.kind.value, labels, spec.help, "expires" if spec.expires else ""


def _api() -> str:
    definitions = json.loads((DOCS / "api.schema.json").read_text("utf-8"))["$defs"]
    ordered = [*_DOCUMENTS, *(name for name in definitions if name not in _DOCUMENTS)]
    # What most documents begin with is described once.
    properties = {name: definitions[name]["properties"] for name in _DOCUMENTS}
    common = {
        key: value
        for key, value in properties[_DOCUMENTS[0]].items()
        if sum(each.get(key) == value for each in properties.values()) > len(properties) / 2
    }
    for name, each in properties.items():
        missing = [f"`{key}`" for key in common if key not in each]
        if missing:
            definitions[name]["description"] += f" Without {', '.join(missing)}."
        for key, value in common.items():
            if each.pop(key, value) != value:
                raise ValueError(f"{name} describes {key} in a way of its own")
    first = {"description": "Fields that most documents have.", "properties": common}
    return "\n".join(
        [_definition("common fields", first)]
        + [_definition(name, definitions[name]) for name in ordered]
    )


def _journal() -> str:
    """List the fields of each kind of record, with what they are and their units."""
    lines: list[str] = []
    for name, definition in journal_definitions().items():
        title = "Every record" if name == "envelope" else f"Kind `{name}`"
        lines += [f"### {title}", "", definition["description"], ""]
        lines += ["| field | type | is | unit | |", "| --- | --- | --- | --- | --- |"]
        lines += [
            _journal_field(key, value)
            for key, value in definition["properties"].items()
            if "x-is" in value
        ]
        lines.append("")
    return "\n".join(lines)


def _journal_field(name: str, value: dict[str, Any]) -> str:
    words = value["description"]
    if "enum" in value:
        words += " One of " + ", ".join(f"`{each}`" for each in value["enum"]) + "."
    if "x-bounds-ms" in value:
        words += " Bounds in ms: " + ", ".join(map(str, value["x-bounds-ms"])) + "."
    unit = value.get("x-unit", "1").removeprefix("1")
    return f"| `{name}` | {_type(value)} | {value['x-is']} | {unit} | {words} |"


def _definition(name: str, definition: dict[str, Any]) -> str:
    lines = [f"### {name.replace('_', ' ')}", "", definition["description"], ""]
    if "properties" in definition:
        lines += ["| field | type | |", "| --- | --- | --- |"]
        lines += [_field(key, value) for key, value in definition["properties"].items()]
        lines.append("")
    return "\n".join(lines)


def _field(name: str, value: dict[str, Any]) -> str:
    words = value.get("description", "")
    if "enum" in value:
        words += " " + ", ".join(f"`{each}`" for each in value["enum"]) + "."
    return f"| `{name}` | {_type(value)} | {words} |"


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name.replace('_', ' ')}](#{name.replace('_', '-')})"
    if "const" in value:
        return f"`{value['const']}`"
    if value["type"] == "array":
        return f"list of {_type(value['items'])}"
    types = value["type"]
    return types if isinstance(types, str) else " or ".join(types)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
