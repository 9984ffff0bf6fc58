"""What the Helm chart has copies of: rules, dashboards, and the schema of the configuration.

Helm reads nothing outside its chart, so the chart carries copies, written and compared here.
"""

from __future__ import annotations

__all__ = ["CHART", "pages"]

import inspect
import json
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from exporter.config.secrets import HARMLESS, SENSITIVE
from exporter.config.settings import Settings
from exporter.config.values import Kind, fields_of, hints_of, kind_of, optional_part
from tools.configuration_reference import field_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parent.parent
CHART = REPOSITORY / "helm" / "brokerwire"
_COPIED = {"rules": "*.yaml", "dashboards": "*.json"}
_JMX_RULES = REPOSITORY / "examples" / "jmx_exporter" / "brokerwire.yaml"
# The application that shows how our chart is included.
_APPLICATION = REPOSITORY / "examples" / "helm" / "orders"

# Of a value that is not as a schema's pattern says, helm tells the pattern and nothing else: these
# the chart's own template compares (templates/_check.tpl), and tells what they must be.
_PATTERNS = {
    "duration": r"^[0-9]{1,12}(\.[0-9]{1,3})?(ms|s|m|h|d)$",
    "duration or off": r"^(off|[0-9]{1,12}(\.[0-9]{1,3})?(ms|s|m|h|d))$",
    "size": "^[0-9]{1,10}(B|KiB|MiB|GiB)$",
}
# What a kind of value looks like to JSON Schema; whatever else a kind asks for, the agent says.
_SHAPES: dict[str, dict[str, Any]] = {
    **{name: {} for name in _PATTERNS},
    # Helm reads 0666 without quotes as 438: only a string has the digits.
    "file mode": {"type": "string", "pattern": "^06[0246]{2}$"},
    "number": {"type": "integer", "minimum": 0},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "port or range": {
        "type": ["integer", "string"],
        "pattern": "^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$",
        "minimum": 1,
        "maximum": 65535,
    },
    "true or false": {"type": "boolean"},
    "text": {"type": "string", "minLength": 1},
    "URL": {"type": "string", "pattern": "^https?://"},
}


def pages() -> Iterator[tuple[Path, str]]:
    """Give each file of the chart that is made from something else, and what is to be in it."""
    for folder, pattern in _COPIED.items():
        for path in sorted((REPOSITORY / folder).glob(pattern)):
            yield CHART / "files" / folder / path.name, path.read_text("utf-8")
    yield _APPLICATION / "files" / "jmx_exporter.yaml", _JMX_RULES.read_text("utf-8")
    schema = CHART / "values.schema.json"
    document = json.loads(schema.read_text("utf-8"))
    document["properties"]["config"] = _section(Settings)
    yield schema, json.dumps(document, indent=2) + "\n"
    found = dict(_told(Settings, "config"))
    told = {
        "kinds": {
            kind.name: {"pattern": _PATTERNS[kind.name], "words": kind.words}
            for kind in found.values()
        },
        "paths": {path: kind.name for path, kind in found.items()},
        "secret": SENSITIVE,
        "not_secret": HARMLESS,
    }
    yield CHART / "files" / "config-kinds.json", json.dumps(told, indent=2) + "\n"


def left_over() -> list[Path]:
    """Return copies whose original is gone."""
    return [
        path
        for folder in _COPIED
        for path in sorted((CHART / "files" / folder).glob("*"))
        if not (REPOSITORY / folder / path.name).exists()
    ]


def _section(section: type[Any]) -> dict[str, Any]:
    hints = hints_of(section)
    texts = field_texts(section)
    properties = {}
    for field in fields_of(section):
        found = _value(hints[field.name], field.name)
        properties[field.name] = {"description": texts[field.name], **found}
        if not texts[field.name]:
            properties[field.name] = found
    needed = [
        field.name
        for field in fields_of(section)
        if field.default is MISSING and field.default_factory is MISSING
    ]
    about = (inspect.getdoc(section) or "").split("\n\n")[0].replace("\n", " ")
    schema: dict[str, Any] = {"description": about, "type": "object", "properties": properties}
    if needed:
        schema["required"] = needed
    return {**schema, "additionalProperties": False}


def _told(section: type[Any], path: str) -> Iterator[tuple[str, Kind]]:
    """Give the place of each value that the chart's template compares; `[]` is any of a list."""
    hints = hints_of(section)
    for field in fields_of(section):
        inner, at = hints[field.name], f"{path}.{field.name}"
        kind = kind_of(inner)
        inner, _ = optional_part(inner)
        if kind is None and get_origin(inner) is tuple:
            inner, at = get_args(inner)[0], f"{at}[]"
            kind = kind_of(inner)
        if kind is not None and kind.name in _PATTERNS:
            yield at, kind
        elif isinstance(inner, type) and is_dataclass(inner):
            yield from _told(inner, at)


def _value(hint: Any, name: str) -> dict[str, Any]:
    kind = kind_of(hint)
    if kind is not None:
        return _shape(kind, hint)
    inner, _ = optional_part(hint)
    if get_origin(inner) is tuple:
        return {"type": "array", "items": _value(get_args(inner)[0], name)}
    if get_origin(inner) is dict:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if not is_dataclass(inner) or not isinstance(inner, type):
        raise SystemExit(f"tools/chart_files.py has no schema for {name}: {hint}")
    return _section(inner)


def _shape(kind: Kind, hint: Any) -> dict[str, Any]:
    if kind.name == "choice":
        return {"enum": list(get_args(optional_part(hint)[0]))}
    return _SHAPES[kind.name]
