"""Safe label values, and the limit on the number of series.

Pure: values in, values out. Sums over all labels stay what they were.
"""

from __future__ import annotations

__all__ = ["OTHER", "Labels", "safe_label"]

from collections import Counter
from typing import TYPE_CHECKING

from exporter.snapshot import LIFETIME_BUCKETS, ClientBroker

if TYPE_CHECKING:
    from collections.abc import Iterable

OTHER = "other"

# The tilde and eight digits keep two long names apart that begin alike.
_CUT_MARK_BYTES = 9
# A histogram has a series a bucket, +Inf, _sum and _count: more than there are classes.
_SERIES_PER_PAIR = len(LIFETIME_BUCKETS) + 3


def safe_label(value: str, label_bytes: int) -> str:
    """Show what is invisible as an escape, and cut what is longer than `label_bytes`.

    Not printable are the controls that move cursors and forge lines, U+2028 and U+2029, the marks
    that make one name look like another, and half a surrogate pair (a process name that is not
    UTF-8), which could not be encoded at all.
    """
    shown = value
    if not value.isprintable():
        shown = "".join(map(_escaped, value))
    encoded = shown.encode()
    if len(encoded) <= label_bytes:
        return shown
    import hashlib

    digest = hashlib.blake2s(encoded, digest_size=4).hexdigest()
    kept = encoded[: max(label_bytes - _CUT_MARK_BYTES, 0)]
    return f"{kept.decode(errors='ignore')}~{digest}"[:label_bytes]


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


class Labels:
    """What each client and broker is called in the exposition; the one that comes first stays.

    Three quarters of `series` go to pairs by name; the rest is kept for `other` of each broker.
    A pair that was once folded stays so while it lives: a counter that moved from `other` to a
    series of its own would look like a reset.
    """

    def __init__(self, *, series: int, label_bytes: int) -> None:
        pairs = max(series // _SERIES_PER_PAIR, 2)
        self._room_for_others = max(pairs // 4, 1)
        self.room = pairs - self._room_for_others
        self._label_bytes = label_bytes
        self._shown: dict[ClientBroker, ClientBroker] = {}
        self._named: Counter[ClientBroker] = Counter()
        self._others: Counter[ClientBroker] = Counter()
        self.renamed = 0
        self.folded = 0

    def __getitem__(self, pair: ClientBroker) -> ClientBroker:
        return self._shown[pair]

    def settle(self, seen: set[ClientBroker]) -> None:
        """Forget the pairs that are gone, and find names for the new ones."""
        for pair in self._shown.keys() - seen:
            self._release(pair)
        for pair in sorted(seen - self._shown.keys()):
            self._admit(pair)

    def safe(self, values: Iterable[str]) -> tuple[str, ...]:
        """Make labels other than a client's safe."""
        return tuple(safe_label(value, self._label_bytes) for value in values)

    def _admit(self, pair: ClientBroker) -> None:
        name = ClientBroker(*self.safe(pair))
        if not _is_other(name) and not self._has_room(name):
            name = ClientBroker(OTHER, OTHER, OTHER, name.broker_id, name.broker)
        full = len(self._others) >= self._room_for_others - 1
        if _is_other(name) and name not in self._others and full:
            name = ClientBroker(OTHER, OTHER, OTHER, OTHER, OTHER)
        (self._others if _is_other(name) else self._named)[name] += 1
        self.folded += _is_other(name) and not _is_other(pair)
        self.renamed += name != pair
        self._shown[pair] = name

    def _has_room(self, name: ClientBroker) -> bool:
        if name in self._named or len(self._named) < self.room:
            return True
        # What a client had at brokers that are gone: its sums must not lose it.
        return name.broker == OTHER and any(each[:3] == name[:3] for each in self._named)

    def _release(self, pair: ClientBroker) -> None:
        name = self._shown.pop(pair)
        self.renamed -= name != pair
        self.folded -= _is_other(name) and not _is_other(pair)
        held = self._others if _is_other(name) else self._named
        held[name] -= 1
        if not held[name]:
            del held[name]


def _is_other(pair: ClientBroker) -> bool:
    # A client may call itself "other"; no kind of client is called so.
    return pair.client_kind == OTHER
