"""Settings back to YAML, as `config.files` reads it: for `config show` and docs.

Reading what is written here gives equal settings. There is nothing to hide: settings hold the
names of files with secrets, never secrets.
"""

from __future__ import annotations

__all__ = ["yaml_from_settings"]

import json
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, get_args

from exporter.config.values import fields_of, hints_of, kind_of, optional_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.config.settings import Settings

_INDENT = "  "


def yaml_from_settings(settings: Settings) -> str:
    """Return all settings, defaults included; what is not set at all is left out."""
    return "\n".join(_section_lines(settings)) + "\n"


def _section_lines(section: Any) -> Iterator[str]:
    hints = hints_of(type(section))
    for field in fields_of(type(section)):
        value = getattr(section, field.name)
        if value is not None:
            yield from _lines(hints[field.name], field.name, value)


def _lines(hint: Any, name: str, value: Any) -> Iterator[str]:
    kind = kind_of(hint)
    if kind is not None:
        yield f"{name}: {kind.write(value)}"
    elif is_dataclass(value):
        yield f"{name}:"
        yield from (_INDENT + line for line in _section_lines(value))
    elif not value:
        yield f"{name}: {'{}' if isinstance(value, dict) else '[]'}"
    elif isinstance(value, dict):
        yield f"{name}:"
        for key, text in value.items():
            yield f"{_INDENT}{_quoted(key)}: {_quoted(text)}"
    else:
        yield f"{name}:"
        item_hint = get_args(optional_part(hint)[0])[0]
        for item in value:
            yield from (_INDENT + line for line in _item_lines(item_hint, item))


def _item_lines(hint: Any, item: Any) -> Iterator[str]:
    kind = kind_of(hint)
    if kind is not None:
        yield f"- {kind.write(item)}"
        return
    lines = list(_section_lines(item))
    yield f"- {lines[0]}"
    yield from (_INDENT + line for line in lines[1:])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
