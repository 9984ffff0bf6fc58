"""What looking at connections and counting them have in common.

Pure.
"""

from __future__ import annotations

__all__ = ["Known"]

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from exporter.core.attribution import Attributor
from exporter.core.clients import Clients
from exporter.core.directory import Directory
from exporter.core.ledger import Ledger
from exporter.core.tracker import Tracker
from exporter.model import GroupsReading

if TYPE_CHECKING:
    from exporter.core.accounts import Bookkeeping
    from exporter.core.view import View
    from exporter.model import Attribution, Owner
    from exporter.settings import ClientRule, Settings


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
