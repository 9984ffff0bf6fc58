"""Figures as people read them, and what each class means in a few words."""

from __future__ import annotations

__all__ = [
    "CLASS_WORDS",
    "NOTHING",
    "TIMES",
    "WASTE",
    "clock_time",
    "count_words",
    "duration",
    "ratio",
    "size",
]

NOTHING = "\N{EN DASH}"
TIMES = " \N{MULTIPLICATION SIGN} "

CLASS_WORDS = {
    "ghost": "descriptor open, socket dead",
    "half_closed": "the broker has closed, the client has not",
    "connecting": "not through yet",
    "stale": "to an address that is no broker's any more",
    "zombie": "never used again, never closed",
    "excess": "more than this client needs",
    "bootstrap": "opened to learn the brokers",
    "coordinator": "the consumer group's coordinator",
    "transaction": "the transaction coordinator's own",
    "data": "produce and fetch",
    "admin": "control work",
    "probe": "short, no Kafka in it: a health check",
    "unknown": "too early or too little to tell",
}
# The classes that nobody needs.
WASTE = ("ghost", "half_closed", "stale", "zombie", "excess")

_MILLISECOND = 0.001
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_STEP = 1024.0
# From here on a smaller unit adds nothing: 11 s, but 9.8 s; 120 min, but 2 h.
_TEN, _TWO = 10.0, 2.0


def duration(seconds: float | None) -> str:
    """Write a time in its natural unit."""
    if seconds is None:
        return NOTHING
    if seconds < 1.0:
        return f"{seconds / _MILLISECOND:.3g} ms"
    if seconds < _TWO * _MINUTE:
        shown = f"{seconds:.1f}".removesuffix(".0") if seconds < _TEN else f"{seconds:.0f}"
        return f"{shown} s"
    for unit, name, most in ((_MINUTE, "min", _TWO * _HOUR), (_HOUR, "h", _TWO * _DAY)):
        if seconds < most:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / _DAY:.0f} d"


def size(count: int | None) -> str:
    """Write bytes in powers of 1024."""
    if count is None:
        return NOTHING
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < _STEP:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} TiB"


def ratio(value: float | None) -> str:
    """Write a part of the whole in percent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def count_words(count: int, name: str) -> str:
    """Write a count with its noun."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def clock_time(text: str | None) -> str:
    """Write a document's time as people do."""
    return "" if text is None else f"{text[:10]} {text[11:19]} UTC"
