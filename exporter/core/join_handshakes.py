"""What a connection costs before the client counts: handshakes and logins, learned from the pairs.

A process has few of them at a listener: the full TLS handshake and the resumed one, each with the
same login. Sockets joined by growth show them, and idle sockets agree on them.
Pure.
"""

from __future__ import annotations

__all__ = [
    "CLIENT_ID_REPEATS",
    "EXACT",
    "JITTER",
    "ZERO",
    "Handshake",
    "Offset",
    "could_fit",
    "fits",
    "offsets_of",
    "same",
    "tells_of",
]

from typing import TYPE_CHECKING, NamedTuple

from exporter.core.join_laws import (
    LEAST_BYTES_PER_RECORD,
    MOST_RECORDS_PER_REQUEST,
    Law,
    Shape,
)

if TYPE_CHECKING:
    from exporter.core.join_laws import Counts
    from exporter.core.join_memory import Row
    from exporter.core.join_pair import PairHistory

# ECDSA signatures and SCRAM nonces make K vary by some bytes (research, TLS section 1 and 4).
JITTER = 4

# Java's login holds the client.id this many times: none without SASL, PLAIN 3, SCRAM 4.
CLIENT_ID_REPEATS = (0, 3, 4)


class Handshake(NamedTuple):
    """Both Ks of a fresh connection, seen at a client whose client.id has `length` characters.

    Where a direction is not exact, K is known but for a number of whole records.
    """

    out: int
    incoming: int
    shape: Shape
    length: int
    repeats: tuple[int, ...] = CLIENT_ID_REPEATS


class Offset(NamedTuple):
    """Both Ks of one pair, and in which direction they hold records that nobody counted."""

    out: int
    incoming: int
    shape: Shape
    length: int
    counts: Counts


EXACT = Shape(exact_out=True, exact_in=True)

ZERO = Handshake(0, 0, EXACT, 0, (0,))


def offsets_of(row: Row, pair: PairHistory) -> list[Offset]:
    """Return what a settled pair would have as its handshake, for each possible base."""
    if not pair.is_settled:
        return []
    length = row.login_length
    return [
        Offset(out, incoming, pair.shape, length, pair.counts) for out, incoming in pair.offsets()
    ]


def fits(offset: Offset, handshake: Handshake, law: Law, tolerance: int) -> bool:
    """Whether a pair's Ks are this handshake's, with whole records where those are not told."""
    return tells_of(offset, handshake) and could_fit(offset, handshake, law, tolerance)


def tells_of(offset: Offset, handshake: Handshake) -> bool:
    """Whether both show the same direction to the byte.

    Whole records in both directions are no evidence: among many nodes some agree by chance.
    """
    return (offset.shape.exact_out and handshake.shape.exact_out) or (
        offset.shape.exact_in and handshake.shape.exact_in
    )


def could_fit(offset: Offset, handshake: Handshake, law: Law, tolerance: int) -> bool:
    """Whether a pair's Ks do not contradict this handshake, whatever that is worth."""
    if not _agree(
        offset.incoming - handshake.incoming,
        law.incoming,
        (offset.shape.exact_in, handshake.shape.exact_in),
        offset.counts.incoming // LEAST_BYTES_PER_RECORD
        + MOST_RECORDS_PER_REQUEST * max(1, offset.counts.responses),
        tolerance,
    ):
        return False
    most = offset.counts.outgoing // LEAST_BYTES_PER_RECORD + MOST_RECORDS_PER_REQUEST * max(
        1, offset.counts.requests
    )
    longer = offset.length - handshake.length
    return any(
        _agree(
            offset.out - handshake.out - repeats * longer,
            law.out,
            (offset.shape.exact_out, handshake.shape.exact_out),
            most,
            tolerance,
        )
        for repeats in handshake.repeats
    )


def _agree(more: int, cost: int, exact: tuple[bool, bool], most: int, tolerance: int) -> bool:
    """Whether two Ks differ by nothing, or by records on the side that is not exact."""
    if exact == (True, True) or not cost:
        return abs(more) <= tolerance
    if (more + tolerance) % cost > 2 * tolerance:
        return False
    # A handshake that was seen through records does not tell how many there were.
    return not exact[1] or -tolerance <= more <= most * cost


def same(one: Handshake, other: Handshake, law: Law) -> bool:
    """Whether two handshakes may be one, seen more or less exactly."""
    if abs(one.incoming - other.incoming) > JITTER and (
        one.shape.exact_in and other.shape.exact_in
    ):
        return False
    longer = one.length - other.length
    out = {one.out - other.out - repeats * longer for repeats in (*one.repeats, *other.repeats)}
    if one.shape.exact_out and other.shape.exact_out:
        return any(abs(more) <= JITTER for more in out)
    return not law.out or any((more + JITTER) % law.out <= 2 * JITTER for more in out)
