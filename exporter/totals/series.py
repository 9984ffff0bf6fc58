"""One series of the store: what one client's connections to one broker, of one class, add up to.

Everything is a whole number: sums are exact, and two series add up index by index.
Pure.
"""

from __future__ import annotations

__all__ = [
    "BY_BROKER",
    "BY_CLIENT",
    "CLOSED",
    "CONNECTION_US",
    "EXPECTED_US",
    "LIFETIMES",
    "LIFETIME_US",
    "NUMBERS",
    "OPENED",
    "OTHER",
    "RECEIVED",
    "RETRANSMITS",
    "SENT",
    "USEFUL_US",
    "Frozen",
    "Series",
    "SeriesKey",
    "bucket_of",
    "microseconds",
]

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import ClosedBy
from exporter.snapshot import LIFETIME_BUCKETS

if TYPE_CHECKING:
    from exporter.connections.endings import ClosedConnection
    from exporter.model import Cause, ConnectionClass, Role
    from exporter.snapshot import ClientBroker
    from exporter.totals.journal_series import JournalSeries

# The name of what is not told apart.
OTHER = "other"

# Where each number of a series stands: first those that metrics show by client, then those that
# they show by broker (decisions/0012), then what only the journal has.
CONNECTION_US, USEFUL_US, LIFETIME_US = range(3)
LIFETIMES = slice(3, 4 + len(LIFETIME_BUCKETS))
BY_CLIENT = slice(0, LIFETIMES.stop)
OPENED, SENT, RECEIVED, RETRANSMITS = range(BY_CLIENT.stop, BY_CLIENT.stop + 4)
CLOSED = {side: RETRANSMITS + 1 + index for index, side in enumerate(ClosedBy)}
BY_BROKER = slice(OPENED, OPENED + 4 + len(CLOSED))
EXPECTED_US = BY_BROKER.stop
NUMBERS = EXPECTED_US + 1


class SeriesKey(NamedTuple):
    """What a series is about; `library` is a name as in the journal, None where it is unknown."""

    client: ClientBroker
    library: str | None
    library_version: str | None
    connection_class: ConnectionClass
    role: Role
    cause: Cause | None


class Frozen(NamedTuple):
    """A series as it was at one moment, and how fast its times grow from there."""

    key: SeriesKey
    numbers: tuple[int, ...]
    """Without what was folded into `other` before."""
    held: int
    is_useful: bool
    settled_at: int


class Series:
    """The numbers of one series, which only grow; only the store writes here."""

    __slots__ = (
        "_settled_at",
        "counts_bytes",
        "expected",
        "folded",
        "frozen",
        "held",
        "is_useful",
        "journal",
        "key",
        "numbers",
    )

    def __init__(self, key: SeriesKey, now: int) -> None:
        self.key = key
        self.numbers = [0] * NUMBERS
        self.held = 0
        self.expected = 0
        # Connections of one class and cause are all useful, or none of them is.
        self.is_useful = False
        self.counts_bytes = False
        self.folded: list[int] | None = None
        """What metrics show as `other`, since the client was away for long."""
        self.journal: JournalSeries | None = None
        """The series of the journal that it is written in; None while there is nothing new."""
        self.frozen: Frozen | None = None
        self._settled_at = now

    @property
    def is_in_use(self) -> bool:
        """Whether it grows with time."""
        return bool(self.held or self.expected)

    def settle(self, now: int) -> None:
        """Add the time since the last change; whatever is about to change was so until now."""
        elapsed = now - self._settled_at
        if elapsed <= 0:
            return
        self._settled_at = now
        if self.held or self.expected:
            self.numbers[CONNECTION_US] += self.held * elapsed
            self.numbers[USEFUL_US] += self.held * elapsed * self.is_useful
            self.numbers[EXPECTED_US] += self.expected * elapsed

    def end(self, closed: ClosedConnection) -> None:
        """Count an end; a connection that was never established has no lifetime."""
        self.numbers[CLOSED[closed.closed_by]] += 1
        if closed.closed_by is not ClosedBy.REFUSED:
            self.numbers[LIFETIME_US] += microseconds(closed.lifetime_seconds)
            self.numbers[LIFETIMES.start + bucket_of(closed.lifetime_seconds)] += 1

    def freeze(self) -> Frozen:
        """Return a copy that no later change reaches, made again only after a change."""
        if self.frozen is None:
            self.frozen = Frozen(
                self.key, tuple(self.unfolded()), self.held, self.is_useful, self._settled_at
            )
        return self.frozen

    def unfolded(self) -> list[int]:
        """Return the numbers without what was folded."""
        if self.folded is None:
            return self.numbers
        return [new - old for new, old in zip(self.numbers, self.folded, strict=True)]


def microseconds(seconds: float) -> int:
    """Return a time of the monotonic clock as a whole number."""
    return round(seconds * 1e6)


def bucket_of(seconds: float) -> int:
    """Return which of LIFETIME_BUCKETS a lifetime is in; the one after them has the rest."""
    return bisect_left(LIFETIME_BUCKETS, seconds)
