"""Connections beyond what the clients of a process need: whole clients, the later ones.

Two ways to know. The operator says how many clients a process is meant to have: the oldest stay,
the others are too many. Or the metrics of the process claim every connection that they can, and
one more to the same broker is claimed by none: then two clients share a client.id, and the metrics
of one of them are visible.
Order of opening decides, never activity, so nothing changes while nothing opens or closes. What a
Java client itself opens twice (bootstrap beside data) is one client's and no excess.
Pure.
"""

from __future__ import annotations

__all__ = ["Excess", "Joined", "find_excess"]

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.seniority import by_age
from exporter.connections.unused import was_used
from exporter.model import Cause, Library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from exporter.config.settings import ClientRule
    from exporter.connections.seniority import Client, OwnerClients
    from exporter.connections.tracked import TrackedConnection
    from exporter.model import Attribution, ClientThreads, Endpoint, Owner

    RuleOf = Callable[[Attribution | None, Owner], ClientRule | None]

# A library that nobody knows may hold two by design, as kafkajs does (KAFKA_CLIENTS section 5).
_BY_DESIGN = 2


class Excess(NamedTuple):
    """Why a connection is more than expected, in words and as one of few causes."""

    reason: str
    cause: Cause


class Joined(NamedTuple):
    """What the join says of connections, by cookie."""

    attributions: Mapping[int, Attribution]
    outlived: AbstractSet[int]
    """Those that were a client's and fit none of its nodes any more."""
    is_claimable: Callable[[int], bool]
    """Whether one that is no client's yet may still turn out to be some node."""

    def is_claimed(self, cookie: int) -> bool:
        """Whether it is some client's."""
        return cookie in self.attributions and cookie not in self.outlived


def find_excess(
    processes: Iterable[OwnerClients],
    joined: Joined,
    rule_of: RuleOf,
    excess_after: float,
    now: float,
    threads: Mapping[str, ClientThreads] | None = None,
) -> dict[int, Excess]:
    """Return a reason for every connection that is more than expected, by cookie.

    `threads` counts the clients of a process by their threads, by the owner's key.
    """
    excess: dict[int, Excess] = {}
    for process in processes:
        counted = (threads or {}).get(process.owner.key)
        excess |= _beyond_rules(process, rule_of, counted, now - excess_after)
        excess |= _unclaimed(process, joined, excess_after, now)
    return excess


# ---- what the operator says --------------------------------------------------------------------


def _beyond_rules(
    process: OwnerClients, rule_of: RuleOf, threads: ClientThreads | None, before: float
) -> dict[int, Excess]:
    by_rule: dict[ClientRule, list[Client]] = defaultdict(list)
    for client in process.clients:
        rule = rule_of(client.attribution, process.owner)
        if rule is not None:
            by_rule[rule].append(client)
    of_loose = rule_of(None, process.owner) if process.loose else None
    if of_loose is not None:
        by_rule.setdefault(of_loose, [])
    excess: dict[int, Excess] = {}
    for rule, clients in by_rule.items():
        if rule.instances is None and rule.connections_per_broker is None:
            continue
        kept = clients[: rule.instances]
        excess |= _whole(clients[len(kept) :], len(clients), len(kept), before)
        for client in kept:
            excess |= _beyond_limit(client, rule.connections_per_broker)
        if rule is of_loose:
            excess |= _beyond_slots(process, kept, rule, threads, before)
    return excess


def _whole(clients: Iterable[Client], there: int, allowed: int, before: float) -> dict[int, Excess]:
    """Take every connection of clients that are too many, once they have been there for a while."""
    reason = f"{there} clients in this process, the configuration allows {allowed}"
    members = (
        each for client in clients if client.known_since <= before for each in client.members
    )
    return _all_of(members, reason)


