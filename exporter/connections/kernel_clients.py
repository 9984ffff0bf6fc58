"""Clients by the kernel alone: which connections belong together, and what follows from it.

A client is a client group (`ClientGroup`); where there are none, the connections of a process or
container are set beside each other, which proves less. Clients without metrics are numbered: `#2`
is the second of its process that opened a connection.
Pure.
"""

from __future__ import annotations

__all__ = ["Clients", "KernelClient"]

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.client_signs import (
    Beginning,
    ClientOfSigns,
    beginning_of,
    kinds_shown,
    signs_of_client,
)
from exporter.model import ClientKind, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exporter.connections.signs import Sign
    from exporter.connections.tracked import TrackedConnection
    from exporter.model import Attribution, ClientThreads, GroupsReading

# Signs take several polls to show; a process is looked at again so often while it is busy.
SIGNS_SECONDS = 2.0

# connections.max.idle.ms of AdminClients, unless it is set; that of other clients is 540 s.
_SHORTEST_IDLE_LIMIT = 300.0

_ALL_KINDS = frozenset({ClientKind.PRODUCER, ClientKind.CONSUMER, ClientKind.ADMIN})


class KernelClient(NamedTuple):
    """A client as far as its connections show it.

    `client_id` is its own where its metrics report one of its connections, else `#` and a number:
    no id of its own, and new with each start of the agent.
    """

    key: str
    client_id: str
    kind: ClientKind
    has_learned: bool


@dataclass(slots=True)
class _Unit:
    """The connections that are set beside each other.

    `is_young`: none of them can have been closed for idleness yet when they were first seen.
    """

    members: list[TrackedConnection] = field(default_factory=list)
    beginning: Beginning = field(default_factory=Beginning)
    cookies: frozenset[int] = frozenset()
    has_lost: bool = False
    is_young: bool = False


class Clients:
    """The clients of all processes, carried from poll to poll."""

    def __init__(self) -> None:
        self._units: dict[str, _Unit] = {}
        self._signs: dict[int, Sign] = {}
        self._of: dict[int, KernelClient] = {}
        self._superseded: set[int] = set()
        self._numbers: dict[str, tuple[str, int]] = {}
        self._due = float("-inf")

    def sign(self, cookie: int) -> Sign | None:
        """Return what the kernel's figures say that a connection is for."""
        return self._signs.get(cookie)

    def client(self, cookie: int) -> KernelClient | None:
        """Return the client of a connection; None where there are no client groups."""
        return self._of.get(cookie)

    def is_superseded(self, cookie: int) -> bool:
        """Whether the client of a bootstrap connection has learned its brokers."""
        return cookie in self._superseded

    def update(
        self,
        connections: Mapping[int, TrackedConnection],
        joined: Mapping[int, Attribution],
        groups: GroupsReading,
        now: float,
        *,
        at_once: bool = False,
    ) -> set[int]:
        """Look at all clients, if it is time; return the connections of which something changed."""
        if now < self._due and not at_once:
            return set()
        self._due = now + SIGNS_SECONDS
        before, before_of, before_superseded = self._signs, self._of, self._superseded
        self._signs, self._of, self._superseded = {}, {}, set()
        processes = self._gather(connections, now)
        self._number()
        for owner, units in processes.items():
            self._look_at_process(owner, units, joined, groups, now)
        changed = {
            cookie
            for cookie in before.keys() | self._signs.keys()
            if before.get(cookie) != self._signs.get(cookie)
        }
        changed |= before_superseded ^ self._superseded
        changed |= {
            cookie
            for cookie in before_of.keys() | self._of.keys()
            if before_of.get(cookie) != self._of.get(cookie)
        }
        return changed & connections.keys()

    def _gather(
        self, connections: Mapping[int, TrackedConnection], now: float
    ) -> dict[str, dict[str, _Unit]]:
        """Sort the connections by process and client."""
        before, self._units = self._units, {}
        processes: dict[str, dict[str, _Unit]] = defaultdict(dict)
        for tracked in connections.values():
            group, owner = tracked.group, tracked.owner.key
            key = owner if group is None else group.key
            unit = self._units.get(key)
            if unit is None:
                unit = self._units[key] = before.get(key) or _Unit()
                unit.members = []
                processes[owner][key] = unit
            unit.members.append(tracked)
        for key, unit in self._units.items():
            cookies = frozenset(each.cookie for each in unit.members)
            if key not in before:
                unit.is_young = _are_young(unit.members, now)
            unit.has_lost = unit.has_lost or not unit.cookies <= cookies
            unit.cookies = cookies
        return processes

    def _number(self) -> None:
        """Give each client a number of its own among the processes of one name.

        They share their labels. Of a lone process it is the group's number: that of its making.
        """
        before, self._numbers = self._numbers, {}
        for key in before.keys() & self._units.keys():
            self._numbers[key] = before[key]
        taken = set(self._numbers.values())
        for key in sorted(self._units.keys() - before.keys()):
            first = self._units[key].members[0]
            if first.group is None:
                continue
            number = first.group.number
            while (first.owner.name, number) in taken:
                number += 1
            self._numbers[key] = (first.owner.name, number)
            taken.add(self._numbers[key])

    def _look_at_process(
        self,
        owner: str,
        units: Mapping[str, _Unit],
        joined: Mapping[int, Attribution],
        groups: GroupsReading,
        now: float,
    ) -> None:
        grouped = {key: unit for key, unit in units.items() if key != owner}
        shown = {key: _kinds_of(unit, joined) for key, unit in grouped.items()}
        possible = _possible_kinds(groups.threads.get(owner), shown.values())
        for key, unit in units.items():
            group = unit.members[0].group
            if group is not None and not unit.has_lost and (group.is_whole or unit.is_young):
                beginning = beginning_of(unit.members, now)
                unit.beginning = beginning._replace(is_certain=group.is_whole)
            if unit.cookies <= joined.keys() and group is None:
                continue
            kinds = shown.get(key) or possible
            client = ClientOfSigns(
                members=unit.members,
                library=unit.members[0].owner.library,
                is_one=group is not None,
                is_told_apart=owner in groups.readable,
                beginning=unit.beginning,
                kinds=kinds,
                known={
                    cookie: joined[cookie].node.role
                    for cookie in unit.cookies
                    if cookie in joined and joined[cookie].node.role is not Role.UNKNOWN
                },
            )
            signs = signs_of_client(client, now)
            self._signs |= signs
            roles = {cookie: sign.role for cookie, sign in signs.items()} | dict(client.known)
            has_learned = _has_learned(roles, unit.members)
            if has_learned:
                self._superseded |= {
                    cookie for cookie, role in roles.items() if role is Role.BOOTSTRAP
                }
            if group is not None:
                if Role.COORDINATOR in roles.values():
                    kinds = frozenset({ClientKind.CONSUMER})
                name, kind = _name_of(unit, joined, f"#{self._numbers[key][1]}", kinds)
                made = KernelClient(key, name, kind, has_learned)
                self._of |= dict.fromkeys(unit.cookies, made)


