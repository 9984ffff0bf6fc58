"""Connections beyond what the clients of a process need: more than expected.

Two ways to know. The operator says how many clients a process is meant to have. Or the clients of
the process show their metrics, every connection that they claim is found, and one more to the
same broker is claimed by none: then a client holds more than one socket for one node, which happens
when instances share a client.id: of each node the metrics of one of them are visible.
Libraries that use several connections by design show no such metrics and are left alone.
Pure.
"""

from __future__ import annotations

__all__ = ["Excess", "find_excess"]

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import Cause, Role, TcpState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exporter.core.attribution import Attributor
    from exporter.core.tracked import TrackedConnection
    from exporter.model import Attribution, Endpoint, Owner
    from exporter.settings import ClientRule

# Data and coordinator: what one client instance of the known libraries needs to a broker at most.
MOST_PER_INSTANCE = 2

# Beside those a Java client's bootstrap connection may lead there, until its idle limit.
MOST_LEFT_OVER = 1


class Excess(NamedTuple):
    """Why a connection is more than expected, in words and as one of few causes."""

    reason: str
    cause: Cause


def find_excess(
    connections: Mapping[int, TrackedConnection],
    attributor: Attributor,
    rule_of: Callable[[Attribution | None, Owner], ClientRule | None],
    excess_after: float,
    now: float,
) -> dict[int, Excess]:
    """Return a reason for every connection that is more than expected, by cookie."""
    groups: dict[tuple[str, Endpoint], list[TrackedConnection]] = defaultdict(list)
    for tracked in connections.values():
        if tracked.ghost:
            continue
        if tracked.reading.tcp_state is TcpState.ESTABLISHED:
            groups[tracked.owner.key, tracked.reading.remote].append(tracked)
    joined_sources: dict[str, set[str]] = defaultdict(set)
    for cookie, attribution in attributor.attributions.items():
        known = connections.get(cookie)
        if known is not None:
            joined_sources[known.owner.key].add(attribution.client.source)
    excess: dict[int, Excess] = {}
    for (owner, _remote), members in groups.items():
        excess |= _beyond_rule(members, attributor, rule_of)
        if joined_sources[owner]:
            excess |= _unclaimed(members, attributor, excess_after, now)
    return excess


def _beyond_rule(
    members: list[TrackedConnection],
    attributor: Attributor,
    rule_of: Callable[[Attribution | None, Owner], ClientRule | None],
) -> dict[int, Excess]:
    """Tell connections beyond what the configuration allows: those idle for longest."""
    by_rule: dict[ClientRule, list[TrackedConnection]] = defaultdict(list)
    for tracked in members:
        attribution = attributor.attributions.get(tracked.cookie)
        rule = rule_of(attribution, tracked.owner)
        if rule is None or not (rule.instances or rule.connections_per_broker):
            continue
        if attribution is None or attribution.node.role is not Role.BOOTSTRAP:
            by_rule[rule].append(tracked)
    excess = {}
    for rule, held in by_rule.items():
        allowed = (rule.instances or 1) * _most_per_instance(rule, held, attributor)
        held.sort(key=lambda tracked: (-tracked.last_activity_at, tracked.cookie))
        for tracked in held[allowed:]:
            excess[tracked.cookie] = Excess(
                f"{len(held)} connections to this broker, the configuration allows {allowed}",
                Cause.EXCESS_INSTANCES,
            )
    return excess


def _most_per_instance(
    rule: ClientRule, held: list[TrackedConnection], attributor: Attributor
) -> int:
    if rule.connections_per_broker is not None:
        return rule.connections_per_broker
    known = all(tracked.cookie in attributor.attributions for tracked in held)
    return MOST_PER_INSTANCE if known else MOST_PER_INSTANCE + MOST_LEFT_OVER


def _unclaimed(
    members: list[TrackedConnection], attributor: Attributor, excess_after: float, now: float
) -> dict[int, Excess]:
    claimed = [
        attributor.attributions[tracked.cookie]
        for tracked in members
        if tracked.cookie in attributor.attributions
    ]
    if not claimed:
        return {}
    names = sorted({attribution.client.client_id for attribution in claimed})
    reason = (
        f"no node of {', '.join(repr(name) for name in names)} claims it, and their own connections"
        " to this broker are all found: a second client with the same client.id, or a leak"
    )
    return {
        tracked.cookie: Excess(reason, Cause.UNCLAIMED)
        for tracked in members
        if (tracked.cookie not in attributor.attributions or tracked.cookie in attributor.outlived)
        and tracked.age_seconds(now) >= excess_after
        and (tracked.reading.incoming_bytes or 0) > 0
        and not attributor.is_claimable(tracked.cookie)
    }
