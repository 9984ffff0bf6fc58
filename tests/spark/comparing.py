"""Tables as plain values, so that two of them can be held against each other to the last digit."""

from __future__ import annotations

from pyspark.sql import functions as F

__all__ = ["ALL", "contents", "differences"]

ALL = (
    *("silver", "quarantine", "hourly", "brokers", "daily", "coverage", "findings"),
    *("savings", "forecast"),
)
# The bytes of a sketch may differ while it says the same; `clients` is what it says. Where a text
# was found is no figure.
_NOT_COMPARED = {"clients_sketch", "source"}


def contents(tables, name):
    """Return every row as one JSON text, sorted."""
    rows = tables.read(name)
    columns = sorted(set(rows.columns) - _NOT_COMPARED)
    texts = rows.select(F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("row"))
    return sorted(row["row"] for row in texts.collect())


def differences(left, right):
    """Return the names of the tables that are not the same, each with the first odd rows."""
    odd = {}
    for name in ALL:
        one, other = contents(left, name), contents(right, name)
        if one != other:
            odd[name] = sorted(set(one) ^ set(other))[:2] or [f"{len(one)} and {len(other)} rows"]
    return odd
