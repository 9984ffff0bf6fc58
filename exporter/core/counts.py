"""How many connections there are, are of use and are needed, by client and broker.

Pure.
"""

from __future__ import annotations

__all__ = ["Counts"]

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from exporter.core.expected import ClientUse, expected_by_broker
from exporter.core.needs import Need, Needs, client_of
from exporter.model import ConnectionClass, Role
from exporter.snapshot import Expectation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from exporter.core.view import View
    from exporter.model import Attribution, ClientKey, ClosedBy, Owner, OwnerRung
    from exporter.settings import ClientRule
    from exporter.snapshot import ClientBroker

# Nobody needs a connection of these classes, so they do not make one expected.
_NOT_EXPECTED = frozenset({ConnectionClass.ZOMBIE, ConnectionClass.EXCESS})
_NO_COUNTS = dict.fromkeys(ConnectionClass, 0)


class _Use(NamedTuple):
    """One of a client's connections to a broker, and the roles of them all."""

    view: View
    roles: set[Role]


class Counts:
    """Counts of all connections; replaced, never changed, so that a snapshot may keep them.

    `rule_of` tells what the configuration says of a client, `has_learned` whether it knows its
    brokers.
    """

    def __init__(
        self,
        rule_of: Callable[[Attribution | None, Owner], ClientRule | None],
        has_learned: Callable[[Attribution], bool],
    ) -> None:
        self._rule_of = rule_of
        self._has_learned = has_learned
        self._needs = Needs()
        self.by_class: Mapping[ClientBroker, Mapping[ConnectionClass, int]] = {}
        self.useful: Mapping[ClientBroker, int] = {}
        self.expected: Mapping[ClientBroker, Expectation] = {}
        self.rungs: Mapping[OwnerRung, int] = {}

    def lose(self, view: View, closed_by: ClosedBy, now: float) -> None:
        """Note that a connection ended; it is to be counted after that."""
        self._needs.lose(view, closed_by, now)

    def is_due(self, now: float) -> bool:
        """Whether time alone makes another count."""
        return self._needs.is_due(now)

    def count(self, views: Collection[View], now: float) -> Sequence[Need]:
        """Count everything anew; return what each client needs of each broker."""
        counts: dict[ClientBroker, dict[ConnectionClass, int]] = {
            key: dict(_NO_COUNTS) for key in self.by_class if key in self.expected
        }
        useful: Counter[ClientBroker] = Counter()
        uses: dict[tuple[ClientBroker, ClientKey | str], _Use] = {}
        for view in views:
            by_class = counts.get(view.key)
            if by_class is None:
                by_class = counts[view.key] = dict(_NO_COUNTS)
            by_class[view.verdict.connection_class] += 1
            useful[view.key] += view.verdict.useful
            client = client_of(view)
            if client is not None and view.verdict.connection_class not in _NOT_EXPECTED:
                use = uses.setdefault((view.key, client), _Use(view, set()))
                use.roles.add(view.verdict.role)
        present = (
            Need(use.view, expected_by_broker(self._use_of(use.view, use.roles)))
            for use in uses.values()
            # Where a client's use of a broker is not known, neither is what it needs there.
            if use.view.attribution is not None or Role.UNKNOWN not in use.roles
        )
        needs = self._needs.update(present, now)
        self.expected = _sums(needs)
        self.by_class, self.useful = counts, dict(useful)
        self.rungs = Counter(view.owner.rung for view in views)
        return needs

    def _use_of(self, view: View, roles: Iterable[Role]) -> ClientUse:
        attribution = view.attribution
        rule = self._rule_of(attribution, view.owner)
        return ClientUse(
            library=view.library,
            kind=view.client_kind,
            roles=frozenset(roles),
            learned=(
                self._has_learned(attribution)
                if attribution is not None
                else view.client is not None and view.client.has_learned
            ),
            configured=rule.connections_per_broker if rule is not None else None,
        )


def _sums(needs: Iterable[Need]) -> dict[ClientBroker, Expectation]:
    """Add up what instances of one name need: librdkafka calls every client `rdkafka`."""
    summed: dict[ClientBroker, Expectation] = {}
    for view, each in needs:
        known = summed.get(view.key)
        summed[view.key] = (
            each
            if known is None
            else Expectation(known.count + each.count, known.rules + each.rules)
        )
    return summed
