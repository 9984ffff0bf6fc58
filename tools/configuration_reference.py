"""docs/configuration.md from the dataclasses in config/settings.py: `--check` compares."""

from __future__ import annotations

__all__ = ["field_texts", "render"]

import ast
import inspect
import sys
import textwrap
from dataclasses import MISSING, Field, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from exporter.config.settings import Settings
from exporter.config.text import yaml_from_settings
from exporter.config.values import fields_of, hints_of, kind_of, optional_part

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
INTRODUCTION = """\
# Configuration

brokerwire runs without a file: every key has a default.
`brokerwire run --config brokerwire.yaml` reads one,
`brokerwire config check brokerwire.yaml` names all its mistakes with their lines,
and `brokerwire config show` prints what is in force.
A commented example is in [examples/brokerwire.yaml](../examples/brokerwire.yaml).

The order is: defaults, then the file, then flags. No environment variable is read.

How values are written:

- A duration has a unit: `500ms`, `15s`, `5m`, `1h`, `2d`.
- A size has a unit: `128B`, `64KiB`, `16MiB`.
- A port range is `9092-9098`, one port `9092`.
- Text that looks like a number or like `yes`, `no`, `on`, `off` needs quotes.
- Unknown and doubled keys are errors; anchors and aliases are not supported.
- A secret never stands in this file: keys that end in `_file` name the file that holds it.
"""


def render() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, *_sections(Settings, "")]
    defaults = yaml_from_settings(Settings())
    parts.append(f"## All defaults\n\n```yaml\n{defaults}```\n")
    return "\n".join(parts)


def _sections(section: type[Any], path: str) -> Iterator[str]:
    """Give one table for each dataclass that has plain keys, the inner ones after the outer."""
    hints = hints_of(section)
    texts = field_texts(section)
    rows, inner = [], []
    for field in fields_of(section):
        key = f"{path}.{field.name}" if path else field.name
        nested, mark = _nested(hints[field.name])
        if nested is not None:
            inner.append((nested, key + mark))
        if nested is None or mark or optional_part(hints[field.name])[1]:
            rows.append(_row(field, hints[field.name], key, texts[field.name]))
    if path:
        about = (inspect.getdoc(section) or "").split("\n\n")[0]
        yield f"## `{path}`\n\n{about}\n"
    if rows:
        yield "\n".join(["| key | value | default | |", "| --- | --- | --- | --- |", *rows]) + "\n"
    for nested, key in inner:
        yield from _sections(nested, key)


def _nested(hint: Any) -> tuple[type[Any] | None, str]:
    inner, _ = optional_part(hint)
    mark = ""
    if get_origin(inner) is tuple:
        inner, mark = get_args(inner)[0], "[]"
    is_section = is_dataclass(inner) and kind_of(inner) is None
    return (inner, mark) if isinstance(inner, type) and is_section else (None, "")


def _row(field: Field[Any], hint: Any, key: str, text: str) -> str:
    return f"| `{key}` | {_value_words(hint)} | {_default(field, hint)} | {text} |"


def _value_words(hint: Any) -> str:
    kind = kind_of(hint)
    if kind is not None:
        return kind.words if kind.name == "choice" else kind.name
    inner, _ = optional_part(hint)
    if get_origin(inner) is tuple:
        item = get_args(inner)[0]
        item_kind = kind_of(item)
        return f"list of {item_kind.name}" if item_kind else "list of sections"
    return "names and texts" if get_origin(inner) is dict else "section"


def _default(field: Field[Any], hint: Any) -> str:
    if field.default_factory is not MISSING:
        return "none"
    if field.default is MISSING:
        return "needed"
    if field.default is None or field.default == ():
        return "none"
    kind = kind_of(hint)
    if kind is not None:
        return f"`{kind.write(field.default)}`".replace('"', "")
    item = kind_of(get_args(hint)[0])
    return (
        ", ".join(f"`{item.write(value)}`".replace('"', "") for value in field.default)
        if item
        else ""
    )


def field_texts(section: type[Any]) -> dict[str, str]:
    """Return the text below each field: what Python drops, the source still has."""
    texts = dict.fromkeys((field.name for field in fields_of(section)), "")
    for each in reversed([each for each in section.__mro__ if is_dataclass(each)]):
        texts |= _own_texts(each)
    return texts


def _own_texts(section: type[Any]) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
    texts = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for statement, after in pairwise(statements):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = after.value if isinstance(after, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                texts[statement.target.id] = " ".join(value.value.split())
    return texts


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text() == render():
            return 0
        print(f"{PAGE.name} is out of date: run tools/configuration_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
