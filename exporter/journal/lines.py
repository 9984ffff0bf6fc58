"""A batch of records as JSON lines: one object, one line, ASCII only, keys always in one order."""

from __future__ import annotations

__all__ = ["Lines", "lines_of"]

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from exporter.metrics.labels import safe_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.totals.journal_values import Batch

# What others call themselves; all else is ours or the operator's.
_NAMES = frozenset({"process", "client_id", "library_version", "broker"})

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


class Lines(NamedTuple):
    """The lines of one batch, each with its newline; `name` sorts batches by their time."""

    name: str
    data: bytes
    records: int


def lines_of(batch: Batch, label_bytes: int) -> Lines:
    """Encode a batch; a longer text is cut, whatever a client calls itself."""
    first = batch.records[0]
    return Lines(
        name=f"{batch.at_ms:015d}-{first['boot_id'][:12]}-{first['seq']:010d}",
        data="".join(
            _encode(dict(record) | _names(record, label_bytes)) + "\n" for record in batch.records
        ).encode("ascii"),
        records=len(batch.records),
    )


def _names(record: Mapping[str, Any], label_bytes: int) -> dict[str, str]:
    return {
        key: safe_label(record[key], label_bytes)
        for key in _NAMES & record.keys()
        if record[key] is not None
    }
