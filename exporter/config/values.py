"""Parses and writes single values of the configuration.

The kind of a value follows from the type hint of its field in `config.settings`, so that there is
no second list of keys. A kind reads text and writes it back:
`kind.parse(kind.write(value)) == value`.
"""

from __future__ import annotations

__all__ = ["Kind", "fields_of", "hints_of", "kind_of", "optional_part"]

import json
import re
from dataclasses import Field, dataclass, fields
from decimal import Decimal
from enum import StrEnum
from inspect import get_annotations
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import urlsplit

from exporter.config.settings import HIGHEST_PORT, PortRange
from exporter.config.types import Form
from exporter.text import written_duration

if TYPE_CHECKING:
    from collections.abc import Callable

# Whole microseconds, so that a duration reads back as exactly the number it was.
_MICROSECONDS = {
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LONGEST_DURATION = 366 * 86_400
LARGEST_NUMBER = 1_000_000_000
LONGEST_TEXT = 4096


@dataclass(frozen=True, slots=True)
class Kind:
    """One way of writing a value.

    `words` completes the sentence "must be ...". `tags` are YAML's own guesses at the text that
    are let through: the guess `bool` for `off`, never a quoted number where a number is meant.
    """

    name: str
    words: str
    tags: frozenset[str]
    parse: Callable[[str], Any]
    write: Callable[[Any], str]


def optional_part(hint: Any) -> tuple[Any, bool]:
    """Return the hint without None, and whether None was in it."""
    if get_origin(hint) in {Union, UnionType}:
        rest = tuple(part for part in get_args(hint) if part is not NoneType)
        if len(rest) == 1:
            return rest[0], True
    return hint, False


def fields_of(section: type[Any]) -> list[Field[Any]]:
    """Return the fields of a section as people read them: its own first, then inherited ones."""
    own = get_annotations(section)
    return sorted(fields(section), key=lambda field: field.name not in own)


def hints_of(section: type[Any]) -> dict[str, Any]:
    """Return the type hints of a section's fields, with the form in which each is written."""
    return get_type_hints(section, include_extras=True)


def kind_of(hint: Any) -> Kind | None:
    """Return how a field is written; None where it is a section, a list or a mapping."""
    inner, optional = optional_part(hint)
    if get_origin(inner) is Literal:
        return _choice(get_args(inner), str)
    if isinstance(inner, type) and issubclass(inner, StrEnum):
        return _choice(tuple(inner), inner)
    if get_origin(inner) is Annotated:
        return _FORMS[get_args(inner)[1]]
    if inner is float:
        return _LIMIT if optional else _DURATION
    return {int: _COUNT, str: _TEXT, bool: _SWITCH, PortRange: _PORTS}.get(inner)


def _duration(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)", text)
    if match is None:
        raise ValueError(text)
    microseconds = int(Decimal(match[1]) * _MICROSECONDS[match[2]])
    if not 0 < microseconds <= LONGEST_DURATION * 1_000_000:
        raise ValueError(text)
    return microseconds / 1_000_000


def _limit(text: str) -> float:
    return 0.0 if text == "off" else _duration(text)


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,10})(B|KiB|MiB|GiB)", text)
    if match is None or not 0 < int(match[1]) * _BYTES[match[2]] <= LARGEST_NUMBER:
        raise ValueError(text)
    return int(match[1]) * _BYTES[match[2]]


def _size_text(size: int) -> str:
    unit = max((unit for unit in _BYTES if size % _BYTES[unit] == 0), key=_BYTES.__getitem__)
    return f"{size // _BYTES[unit]}{unit}"


def _whole(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # Not int(): YAML's 0777, 0x10, 1_000 and 12:30 are traps, not numbers people mean.
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", text) or not lowest <= int(text) <= highest:
            raise ValueError(text)
        return int(text)

    return parse


def _mode(text: str) -> int:
    # The owner reads and writes; nobody runs a socket. 0666 unquoted is text here, as YAML has it.
    if not re.fullmatch(r"06[0246]{2}", text):
        raise ValueError(text)
    return int(text, 8)


def _ports(text: str) -> PortRange:
    match = re.fullmatch(r"([1-9][0-9]{0,4})(?:-([1-9][0-9]{0,4}))?", text)
    if match is None:
        raise ValueError(text)
    return PortRange(int(match[1]), int(match[2] or match[1]))


def _text(text: str) -> str:
    if not text or len(text) > LONGEST_TEXT or not text.isprintable():
        raise ValueError(text)
    return text


def _url(text: str) -> str:
    parts = urlsplit(_text(text))
    plain = parts.username is None and parts.password is None and not parts.fragment
    # `.port` raises ValueError where it is none.
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain or parts.port == 0:
        raise ValueError(text)
    if " " in text:
        raise ValueError(text)
    return text


def _switch(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _choice(names: tuple[str, ...], made: Callable[[str], str]) -> Kind:
    *most, last = names
    words = f"{', '.join(most)} or {last}"

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return made(text)

    return Kind("choice", words, frozenset({"str"}), parse, str)


_STRING = frozenset({"str"})
_NUMBER = frozenset({"int"})
_DURATION = Kind(
    "duration", "a duration such as 500ms, 15s or 5m", _STRING, _duration, written_duration
)
_LIMIT = Kind(
    "duration or off",
    "a duration such as 500ms, 15s or 9m, or off",
    frozenset({"str", "bool"}),
    _limit,
    lambda seconds: written_duration(seconds) if seconds else "off",
)
_COUNT = Kind(
    "number",
    f"a whole number from 1 to {LARGEST_NUMBER}",
    _NUMBER,
    _whole(1, LARGEST_NUMBER),
    str,
)
_FORMS = {
    Form.SIZE: Kind("size", "a size such as 64KiB or 16MiB", _STRING, _size, _size_text),
    Form.PORT: Kind(
        "port",
        f"a port, a whole number from 1 to {HIGHEST_PORT}",
        _NUMBER,
        _whole(1, HIGHEST_PORT),
        str,
    ),
    Form.BROKER_ID: Kind(
        "number",
        "a whole number from 0 to 2147483647",
        _NUMBER,
        _whole(0, 2**31 - 1),
        str,
    ),
    Form.FILE_MODE: Kind(
        "file mode",
        "a file mode for reading and writing, from 0600 to 0666 in octal digits",
        _STRING | _NUMBER,
        _mode,
        lambda mode: f'"{mode:04o}"',
    ),
    Form.URL: Kind(
        "URL",
        "an http:// or https:// URL without user and password",
        _STRING,
        _url,
        _quoted,
    ),
}
_PORTS = Kind(
    "port or range", "a port or a range such as 9092-9098", _STRING | _NUMBER, _ports, str
)
_SWITCH = Kind(
    "true or false",
    "true or false",
    frozenset({"bool"}),
    _switch,
    lambda switch: "true" if switch else "false",
)
_TEXT = Kind("text", "text", _STRING, _text, _quoted)
