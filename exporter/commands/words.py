"""Figures as people say them: 12 s, 3.4 MB, 61 %. A missing figure is a dash, never a zero."""

from __future__ import annotations

__all__ = ["MISSING", "bytes_text", "duration_text", "number_text", "percent_text"]

MISSING = "-"
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"))
_THOUSAND = 1000


def duration_text(seconds: object) -> str:
    """Return `0.4 s`, `12 s`, `9 min`, `3 h`, `2 d`."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return MISSING
    for step, unit in _STEPS:
        if seconds >= 2 * step:
            return f"{seconds // step:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004


def bytes_text(count: object) -> str:
    """Return `17 B`, `3.4 kB`, `120 MB`."""
    if not isinstance(count, int | float) or isinstance(count, bool):
        return MISSING
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < _THOUSAND:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"  # noqa: PLR2004
        value /= _THOUSAND
    return f"{value:.1f} TB"


def percent_text(ratio: object) -> str:
    """Return `61 %`."""
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        return MISSING
    return f"{ratio * 100:.0f} %"


def number_text(value: object) -> str:
    """Return a count as it is."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else MISSING
