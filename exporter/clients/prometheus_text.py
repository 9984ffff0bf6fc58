"""Samples of a Prometheus or OpenMetrics page, only those of wanted metrics.

A page has a thousand lines and we want thirty: lines are found by their prefix and looked up by
name before anything is parsed. What is wanted is parsed strictly: a line that does not fit is an
error with its number. Every expression here is linear in the line, and a line has a limit.
"""

from __future__ import annotations

__all__ = ["Sample", "wanted_samples"]

import re
from typing import TYPE_CHECKING, NamedTuple

from exporter.errors import SourceDecodeError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

MAX_LINE = 64 * 1024
# Half a second of looking at names; a page of 16 MB has 160,000 such lines.
MAX_LINES = 500_000
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,255}")
_LABEL = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*([,}])'
)
_CLOSING = re.compile(r"[ \t]*}")
# `float` alone would take underscores, blanks and the digits of other scripts.
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?[Ii]nf(?:inity)?|[Nn]a[Nn]"
)
_TAIL = re.compile(r"[ \t]+(\S+)(?:[ \t]+([-+.0-9eE]+))?[ \t]*(?:#[ \t]*\{.*)?")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


class Sample(NamedTuple):
    """One line: `value` may be NaN or infinite."""

    name: str
    labels: dict[str, str]
    value: float


def wanted_samples(page: str, prefix: str, wanted: Container[str], where: str) -> Iterator[Sample]:
    """Yield the samples whose metric begins with `prefix` and is wanted.

    Raises:
        SourceDecodeError: a wanted line is no sample, too long, or cut off; too many lines.
    """
    start = 0 if page.startswith(prefix) else _next_line(page, prefix, 0)
    lines = 0
    while start >= 0:
        lines += 1
        if lines > MAX_LINES:
            raise _error(page, start, where, f"more than {MAX_LINES} lines of {prefix}*")
        name = _NAME.match(page, start)
        if name is None or name[0] not in wanted:
            start = _next_line(page, prefix, start)
            continue
        end = page.find("\n", start)
        if end < 0:
            raise _error(page, start, where, "the page ends within a line: it was cut off")
        if end - start > MAX_LINE:
            raise _error(page, start, where, f"a line of more than {MAX_LINE} characters")
        sample = _sample(name[0], page[name.end() : end].removesuffix("\r"))
        if sample is None:
            raise _error(page, start, where, f"not a sample of {name[0]}")
        yield sample
        start = _next_line(page, prefix, end)


def _next_line(page: str, prefix: str, position: int) -> int:
    found = page.find("\n" + prefix, position)
    return found + 1 if found >= 0 else -1


def _error(page: str, start: int, where: str, message: str) -> SourceDecodeError:
    line = page.count("\n", 0, start) + 1
    return SourceDecodeError(f"{where} line {line}: {message}")


def _sample(name: str, rest: str) -> Sample | None:
    labels: dict[str, str] = {}
    position = 0
    if rest.startswith("{"):
        end = _read_labels(rest, labels)
        if end is None:
            return None
        position = end
    tail = _TAIL.fullmatch(rest, position)
    if tail is None or _NUMBER.fullmatch(tail[1]) is None:
        return None
    return Sample(name, labels, float(tail[1]))


def _read_labels(rest: str, labels: dict[str, str]) -> int | None:
    """Fill in the labels; return where they end, or None where they are malformed."""
    position = 1
    while True:
        # Only here a comma may stand before the brace: the 0.x Java client always wrote one.
        closing = _CLOSING.match(rest, position)
        if closing is not None:
            return closing.end()
        label = _LABEL.match(rest, position)
        if label is None or label[1] in labels:
            return None
        value = label[2]
        labels[label[1]] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
        position = label.end()
        if label[3] == "}":
            return position


def _unescape(match: re.Match[str]) -> str:
    # An unknown escape stands for itself, as in Prometheus.
    return _ESCAPED.get(match[1], match[0])
