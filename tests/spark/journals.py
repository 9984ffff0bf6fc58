"""Journals written by hand: an agent whose counters the test moves, minute by minute."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

__all__ = ["START_MS", "Agent"]

START_MS = 1_767_600_000_000  # 2026-01-05T08:00:00Z, a Monday
MINUTE_MS = 60_000
WHERE = {
    "cluster": "east",
    "kafka_cluster": "main",
    "namespace": "shop",
    "service": "orders",
    "pod": "orders-1",
    "node": "n1",
}
AGENT_COUNTERS = (
    *("covered_ms", "polls", "failed_polls", "events_lost", "unattributed_closed"),
    *("records_dropped", "own_connection_ms", "own_opened"),
)
COUNTERS = (
    *("connection_ms", "useful_ms", "expected_ms", "opened", "closed_by_client"),
    *("closed_by_broker", "closed_by_reset", "closed_unknown", "connect_failures"),
    *("bytes_out", "bytes_in", "retransmits", "lifetime_ms_sum"),
)


@dataclass
class Agent:
    """Writes one batch for each minute; `series` maps a number to its dimensions."""

    agent_id: str = "agent-1"
    boot_id: str = "boot-1"
    since_ms: int = START_MS
    where: dict[str, Any] = field(default_factory=lambda: dict(WHERE))
    seq: int = 0
    at_ms: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[int, dict[str, Any]] = field(default_factory=dict)
    dimensions: dict[int, dict[str, Any]] = field(default_factory=dict)
    state: dict[int, dict[str, Any]] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=lambda: dict.fromkeys(AGENT_COUNTERS, 0))

    def __post_init__(self) -> None:
        """Begin at the agent's start."""
        self.at_ms = self.since_ms

    def series(self, number: int, **dimensions: Any) -> None:
        """Begin a series, whose counters are 0 now."""
        self.counters[number] = {**dict.fromkeys(COUNTERS, 0), "lifetime_buckets": [0] * 12}
        self.dimensions[number] = {
            "process": "java",
            "client_id": "orders-producer",
            "client_kind": "producer",
            "library": "java",
            "library_version": "4.4.0",
            "broker_id": 1,
            "broker": "10.0.0.1:9092",
            "folded": False,
            "class": "data",
            "role": "data",
            "cause": None,
            **dimensions,
            "since_ms": self.at_ms,
        }
        self.state[number] = {
            "idle_max_ms": None,
            "peak_connections": 1,
            "peak_opened": 0,
            "connections": 1,
            "expected": 1,
            "instances": 1,
            "broker_max_connections": None,
            "broker_max_connections_per_ip": None,
        }

    def grow(self, number: int, **by: int) -> None:
        """Let counters of a series grow."""
        for name, value in by.items():
            self.counters[number][name] += value

    def write(self, *, minutes: int = 1, final: bool = False) -> None:
        """Write the batch that ends so many minutes later, at the next whole one."""
        self.at_ms = (self.at_ms // MINUTE_MS + minutes) * MINUTE_MS
        self.seq += 1
        self.own["covered_ms"] += MINUTE_MS * minutes
        envelope = {
            "schema_version": 1,
            "agent_id": self.agent_id,
            "boot_id": self.boot_id,
            "seq": self.seq,
            "records": 1 + len(self.counters),
            "at_ms": self.at_ms,
            "interval_ms": MINUTE_MS,
            "final": final,
            **self.where,
        }
        self.records.append(
            {
                **envelope,
                "kind": "agent",
                "index": 0,
                "since_ms": self.since_ms,
                "agent_version": "0.1",
                "boot_reason": "start",
                "read_method": "sock_diag",
                **self.own,
                "own_connections": 0,
                "connections": len(self.counters),
                "series": len(self.counters),
                "folded_clients": 0,
            }
        )
        for index, number in enumerate(sorted(self.counters), 1):
            self.records.append(
                {
                    **envelope,
                    "kind": "connections",
                    "index": index,
                    "series": number,
                    **self.dimensions[number],
                    **json.loads(json.dumps(self.counters[number])),
                    **self.state[number],
                }
            )

    def lines(self) -> list[str]:
        """Return the journal's lines."""
        return [json.dumps(record) for record in self.records]
