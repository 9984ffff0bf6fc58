"""What looking at connections and counting them have in common.

Pure.
"""

from __future__ import annotations

__all__ = ["Known"]

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from exporter.brokers.directory import Directory
from exporter.connections.kernel_clients import Clients
from exporter.connections.tracker import Tracker
from exporter.join.attribution import Attributor
from exporter.model import GroupsReading
from exporter.totals.ledger import Ledger

if TYPE_CHECKING:
    from exporter.config.settings import ClientRule, Settings
    from exporter.connections.view import View
    from exporter.model import Attribution, Owner
    from exporter.totals.accounts import Bookkeeping


class Known:
    """Everything that is carried from poll to poll and that more than one part reads."""

    def __init__(self, settings: Settings, started: float, accounts: Bookkeeping) -> None:
        self.settings = settings
        self.accounts = accounts
        self.tracker = Tracker(started, settings.limits.connections)
        self.attributor = Attributor()
        self.directory = Directory()
        self.ledger = Ledger(settings.limits.clients)
        self.views: dict[int, View] = {}
        self.groups = GroupsReading()
        self.clients = Clients()

    def rule_of(self, attribution: Attribution | None, owner: Owner) -> ClientRule | None:
        """Return the first rule that means this client."""
        client_id = attribution.client.client_id if attribution is not None else ""
        for rule in self.settings.clients.rules:
            if fnmatchcase(client_id, rule.client_id) and fnmatchcase(owner.name, rule.process):
                return rule
        return None

    def has_learned(self, attribution: Attribution) -> bool:
        """Whether a client has talked to a broker under its real id."""
        return self.attributor.has_learned(attribution.client)
