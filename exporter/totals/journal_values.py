"""What the journal's core and its sinks hand over: who writes it, the agent's figures, batches."""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION", "AgentFigures", "Batch", "Place"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who writes the journal and where: the same in all its records."""

    agent_id: str
    agent_version: str
    labels: Mapping[str, str | None]
    """`cluster`, `kafka_cluster`, `namespace`, `service`, `pod` and `node`."""


class AgentFigures(NamedTuple):
    """What the agent tells of itself: counters since its start, and what is so now."""

    polls: int = 0
    failed_polls: int = 0
    events_lost: int = 0
    unattributed_closed: int = 0
    records_dropped: int = 0
    own_opened: int = 0
    own_connections: int = 0
    folded_clients: int = 0
    read_method: str = "sock_diag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """All records of one moment, as `journal.schema.json` describes them."""

    at_ms: int
    final: bool
    records: Sequence[Mapping[str, Any]]
