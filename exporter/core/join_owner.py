"""Whose sockets a source's clients hold: the sender's, or those that fit its figures best.

Pure.
"""

from __future__ import annotations

__all__ = ["elected_owner", "known_owner"]

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exporter.core.join_memory import Socket
    from exporter.core.join_pair import PairHistory
    from exporter.core.join_state import SourceState
    from exporter.core.tracker import TrackedConnection
    from exporter.model import SourceReading

# Equal totals weigh more than growth in step: clients of one kind grow alike in two processes.
EXACT_VOTE = 3
LEAST_VOTES = 4

# A lead is clear at this ratio, and a smaller one is when it is beyond this many deviations.
CLEAR_LEAD = 1.5
CLEAR_DEVIATIONS = 3


def known_owner(
    state: SourceState, reading: SourceReading, connections: Mapping[int, TrackedConnection]
) -> str | None:
    """Return the owner's key where the sender or the joined sockets tell it."""
    if reading.sender_pid is not None:
        for tracked in connections.values():
            if tracked.owner.pid == reading.sender_pid:
                return tracked.owner.key
    # Of the sockets as they are now: an owner may be known better than when it was joined.
    owners = Counter(
        connections[cookie].owner.key
        for cookie, socket in state.sockets.items()
        if socket.row is not None and cookie in connections
    )
    return owners.most_common(1)[0][0] if owners else None


def elected_owner(
    state: SourceState,
    reading: SourceReading,
    sockets: Sequence[Socket],
    connections: Mapping[int, TrackedConnection],
) -> str | None:
    """Return the owner whose sockets fit best; None while two processes fit about as well."""
    known = known_owner(state, reading, connections)
    if known is not None:
        return known
    owners = {socket: connections[socket.cookie].owner.key for socket in sockets}
    if len(set(owners.values())) == 1:
        return next(iter(owners.values()))
    for socket, owner in owners.items():
        if socket.pairs:
            state.owner_votes[owner] += max(_vote(pair) for pair in socket.pairs.values())
    (first, most), (_, second) = [*state.owner_votes.most_common(2), ("", 0), ("", 0)][:2]
    clear = most >= LEAST_VOTES and most >= CLEAR_LEAD * second
    lasting = most - second > CLEAR_DEVIATIONS * (most + second) ** 0.5
    return first if clear or lasting else None


def _vote(pair: PairHistory) -> int:
    if pair.is_exact:
        return EXACT_VOTE
    return int(pair.growths > 1 and not pair.rebased)
