"""The truth as rows: added up over the processes that made parts of it, and written down."""

from __future__ import annotations

__all__ = ["Row", "Tables", "merged", "write_rows"]

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pathlib import Path

Value = int | str | list[int] | None
Row = dict[str, Value]
Tables = dict[str, dict[tuple[Value, ...], Row]]
"""For each table its rows by key: `(hour in ms, ...)`."""

# All else is summed.
_MAXIMA = frozenset({"idle_max_ms", "peak_opened", "value_max"})


def merged(into: Tables, more: Tables) -> None:
    """Add the rows of another part; no agent is in two parts."""
    for table, rows in more.items():
        known = into.setdefault(table, {})
        for key, row in rows.items():
            if key not in known:
                known[key] = row
                continue
            old = known[key]
            for name, value in row.items():
                old[name] = _joined(name, old[name], value)


def _joined(name: str, old: Value, new: Value) -> Value:
    if isinstance(old, list) and isinstance(new, list):
        return [a + b for a, b in zip(old, new, strict=True)]
    if isinstance(old, int) and isinstance(new, int):
        return max(old, new) if name in _MAXIMA else old + new
    return new if old is None else old


def write_rows(folder: Path, tables: Tables) -> None:
    """Write each table as JSON lines, in the order of its key, the hour as ISO 8601 in UTC."""
    for table, rows in tables.items():
        names = _KEYS[table]
        with (folder / f"{table}.jsonl").open("w", encoding="utf-8") as file:
            for key in sorted(rows, key=_in_order):
                seconds = cast("int", key[0]) // 1000
                when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                named = dict(zip(names, (when, *key[1:]), strict=True))
                file.write(json.dumps(named | rows[key], ensure_ascii=False) + "\n")


def _in_order(key: tuple[Value, ...]) -> tuple[tuple[bool, int, str], ...]:
    """Order keys in which anything may be None."""
    return tuple(
        (value is not None, value if isinstance(value, int) else 0, str(value)) for value in key
    )


_WHERE = ("cluster", "namespace", "service")
_KEYS = {
    "hourly": (
        "hour", "kafka_cluster", *_WHERE, "client_kind", "library", "library_version",
        "broker_id", "broker", "class", "cause",
    ),
    "coverage": ("hour", *_WHERE),
    "findings": (
        "hour", "kafka_cluster", *_WHERE, "client_kind", "broker_id", "broker", "finding",
        "cause", "severity",
    ),
}  # fmt: skip
