"""JSON from untrusted senders: the standard library's parser, made strict.

NaN and Infinity become None, and so does a key that stands twice with two values; a document that
is nested too deeply or holds too many values is refused before or while it is parsed.
Numbers and texts are checked where they are used: `count` and `text`.
"""

from __future__ import annotations

__all__ = ["count", "decoded", "documents", "number", "text"]

import json
import math
import re
from typing import TYPE_CHECKING, Any

from exporter.errors import SourceDecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

# A value takes up to 260 bytes once parsed, however short it is written: so a page may hold one
# for so many bytes. librdkafka writes 17 and more for each, and 48 values for a partition.
BYTES_OF_A_VALUE = 16
ALWAYS_ALLOWED_VALUES = 50_000
MAX_DOCUMENTS = 1_000
MAX_TEXT = 1024
HIGHEST_COUNT = 2**63 - 1
# A zero byte ends each document of some C programs.
_BLANKS = re.compile(r"[ \t\r\n\x00]*")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    first: dict[str, Any] = {}
    for key, value in pairs:
        if first.setdefault(key, value) != value:
            found[key] = None
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unambiguous, parse_constant=lambda _: None, strict=False
)


def decoded(body: bytes | str, where: str) -> Any:
    """Return the one JSON value of `body`.

    Raises:
        SourceDecodeError: it is not JSON, not one value, or not of a sane size.
    """
    found = list(documents(body, where))
    if len(found) != 1:
        raise SourceDecodeError(f"{where}: {len(found)} JSON documents instead of one")
    return found[0]


def documents(body: bytes | str, where: str) -> Iterator[Any]:
    """Yield the JSON values of `body`, one after the other, with blanks or newlines between them.

    Raises:
        SourceDecodeError: something in it is not JSON, or there is too much of it.
    """
    page = _page(body, where)
    most = max(ALWAYS_ALLOWED_VALUES, len(page) // BYTES_OF_A_VALUE)
    if page.count(",") + page.count("[") + page.count("{") > most:
        raise SourceDecodeError(f"{where}: JSON of more than {most} values, too many for its size")
    position = _skip_blanks(page, 0)
    for _ in range(MAX_DOCUMENTS):
        if position >= len(page):
            return
        try:
            value, position = _DECODER.raw_decode(page, position)
        except json.JSONDecodeError as error:
            raise SourceDecodeError(f"{where}: not JSON ({error.msg}, at {error.pos})") from None
        except (ValueError, RecursionError):
            # Integers of more than 4,300 digits; thousands of brackets.
            raise SourceDecodeError(f"{where}: JSON beyond sane numbers or nesting") from None
        yield value
        position = _skip_blanks(page, position)
    if position < len(page):
        raise SourceDecodeError(f"{where}: more than {MAX_DOCUMENTS} JSON documents at once")


def count(value: Any) -> int | None:
    """Return a count, or None for anything that is none (true, text, negative, broken, huge)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value <= HIGHEST_COUNT else None


def number(value: Any) -> float | None:
    """Return a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) > HIGHEST_COUNT:
        return None
    return float(value) if math.isfinite(value) else None


def text(value: Any) -> str | None:
    """Return a text that can be encoded and has a sane length, or None."""
    if not isinstance(value, str):
        return None
    return value[:MAX_TEXT].encode(errors="replace").decode()


def _page(body: bytes | str, where: str) -> str:
    if isinstance(body, str):
        return body
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise SourceDecodeError(f"{where}: not UTF-8 text (at byte {error.start})") from None


def _skip_blanks(page: str, position: int) -> int:
    blanks = _BLANKS.match(page, position)
    return blanks.end() if blanks else position
