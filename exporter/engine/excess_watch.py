"""Which connections are more than their process needs, looked for every few seconds.

Pure.
"""

from __future__ import annotations

__all__ = ["ExcessWatch"]

from typing import TYPE_CHECKING

from exporter.connections.excess import Joined, find_excess
from exporter.connections.seniority import Seniority

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.config.settings import Settings
    from exporter.connections.excess import Excess, RuleOf
    from exporter.connections.seniority import OwnerClients
    from exporter.connections.tracked import TrackedConnection
    from exporter.join.attribution import Attributor
    from exporter.model import ClientThreads

# Excess shows over half a minute: to look more often finds nothing earlier.
EXCESS_SECONDS = 5.0


class ExcessWatch:
    """The clients of each process by age, and what is excess of them; carried from poll to poll."""

    def __init__(self, settings: Settings, rule_of: RuleOf) -> None:
        rules = settings.clients.rules
        self._has_limits = any(rule.instances or rule.connections_per_broker for rule in rules)
        self._excess_after = settings.classes.excess_after
        self._rule_of = rule_of
        self._seniority = Seniority()
        self._at = float("-inf")
        self.processes: Mapping[str, OwnerClients] = {}
        """The clients of each process by the owner's key."""
        self.excess: Mapping[int, Excess] = {}
        """Why a connection is excess, by cookie."""

    def update(
        self,
        connections: Mapping[int, TrackedConnection],
        attributor: Attributor,
        threads: Mapping[str, ClientThreads],
        now: float,
        *,
        at_once: bool,
    ) -> set[int]:
        """Look again, if it is time; return the connections of which something changed."""
        if now - self._at < EXCESS_SECONDS and not at_once:
            return set()
        self._at = now
        joined = attributor.attributions
        self.processes = self._seniority.sort(connections.values(), joined)
        before, self.excess = self.excess, {}
        free = len(connections) > len(joined) > 0
        if self._has_limits or free or attributor.outlived:
            self.excess = find_excess(
                self.processes.values(),
                Joined(joined, attributor.outlived, attributor.is_claimable),
                self._rule_of,
                self._excess_after,
                now,
                threads,
            )
        return (before.keys() ^ self.excess.keys()) & connections.keys()