def _beyond_limit(client: Client, most: int | None) -> dict[int, Excess]:
    """Take what one client holds to a broker beyond the operator's number: the later ones."""
    if most is None:
        return {}
    attribution = client.attribution
    excess = {}
    for members in _by_broker(client.members).values():
        for tracked in members[most:]:
            excess[tracked.cookie] = Excess(
                f"{len(members)} connections to this broker"
                f"{'' if attribution is None else f' of {attribution.client.client_id!r}'},"
                f" the configuration allows {most}",
                Cause.EXCESS_INSTANCES,
            )
    return excess


def _beyond_slots(
    process: OwnerClients,
    kept: Sequence[Client],
    rule: ClientRule,
    threads: ClientThreads | None,
    before: float,
) -> dict[int, Excess]:
    """Take of the connections of no known client those for which no client can be left.

    Each client has a connection to a broker, and a consumer one more to one broker. Connections
    that may be the bootstrap connection of another client have none to spare: they are left out.
    """
    instances = rule.instances or max(1, len(kept))
    if threads is not None and 0 < threads.librdkafka <= instances:
        return {}
    used = [each for each in process.loose if was_used(each) and each.state_since <= before]
    per_client = rule.connections_per_broker or _needed_by(process.owner)
    surplus = []
    for remote, members in _by_broker(used).items():
        slots = instances * per_client
        for client in kept:
            held = sum(each.reading.remote == remote for each in client.members)
            slots -= min(held, per_client)
        surplus += members[max(0, slots) :]
    # Whichever of them are the coordinators': the oldest, so that what is left does not change.
    is_limit = rule.connections_per_broker is not None
    coordinators = 0 if is_limit or _has_no_consumer(process, threads) else instances
    surplus.sort(key=by_age)
    reason = (
        f"{len(used)} connections in use that no metrics claim, more than the configuration allows"
        f" ({instances} clients)"
    )
    return _all_of(surplus[coordinators:], reason)


def _needed_by(owner: Owner) -> int:
    return _BY_DESIGN if owner.library is Library.UNKNOWN else 1


def _has_no_consumer(process: OwnerClients, threads: ClientThreads | None) -> bool:
    """Whether no coordinator can be needed: in a JVM a group's consumer has a thread of its own."""
    return process.owner.library is Library.JAVA and threads is not None and not threads.consumers


def _all_of(members: Iterable[TrackedConnection], reason: str) -> dict[int, Excess]:
    return {each.cookie: Excess(reason, Cause.EXCESS_INSTANCES) for each in members}


def _by_broker(
    members: Iterable[TrackedConnection],
) -> dict[Endpoint, list[TrackedConnection]]:
    brokers: dict[Endpoint, list[TrackedConnection]] = defaultdict(list)
    for tracked in members:
        brokers[tracked.reading.remote].append(tracked)
    return brokers


# ---- a twin of the same client.id --------------------------------------------------------------


def _unclaimed(
    process: OwnerClients, joined: Joined, excess_after: float, now: float
) -> dict[int, Excess]:
    """Take what no client claims beside what they do claim, with the rest of its own client."""
    claims: dict[Endpoint, set[str]] = defaultdict(set)
    for tracked in process.connections:
        attribution = joined.attributions.get(tracked.cookie)
        if attribution is not None:
            claims[tracked.reading.remote].add(attribution.client.client_id)
    if not claims:
        return {}
    excess: dict[int, Excess] = {}
    for tracked in process.connections:
        names = claims.get(tracked.reading.remote)
        if (
            names
            and not joined.is_claimed(tracked.cookie)
            and tracked.age_seconds(now) >= excess_after
            and (tracked.reading.incoming_bytes or 0) > 0
            and not joined.is_claimable(tracked.cookie)
        ):
            listed = ", ".join(repr(name) for name in sorted(names))
            excess[tracked.cookie] = Excess(
                f"no node of {listed} claims it, and their own connections to this broker are all"
                " found: a second client with the same client.id, or a leak",
                Cause.UNCLAIMED,
            )
    for client in process.clients:
        told = next((excess[e.cookie] for e in client.members if e.cookie in excess), None)
        if told is not None and not any(joined.is_claimed(each.cookie) for each in client.members):
            excess |= dict.fromkeys((each.cookie for each in client.members), told)
    return excess
