"""Identifies the agent's own connections: those of its journal's producer.

Those that a poll meets are known by their process or, once that has closed them, by the size of
their receive buffer, which is one of its own. One that ends between two polls leaves neither; but
the kernel says how much it would have received at once, and that follows from the buffer.
Pure.
"""

from __future__ import annotations

__all__ = ["OWN_RECEIVE_BUFFER", "got_through", "is_marked", "is_own"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exporter.model import ClosedSocket, SocketReading

# The receive buffer of the agent's own connections to brokers: a size that no client uses, so that
# they are known by it when they end before any poll has met them.
OWN_RECEIVE_BUFFER = 12_347

# The kernel keeps twice of what was asked for: its own records of the bytes need room, too.
_MARK = 2 * OWN_RECEIVE_BUFFER


def is_marked(reading: SocketReading) -> bool:
    """Decide by its receive buffer whether an open connection is the agent's own."""
    return reading.receive_buffer == _MARK


def is_own(closed: ClosedSocket) -> bool:
    """Decide by its window whether a connection was the agent's own.

    At first it is the buffer, in whole segments where it holds several. It grows with what is
    received, up to the double, which still is less than what a Java client begins with.
    """
    if closed.window is None or not closed.segment:
        return False
    begins_with = OWN_RECEIVE_BUFFER
    if begins_with > closed.segment:
        begins_with -= begins_with % closed.segment
    if not got_through(closed):
        return closed.window == begins_with
    return begins_with <= closed.window <= _MARK


def got_through(closed: ClosedSocket) -> bool:
    """Return whether the other side ever answered."""
    return closed.info is not None and bool(closed.info.bytes_acked)
