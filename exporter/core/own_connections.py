"""Which ends of connections are the agent's own: those of its journal's producer.

Those that a poll meets are known by their process. One that is refused is over before that, and the
kernel says neither process nor port of it. But it says how much the socket would have received at
once, which follows from its receive buffer, and ours has a size of its own.
Pure.
"""

from __future__ import annotations

__all__ = ["got_through", "is_own"]

from typing import TYPE_CHECKING

from exporter.journal import OWN_RECEIVE_BUFFER

if TYPE_CHECKING:
    from exporter.model import ClosedSocket


def is_own(closed: ClosedSocket) -> bool:
    """Tell by its window whether a connection was the agent's own.

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
    return begins_with <= closed.window <= 2 * OWN_RECEIVE_BUFFER


def got_through(closed: ClosedSocket) -> bool:
    """Tell whether the other side ever answered."""
    return closed.info is not None and bool(closed.info.bytes_acked)
