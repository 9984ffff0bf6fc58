"""The join's answers in words: what was compared, and why it decides.

Pure.
"""

from __future__ import annotations

__all__ = ["claim_of", "evidence_of", "names_of"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.core.join_rules import Match
    from exporter.core.join_state import Row, RowState
    from exporter.model import Endpoint

# Names of equals that are shown; of a hundred equal clients nobody reads them all.
MOST_EQUALS = 32


def claim_of(row_state: RowState) -> str:
    """Say what the client counts."""
    counts = row_state.counts
    figures = f"{counts.outgoing} B out and {counts.incoming} B in" if counts else "no bytes"
    return f"the client counts {figures} for node {row_state.node.node_id}"


def evidence_of(match: Match, row_state: RowState, remote: Endpoint) -> str:
    """Say by which rule a socket is a node."""
    claim = claim_of(row_state)
    return {
        "totals": f"{claim}, and the kernel the same for this socket",
        "growth": f"{claim}; they grow in step with this socket's and with no other's",
        "handshake": f"{claim}; this socket has those and the handshake that its siblings have",
        "bounds": f"{claim}; read after read that lies between this socket's before and after",
        "endpoint": f"{claim}, its only open node at {remote}",
    }[match.rule]


def names_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """Name clients' nodes in words."""
    return tuple(
        f"{row.client.kind} {row.client.client_id!r} node {row.node_id}"
        for row in sorted(rows)[:MOST_EQUALS]
    )
