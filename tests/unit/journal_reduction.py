"""Hourly figures from journal lines by the rules of docs/journal.md, in plain Python.

Neither the rollups' code nor the simulator's: what both are held against.
"""

from __future__ import annotations

import json
from collections import defaultdict

HOUR_MS = 3_600_000
COUNTERS = (
    "connection_ms", "useful_ms", "expected_ms", "opened", "closed_by_client", "closed_by_broker",
    "closed_by_reset", "closed_unknown", "connect_failures", "bytes_out", "bytes_in",
    "lifetime_ms_sum",
)  # fmt: skip
DIMS = (
    "kafka_cluster", "cluster", "namespace", "service", "client_kind", "library",
    "library_version", "broker_id", "broker", "class", "cause",
)  # fmt: skip
SUMS = (
    *COUNTERS,
    "expected_known_ms",
    "unknown_ms",
    "waste_ms",
    "peak_connections",
    "peak_opened_sum",
    "series",
    "clients",
)


def records_of(lines):
    """The records that a reader of version 1 takes; what it must set aside is left out."""
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        sane = (
            isinstance(record, dict)
            and record.get("schema_version") == 1
            and record.get("kind") in {"agent", "connections", "finding"}
            and isinstance(record.get("agent_id"), str)
            and isinstance(record.get("seq"), int)
            and record.get("at_ms", 1 << 60) < 1 << 53
        )
        if sane:
            yield record


def hourly_of(records):
    """Rows of the table `hourly` by (hour, dims), without those in which nothing happened."""
    greatest = defaultdict(dict)
    about = {}
    for record in records:
        if record["kind"] != "connections":
            continue
        series = (record["agent_id"], record["boot_id"], record["series"])
        hour = (record["at_ms"] - 1) // HOUR_MS * HOUR_MS
        about[series] = record
        seen = greatest[series].setdefault(hour, defaultdict(int))
        for name in (*COUNTERS, "peak_connections", "peak_opened", "idle_max_ms"):
            if record.get(name) is not None:
                seen[name] = max(seen[name], record[name])
        known = seen.get("lifetime_buckets") or [0] * 12
        seen["lifetime_buckets"] = list(map(max, known, record["lifetime_buckets"]))
    rows = {}
    clients = defaultdict(set)
    for series, hours in greatest.items():
        record = about[series]
        before = dict.fromkeys(COUNTERS, 0) | {"lifetime_buckets": [0] * 12}
        for hour, seen in sorted(hours.items()):
            row = {name: seen[name] - before[name] for name in COUNTERS}
            row["expected_known_ms"] = row["connection_ms"]
            if record["expected_ms"] is None:
                row["expected_ms"] = row["expected_known_ms"] = None
            unknown = record["class"] == "unknown"
            row["unknown_ms"] = row["connection_ms"] if unknown else 0
            row["waste_ms"] = 0 if unknown else row["connection_ms"] - row["useful_ms"]
            row["peak_connections"] = seen["peak_connections"]
            row["peak_opened_sum"] = seen["peak_opened"]
            row["series"] = 1
            buckets = [
                a - b
                for a, b in zip(seen["lifetime_buckets"], before["lifetime_buckets"], strict=True)
            ]
            before = seen
            if not any(row[name] for name in (*COUNTERS[:9],)):
                continue
            key = (hour, *(record[name] for name in DIMS))
            clients[key].add((record["agent_id"], record["process"], record["client_id"]))
            into = rows.setdefault(
                key,
                dict.fromkeys(SUMS, 0)
                | {"idle_max_ms": None, "peak_opened": 0, "lifetime_buckets": [0] * 12},
            )
            for name, value in row.items():
                # A sum of nothing but nulls is null; a group here has nulls only, or none.
                into[name] = None if value is None else into[name] + value
            into["clients"] = len(clients[key])
            into["peak_opened"] = max(into["peak_opened"], seen["peak_opened"])
            if "idle_max_ms" in seen:
                into["idle_max_ms"] = max(into["idle_max_ms"] or 0, seen["idle_max_ms"])
            into["lifetime_buckets"] = [
                a + b for a, b in zip(into["lifetime_buckets"], buckets, strict=True)
            ]
    return rows


def truth_of(folder, table="hourly"):
    """Rows of the truth that a simulated fleet was written with, in the same shape."""
    rows = {}
    with (folder / "truth" / f"{table}.jsonl").open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            names = ("hour", *DIMS)
            row["hour"] = _milliseconds(row["hour"])
            rows[tuple(row[name] for name in names)] = {
                name: value for name, value in row.items() if name not in names
            }
    return rows


def _milliseconds(text):
    from datetime import datetime

    return int(datetime.fromisoformat(text).timestamp()) * 1000