def _are_young(members: Iterable[TrackedConnection], now: float) -> bool:
    return now - min(each.opened_after for each in members) < _SHORTEST_IDLE_LIMIT


def _has_learned(roles: Mapping[int, Role], members: Iterable[TrackedConnection]) -> bool:
    """Whether a client has used a connection that is no bootstrap connection."""
    if any(role not in {Role.BOOTSTRAP, Role.UNKNOWN, Role.PROBE} for role in roles.values()):
        return True
    # A second connection to one address is never a second bootstrap connection.
    remotes = [each.reading.remote for each in members]
    return Role.BOOTSTRAP in roles.values() and len(set(remotes)) < len(remotes)


def _name_of(
    unit: _Unit, joined: Mapping[int, Attribution], number: str, kinds: frozenset[ClientKind]
) -> tuple[str, ClientKind]:
    names = {
        joined[cookie].client
        for cookie in unit.cookies
        if cookie in joined and joined[cookie].names_client
    }
    if len(names) == 1:
        (name,) = names
        return name.client_id, name.kind
    return number, next(iter(kinds)) if len(kinds) == 1 else ClientKind.UNKNOWN


def _kinds_of(unit: _Unit, joined: Mapping[int, Attribution]) -> frozenset[ClientKind]:
    told = {joined[cookie].client.kind for cookie in unit.cookies if cookie in joined}
    if len(told) == 1 and ClientKind.UNKNOWN not in told:
        return frozenset(told)
    return kinds_shown(unit.members)


def _possible_kinds(
    threads: ClientThreads | None, shown: Iterable[frozenset[ClientKind]]
) -> frozenset[ClientKind]:
    """Return the kinds of which the clients may be that show none.

    Consumers without a group have no thread of their own: they are the clients beyond the threads.
    """
    if threads is None or not threads.producers + threads.consumers + threads.admins:
        return _ALL_KINDS
    known = list(shown)
    more = max(0, len(known) - threads.producers - threads.consumers - threads.admins)
    left = {
        ClientKind.PRODUCER: threads.producers,
        ClientKind.CONSUMER: threads.consumers + more,
        ClientKind.ADMIN: threads.admins,
    }
    for kinds in known:
        if len(kinds) == 1:
            left[next(iter(kinds))] -= 1
    return frozenset(kind for kind, count in left.items() if count > 0) or _ALL_KINDS
