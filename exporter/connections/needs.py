"""Expected connections to each broker, kept for a while after the broker has gone.

Who needs a connection is known from the connections that there are. A broker that goes takes them
all with it, and with them what was expected of it: the very moment when it is missed. So what a
broker ended stays expected until the client has had the time to come back.
Pure.
"""

from __future__ import annotations

__all__ = ["MISSED_SECONDS", "Need", "Needs", "client_of"]

from typing import TYPE_CHECKING, NamedTuple

from exporter.model import ClosedBy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.connections.view import View
    from exporter.model import ClientKey
    from exporter.snapshot import ClientBroker, Expectation

    Pair = tuple[ClientBroker, ClientKey | str | None]

# A broker in a rolling restart is back within it, and a scrape every minute has seen it.
MISSED_SECONDS = 60.0

# A client that closes has no need of its broker any more; whether it was the client is not known
# of every end.
_MISSED = frozenset({ClosedBy.BROKER, ClosedBy.ABORT, ClosedBy.UNKNOWN})


class Need(NamedTuple):
    """How many connections a client needs to a broker. `view` is one that it holds, or held."""

    view: View
    expectation: Expectation


class Needs:
    """What every client needs of every broker, carried from count to count."""

    def __init__(self) -> None:
        self._needs: dict[Pair, Need] = {}
        self._missed: dict[Pair, float] = {}

    def lose(self, view: View, closed_by: ClosedBy, now: float) -> None:
        """Note that a connection ended."""
        pair = _pair(view)
        if pair in self._needs and closed_by in _MISSED:
            self._missed[pair] = now
        elif closed_by is ClosedBy.CLIENT:
            self._missed.pop(pair, None)

    def is_due(self, now: float) -> bool:
        """Whether something has been missed for long enough."""
        return any(now - since >= MISSED_SECONDS for since in self._missed.values())

    def update(self, present: Iterable[Need], now: float) -> list[Need]:
        """Take what the open connections show; return that and what is missed."""
        needs = {_pair(need.view): need for need in present}
        for pair, since in list(self._missed.items()):
            before, after = self._needs.get(pair), needs.get(pair)
            is_back = after is not None and (
                before is None or after.expectation.count >= before.expectation.count
            )
            if before is None or is_back or now - since >= MISSED_SECONDS:
                del self._missed[pair]
            else:
                needs[pair] = before
        self._needs = needs
        return list(needs.values())


def client_of(view: View) -> ClientKey | str | None:
    """Return the one client whose connection it is; None where that is not known."""
    if view.attribution is not None:
        return view.attribution.client
    return None if view.client is None else view.client.key


def _pair(view: View) -> Pair:
    return view.key, client_of(view)
