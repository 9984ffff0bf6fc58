"""What the contenders of the rollups' bench add up: from docs/tables.md, not from their code."""

from __future__ import annotations

__all__ = ["HOUR", "SUMS"]

HOUR = 3_600_000
"""Milliseconds."""

SUMS = (
    *("connection_ms", "useful_ms", "expected_ms", "expected_known_ms", "unknown_ms", "waste_ms"),
    *("opened", "closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown"),
    *("closed", "connect_failures", "bytes_out", "bytes_in", "retransmits", "lifetime_ms_sum"),
    *("minutes_seen", "minutes_expected", "peak_connections", "connections", "expected"),
)
