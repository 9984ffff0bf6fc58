"""The client of each connection within its process, as far as it is certain, and its age.

A client is the kernel's group of its sockets (one epoll instance of a JVM), and what its own
metrics were joined to: a connection that has both makes the two one client. What has neither stays
loose; the order of opening then says how many clients there must be at least.
Pure.
"""

from __future__ import annotations

__all__ = ["Client", "OwnerClients", "Seniority"]

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.model import ClientKind, TcpState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from exporter.connections.tracked import TrackedConnection
    from exporter.model import Attribution, ClientKey, Endpoint, Owner

    Name = str | ClientKey


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a process and its connections, the oldest first.

    `since` is the opening of the oldest connection that was ever seen of it, also where that one
    has ended: seniority does not change while a client lives. `known_since` is when the agent first
    saw one of them.
    """

    since: float
    known_since: float
    members: tuple[TrackedConnection, ...]
    attribution: Attribution | None = None

    @property
    def kind(self) -> ClientKind:
        """Its kind, where its metrics say so."""
        return ClientKind.UNKNOWN if self.attribution is None else self.attribution.client.kind


@dataclass(frozen=True, slots=True)
class OwnerClients:
    """The clients of one process, the oldest first, and the connections of none that is known."""

    owner: Owner
    clients: tuple[Client, ...]
    loose: tuple[TrackedConnection, ...]

    @property
    def connections(self) -> Iterable[TrackedConnection]:
        """All established connections of the process."""
        for client in self.clients:
            yield from client.members
        yield from self.loose


class Seniority:
    """Sorts connections by client and remembers how long each client has been there."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[float, float]] = {}

    def sort(
        self,
        connections: Iterable[TrackedConnection],
        attributions: Mapping[int, Attribution],
    ) -> dict[str, OwnerClients]:
        """Return the clients of each process by the owner's key."""
        owned: dict[str, list[TrackedConnection]] = defaultdict(list)
        for tracked in connections:
            if not tracked.ghost and tracked.reading.tcp_state is TcpState.ESTABLISHED:
                owned[tracked.owner.key].append(tracked)
        since: dict[int, tuple[float, float]] = {}
        processes = {}
        for key, members in owned.items():
            members.sort(key=by_age)
            sorted_ = _sorted(members, attributions)
            clients = [self._client(each, attributions) for each in sorted_.values()]
            clients.sort(key=lambda client: (client.since, client.members[0].cookie))
            for client in clients:
                both = (client.since, client.known_since)
                since |= dict.fromkeys((each.cookie for each in client.members), both)
            known = {each.cookie for client in clients for each in client.members}
            loose = tuple(each for each in members if each.cookie not in known)
            processes[key] = OwnerClients(members[0].owner, tuple(clients), loose)
        self._since = since
        return processes

    def _client(
        self, members: list[TrackedConnection], attributions: Mapping[int, Attribution]
    ) -> Client:
        remembered = [
            self._since.get(each.cookie, (each.opened_at, each.state_since)) for each in members
        ]
        joined = (attributions.get(each.cookie) for each in members)
        return Client(
            since=min(since for since, _known in remembered),
            known_since=min(known for _since, known in remembered),
            members=tuple(members),
            attribution=next((each for each in joined if each and each.names_client), None),
        )


def by_age(tracked: TrackedConnection) -> tuple[float, Endpoint, int]:
    """Order connections by their opening; cookies keep the order of equals the same."""
    return tracked.opened_at, tracked.reading.remote, tracked.cookie


def _sorted(
    members: list[TrackedConnection], attributions: Mapping[int, Attribution]
) -> dict[Name, list[TrackedConnection]]:
    """Put together what shares a group, a client of the metrics, or both in turns."""
    same: dict[Name, Name] = {}

    def first(name: Name) -> Name:
        while (other := same.get(name, name)) != name:
            name = other
        return name

    named: list[tuple[TrackedConnection, Name]] = []
    for tracked in members:
        attribution = attributions.get(tracked.cookie)
        names: list[Name] = [] if tracked.group is None else [tracked.group.key]
        if attribution is not None and attribution.names_client:
            names.append(attribution.client)
        if names:
            named.append((tracked, names[0]))
        if len(names) > 1 and (one := first(names[0])) != (other := first(names[1])):
            same[other] = one
    together: dict[Name, list[TrackedConnection]] = defaultdict(list)
    for tracked, name in named:
        together[first(name)].append(tracked)
    return together
