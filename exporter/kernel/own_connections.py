"""Identifies the agent's own connections: those of its journal's producer, and no client's.

An open connection whose process is found is that process's. Once its process has closed it, the
size of its receive buffer shows it, which is one of its own. One that ends between two polls leaves
neither; but the kernel says how much it would have received at once, which follows from the buffer.
Nothing else decides this: the producer sets the size, a dump asks for it (decisions/0009).
Pure.
"""

from __future__ import annotations

__all__ = ["OWN_RECEIVE_BUFFER", "WithoutOwn", "is_own", "leave_out_own"]

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import OwnerRung

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from exporter.model import ClosedSocket, KernelReading, Owner

# The receive buffer of the agent's own connections to brokers: a size that no client uses, so that
# they are known by it when they end before any poll has met them.
OWN_RECEIVE_BUFFER = 12_347

# The kernel keeps twice of what was asked for: its own records of the bytes need room, too.
_MARK = 2 * OWN_RECEIVE_BUFFER


class WithoutOwn(NamedTuple):
    """What is left for clients, and how many attempts of the agent's own failed."""

    kernel: KernelReading
    owners: Mapping[int, Owner]
    failed: int = 0


def leave_out_own(
    kernel: KernelReading, owners: Mapping[int, Owner], known: Container[int]
) -> WithoutOwn:
    """Take the agent's own connections out of a reading; `known` are cookies of clients."""
    marked = {each.cookie for each in kernel.sockets if each.receive_buffer == _MARK}
    unclaimed = {
        cookie for cookie in marked & owners.keys() if owners[cookie].rung is not OwnerRung.PROC_FD
    }
    if unclaimed:
        owners = {cookie: each for cookie, each in owners.items() if cookie not in unclaimed}
    ended = {each.cookie: each for each in kernel.closed if is_own(each)}
    # A window may mislead; what a poll has met is known for certain.
    for reading in kernel.sockets if ended else ():
        if reading.cookie not in marked:
            ended.pop(reading.cookie, None)
    ended = {cookie: each for cookie, each in ended.items() if cookie not in known}
    if not ended:
        return WithoutOwn(kernel, owners)
    kept = tuple(each for each in kernel.closed if each.cookie not in ended)
    failed = sum(not _was_answered(each) for each in ended.values())
    return WithoutOwn(replace(kernel, closed=kept), owners, failed)


def is_own(closed: ClosedSocket) -> bool:
    """Return whether a connection that ended was the agent's own, by its window.

    At first it is the buffer, in whole segments where it holds several. It grows with what is
    received, up to the double, which still is less than what a Java client begins with.
    """
    if closed.window is None or not closed.segment:
        return False
    begins_with = OWN_RECEIVE_BUFFER
    if begins_with > closed.segment:
        begins_with -= begins_with % closed.segment
    if not _was_answered(closed):
        return closed.window == begins_with
    return begins_with <= closed.window <= _MARK


def _was_answered(closed: ClosedSocket) -> bool:
    """Return whether the other side ever answered."""
    return closed.info is not None and bool(closed.info.bytes_acked)
