"""Text and figures as people read them, the same on the page, in the terminal and in findings.

`written_duration` is for what is read back: the configuration file and Prometheus' rules. The
grammar of the other values of the configuration is in `config.values`.
"""

from __future__ import annotations

__all__ = [
    "LONGEST_VALUE",
    "MISSING",
    "count_words",
    "duration",
    "escaped",
    "joined",
    "percent",
    "printable",
    "size",
    "written_duration",
]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_VALUE = 256
# Shown for what is unknown: never a zero.
MISSING = "-"

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_WRITTEN_UNITS = (
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "m"),
    (1_000_000, "s"),
    (1000, "ms"),
)


def printable(text: str, longest: int = LONGEST_VALUE) -> str:
    """Return text that is one line on any terminal, of at most `longest` characters.

    Whatever Python does not call printable is written as an escape: C0, C1, ESC, U+2028 and
    U+2029, the marks that turn the direction of writing, lone surrogates.
    """
    if len(text) <= longest and text.isprintable():
        return text
    return joined((escaped(letter) for letter in text), longest)


def escaped(letter: str) -> str:
    """Return one letter as it may be printed."""
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def joined(pieces: Iterable[str], longest: int) -> str:
    """Join whole pieces up to a length: a cut in the middle of an escape would change it."""
    taken: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        taken.append(piece)
        if length > longest:
            while length > longest - 1 and taken:
                length -= len(taken.pop())
            return "".join(taken) + "…"
    return "".join(taken)


def duration(seconds: float | None) -> str:
    """Return `250 ms`, `9.8 s`, `75 s`, `12 min`, `2 h` or `5 d`."""
    if seconds is None:
        return MISSING
    # What would round to 1000 ms is 1 s.
    if seconds < 0.9995:  # noqa: PLR2004
        return f"{seconds * 1000:.3g} ms"
    # A larger unit from two of it on: 75 s says more than 1 min.
    if seconds < 2 * _MINUTE:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.0f} h"
    return f"{seconds / _DAY:.0f} d"


def written_duration(seconds: float) -> str:
    """Return `500ms`, `15s` or `5m`: exactly, in the largest unit that it is a whole number of."""
    microseconds = round(seconds * 1_000_000)
    for unit, name in _WRITTEN_UNITS:
        if microseconds % unit == 0:
            return f"{microseconds // unit}{name}"
    return f"{microseconds / 1000:.3f}ms"


def size(count: int | None) -> str:
    """Return bytes in powers of 1024: `17 B`, `3.4 KiB`, `120.0 MiB`."""
    if count is None:
        return MISSING
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:  # noqa: PLR2004
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def percent(ratio: float | None) -> str:
    """Return `61%`."""
    return MISSING if ratio is None else f"{100 * ratio:.0f}%"


def count_words(count: int, noun: str) -> str:
    """Return `1 connection`, `2 connections`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
