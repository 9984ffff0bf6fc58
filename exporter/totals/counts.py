"""How many connections there are, are of use and are needed, by client and broker.

Pure.
"""

from __future__ import annotations

__all__ = ["Counts"]

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.expected import ClientUse, expected_by_broker
from exporter.connections.needs import Need, Needs, client_of
from exporter.model import ConnectionClass, Role, TcpState
from exporter.snapshot import Expectation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from exporter.config.settings import ClientRule
    from exporter.connections.view import View
    from exporter.model import Attribution, ClientKey, ClosedBy, Owner, OwnerRung
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
        has_learned: Callable[[ClientKey], bool],
    ) -> None:
        self._rule_of = rule_of
        self._has_learned = has_learned
        self._needs = Needs()
        self.by_class: Mapping[ClientBroker, Mapping[ConnectionClass, int]] = {}
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
        uses: dict[tuple[ClientBroker, ClientKey | str], _Use] = {}
        # Without metrics and groups a client is as many as it has connections to a broker.
        loose: dict[tuple[ClientBroker, int | str], _Use] = {}
        for view in views:
            by_class = counts.get(view.key)
            if by_class is None:
                by_class = counts[view.key] = dict(_NO_COUNTS)
            by_class[view.verdict.connection_class] += 1
            role = _role_in_use(view)
            if role is None or view.verdict.connection_class in _NOT_EXPECTED:
                continue
            client = client_of(view)
            if client is not None:
                use = uses.setdefault((view.key, client), _Use(view, set()))
            else:
                use = loose.setdefault((view.key, self._loose(view)), _Use(view, set()))
            use.roles.add(role)
        known = [self._need(use) for use in uses.values()]
        needs = self._needs.update([*known, *self._of_loose(loose.values())], now)
        self.expected = _sums(needs)
        self.by_class = counts
        self.rungs = Counter(view.owner.rung for view in views)
        return needs

    def _loose(self, view: View) -> str | int:
        """Return what tells a client without metrics and groups from the others of its process."""
        rule = self._rule_of(None, view.owner)
        # Where the operator says how many connections a client holds, all of them are one client's.
        return view.cookie if rule is None or rule.connections_per_broker is None else ""

    def _need(self, use: _Use) -> Need:
        return Need(use.view, expected_by_broker(self._use_of(use.view, use.roles)))

    def _of_loose(self, uses: Iterable[_Use]) -> Iterable[Need]:
        """Add up what clients need that have no names to be told apart by."""
        views: dict[ClientBroker, View] = {}
        for use in uses:
            views.setdefault(use.view.key, use.view)
        expected = _sums(self._need(use) for use in uses)
        return (Need(view, expected[key]) for key, view in views.items())

    def _use_of(self, view: View, roles: Iterable[Role]) -> ClientUse:
        attribution = view.attribution
        rule = self._rule_of(attribution, view.owner)
        return ClientUse(
            library=view.library,
            kind=view.client_kind,
            roles=frozenset(roles),
            learned=(
                self._has_learned(attribution.client)
                if attribution is not None and attribution.names_client
                else view.client is not None and view.client.has_learned
            ),
            configured=rule.connections_per_broker if rule is not None else None,
        )


def _role_in_use(view: View) -> Role | None:
    """Return what a connection is needed for, None where nobody needs it.

    One without metrics that was used after its opening is needed, whatever for.
    """
    role = view.verdict.role
    unsure = {Role.UNKNOWN, Role.PROBE}
    if client_of(view) is None:
        # Whether it has learned its brokers is not known either.
        unsure.add(Role.BOOTSTRAP)
    if view.attribution is not None or role not in unsure:
        return role
    is_open = view.reading.tcp_state is TcpState.ESTABLISHED
    return Role.DATA if view.was_used and is_open else None


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
