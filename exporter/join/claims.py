"""What follows from all that was read of one source: what every feasible assignment shares.

First groups to clients, then sockets to nodes within a group; where there are no groups, all
sockets of the process are searched at once.
Pure.
"""

from __future__ import annotations

__all__ = ["Claim", "Claims"]

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from exporter.join.history import READS_OF_LAG
from exporter.join.laws import PLAIN
from exporter.join.search import (
    MOST_STEPS,
    Left,
    Problem,
    Right,
    Search,
    certificates_agree,
    saturating,
)
from exporter.join.source import WITNESS_GROWTHS
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from exporter.join.clients import Client
    from exporter.join.history import Row, Socket
    from exporter.join.pairs import Pair
    from exporter.join.source import Source
    from exporter.model import ClientKey, Endpoint

# Replicas on other hosts send heartbeats of the same sizes at the same rate, and may do so at the
# same moments: only growths that differ from each other show whose figures they are.
_DISTINCT_GROWTHS = 5


class Claim(NamedTuple):
    """A socket and the nodes that it may be, the first one part of one whole assignment."""

    socket: Socket
    pairs: Sequence[Pair]
    is_grouped: bool


class _Group(NamedTuple):
    """A client group: its owner, its sockets, and the reads of its last change and sight."""

    owner: str
    members: frozenset[int]
    changed: int
    seen: int


class Claims:
    """The claims of one source's clients on sockets, read after read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._groups: dict[str, _Group] = {}
        self._loose_at: dict[str, int] = {}
        """The last read at which a process had sockets of no known group, by owner."""
        self._searches: dict[object, Search] = {}
        self._used_searches: dict[object, Search] = {}
        self._steps_left = MOST_STEPS
        self._possible_at: dict[tuple[ClientKey, str, bool], int] = {}
        """The last read at which a group may have been a client, for both passes."""
        self._chosen: dict[object, object] = {}
        """Which client each group was taken for last, and which node each socket."""
        self._unnamed: AbstractSet[str] = frozenset()
        self._claimed: set[Row] = set()
        self._holders: dict[int, ClientKey] = {}

    def held_by(self, client: ClientKey) -> list[int]:
        """Return the sockets that were last said to be a client's, by cookie."""
        return [cookie for cookie, owner in self._holders.items() if owner == client]

    def claims(self, sockets: Sequence[Socket], *, needs_witness: bool) -> list[Claim]:
        """Return what every assignment of these sockets of one process shares."""
        groups: dict[str, list[Socket]] = {}
        for socket in sockets:
            if socket.group is not None:
                groups.setdefault(socket.group.key, []).append(socket)
        loose = [socket for socket in sockets if socket.group is None]
        self._used_searches = {}
        self._steps_left = MOST_STEPS
        found: list[Claim] = []
        if loose:
            self._loose_at[loose[0].owner] = self.source.reads
        if groups:
            # One that is gone may have been any client's, and the page may still count it.
            last = self._loose_at.get(sockets[0].owner, -READS_OF_LAG)
            has_loose = self.source.reads - last < READS_OF_LAG
            found = self._claims_of_groups(groups, has_loose=has_loose)
        elif loose:
            found = self._claims_of_pool(loose)
        self._searches = self._used_searches
        self._claimed = {pair.row for claim in found for pair in claim.pairs}
        self._chosen = {claim.socket: claim.pairs[0].row for claim in found}
        for claim in found:
            if claim.socket.group is not None:
                self._chosen[claim.socket.group.key] = claim.pairs[0].row.client
        self._holders = {claim.socket.cookie: claim.pairs[0].row.client for claim in found}
        if not needs_witness:
            return found
        # The sender is not known, so the figures must show which process this is. A Java page has
        # all clients of a process: one witness is enough. librdkafka reports each client alone.
        clients = self.source.clients.values()
        if any(client.reading.library is Library.JAVA for client in clients):
            return found if any(self._shows_whose(claim.pairs[0]) for claim in found) else []
        return [claim for claim in found if all(map(self._is_witnessed, claim.pairs))]

    def _claims_of_groups(self, groups: dict[str, list[Socket]], *, has_loose: bool) -> list[Claim]:
        settled, gone = self._follow(groups)
        java = [
            client for client in self.source.clients.values()
            if client.reading.library is Library.JAVA and not client.is_shared
        ]  # fmt: skip
        # Of two clients with one client.id a page mixes the figures.
        is_mixed = len(groups) > sum(client.reading.connection_count != 0 for client in java)
        # What each group may be of each client is the same in both passes.
        settled = set() if has_loose else settled
        problems = {
            (client.key, key): self._problem(
                client, members, is_settled=key in settled, is_mixed=is_mixed
            )
            for client in java
            for key, members in groups.items()
        }
        self._possible_at = {
            name: at for name, at in self._possible_at.items()
            if self.source.reads - at < READS_OF_LAG
        }  # fmt: skip
        found: dict[tuple[ClientKey, str], dict[Socket, list[Pair]]] = {}
        owners: dict[str, list[ClientKey]] = {}
        claims: list[Claim] = []
        must = [client.key for client in java if not has_loose and self._must_be_there(client)]
        # The second pass knows the brokers, and their certificates, at the addresses of the pairs
        # that the first made certain.
        for is_first in (True, False):
            shown = {} if is_first else _shown_by(claims)
            if not is_first and not shown:
                break
            edges: dict[ClientKey, list[str]] = {client.key: [] for client in java}
            for name, problem in problems.items():
                this = (*name, is_first)
                options = None
                if problem is not None:
                    options = self._search(this, _of_brokers(problem, shown) if shown else problem)
                if options is not None:
                    found[name] = options
                    self._possible_at[this] = self.source.reads
                elif this not in self._possible_at:
                    continue
                else:
                    # One read may be wrong: a client that was possible a moment ago still is.
                    found[name] = {}
                edges[name[0]].append(name[1])
            for client in java:
                # What was closed a moment ago may be what the page still counts.
                edges[client.key] += [
                    key for key, size in gone.items() if client.held in (None, size)
                ]
            now = saturating(self._steady(edges), must)
            if is_first or now:
                owners = now
                claims = _claims_of(owners, groups, found)
        everybody = {client.key for client in java if client.reading.connection_count != 0}
        named = {client_key for client_keys in owners.values() for client_key in client_keys}
        is_told = settled >= groups.keys() and named >= everybody
        rest = groups.keys() - owners.keys()
        self._unnamed = rest if is_told else set()
        shared = [client for client in self.source.clients.values() if client.is_shared]
        if len(shared) == 1 and not has_loose:
            claims += self._claims_of_shared(shared[0], {key: groups[key] for key in rest})
        return claims

    def _options(self, client: Client, socket: Socket, *, is_first: bool = False) -> list[Pair]:
        """Return what a socket may be of a client; `is_first`: no node had another before it."""
        known = self.source.pairs.get(socket, {})
        pairs = [pair for row in client.rows.values() for pair in known.get(row, ())]
        for pair in pairs:
            pair.has_no_past |= is_first
        return [pair for pair in pairs if client.may_begin(pair)]

    def _claims_of_shared(self, client: Client, groups: dict[str, list[Socket]]) -> list[Claim]:
        """Return what follows for clients of one client.id: each node is one's or another's.

        A group without any of the nodes that are in use has none on the page.
        """
        sockets = [socket for members in groups.values() for socket in members]
        options = {
            socket: [pair for pair in self._options(client, socket) if pair.row.reads]
            for socket in sockets
        }
        mature = {socket for socket in sockets if self.source.is_mature(socket, client)}
        claims = self._claims_of_rows(options, mature)
        named = {claim.socket.group.key for claim in claims if claim.socket.group is not None}
        self._unnamed = groups.keys() - named if named else set()
        return claims

    def _follow(self, groups: dict[str, list[Socket]]) -> tuple[set[str], dict[str, int]]:
        """Return which groups have not changed lately, and the sizes of those that are gone."""
        owner = next(iter(groups.values()))[0].owner
        for key, members in groups.items():
            cookies = frozenset(each.cookie for each in members)
            known = self._groups.get(key)
            changed = known.changed if known and known.members == cookies else self.source.reads
            self._groups[key] = _Group(owner, cookies, changed, self.source.reads)
        gone = {}
        for key, known in list(self._groups.items()):
            if self.source.reads - known.seen > READS_OF_LAG:
                del self._groups[key]
            elif known.owner == owner and known.seen < self.source.reads:
                gone[key] = len(known.members)
        settled = {
            key for key in groups if self.source.reads - self._groups[key].changed >= READS_OF_LAG
        }
        return settled, gone

    def _steady(self, edges: dict[Left, list[Right]]) -> dict[Left, list[Right]]:
        """Put the last choice first, so that a choice between equals does not change."""
        return {
            left: sorted(rights, key=lambda right: self._chosen.get(right) != left)
            for left, rights in edges.items()
        }

    def _must_be_there(self, client: Client) -> bool:
        """Whether a client holds a connection for certain."""
        if client.reading.connection_count == 0:
            return False
        # One socket that closed leaves the others; a group that is gone as a whole stays an option.
        return bool(client.held) or any(
            row.may_be_in_use or row in self._claimed for row in client.counted_rows
        )

    def _is_held(self, row: Row) -> bool:
        """Whether a node has a connection: it is in use, or had one that is still there."""
        was_lost = len(row.steps(row.lost_at)) < READS_OF_LAG
        return row.is_in_use or (row in self._claimed and not was_lost)

    def _problem(
        self, client: Client, members: Sequence[Socket], *, is_settled: bool, is_mixed: bool
    ) -> Problem | None:
        """Return what each socket of a group may be if the group is this client; None if not."""
        mature = [socket for socket in members if self.source.is_mature(socket, client)]
        if len(mature) > len(client.rows):
            return None
        is_whole = len(mature) == len(members)
        if is_settled and is_whole and client.held not in (None, len(members)):
            return None
        is_complete = is_settled and is_whole and client.created == len(members)
        is_first = is_settled and not is_mixed and client.never_reconnected
        options: dict[Socket, list[Pair]] = {}
        for socket in mature:
            options[socket] = self._options(client, socket, is_first=is_first)
            if not options[socket]:
                return None
        return Problem(options, is_complete=is_complete)

    def _claims_of_pool(self, sockets: Sequence[Socket]) -> list[Claim]:
        """Return what follows where nothing shows which sockets are one client."""
        clients = list(self.source.clients.values())
        held = [client.held for client in clients]
        is_settled = bool(self._follow({sockets[0].owner: list(sockets)})[0])
        mature = {
            socket for socket in sockets
            if all(self.source.is_mature(socket, client) for client in clients if client.rows)
        }  # fmt: skip
        options = {
            socket: [
                pair for client in clients
                for pair in self._options(
                    client, socket, is_first=is_settled and client.never_reconnected
                )
                if pair.row.reads and self._may_end_at(pair, socket.remote)
            ]
            for socket in sockets
        }  # fmt: skip
        if all(client.reading.library is Library.LIBRDKAFKA for client in clients):
            return self._claims_by_address(options, mature)
        is_saturated = None not in held and sum(map(_int, held)) == len(sockets) == len(mature)
        if is_settled and is_saturated and all(options.values()):
            is_complete = all(client.created == client.held for client in clients)
            most = {client.key: client.held for client in clients if client.held is not None}
            claims = []
            for part in _parts(options):
                name = frozenset(pair.row.client for pairs in part.values() for pair in pairs)
                laws = {pair.law for pairs in part.values() for pair in pairs}
                if len(name) > 1 and len(laws) > 1:
                    # Each client may be under a law of its own: too many to enumerate.
                    claims += self._claims_of_rows(part, mature)
                    continue
                found = self._search(name, Problem(part, is_complete, most))
                claims += [Claim(*each, is_grouped=False) for each in (found or {}).items()]
            return claims
        return self._claims_of_rows(options, mature)

    def _may_end_at(self, pair: Pair, remote: Endpoint) -> bool:
        """Whether a listener, where it is known to be open, speaks as the pair's client does."""
        if remote not in self.source.open_ends:
            return True
        return pair.law == PLAIN and pair.may_begin(is_open=True)

    def _claims_by_address(
        self, options: dict[Socket, list[Pair]], mature: set[Socket]
    ) -> list[Claim]:
        """Return what follows where clients name the address of each node (librdkafka)."""
        claims = []
        by_remote: dict[Endpoint, dict[Socket, list[Pair]]] = {}
        for socket, pairs in options.items():
            by_remote.setdefault(socket.remote, {})[socket] = pairs
        for remote, there in by_remote.items():
            name = f"{next(iter(there)).owner} {remote}"
            self._follow({name: list(there)})
            changed = self._groups[name].changed
            used = {
                socket: [pair for pair in pairs if pair.row.may_be_in_use]
                for socket, pairs in there.items()
            }
            rows = {pair.row for pairs in used.values() for pair in pairs}
            # A node that was in use since the sockets there last changed has one of them.
            is_settled = all(
                row.is_in_use and len(row.steps(changed)) >= READS_OF_LAG for row in rows
            )
            if is_settled and len(there) == len(rows) and mature >= there.keys():
                found = self._search(remote, Problem(used)) or {}
                claims += [Claim(*each, is_grouped=False) for each in found.items()]
            else:
                claims += self._claims_of_rows(there, mature)
        return claims

    def _claims_of_rows(
        self, options: dict[Socket, list[Pair]], mature: Collection[Socket]
    ) -> list[Claim]:
        """Return what follows where a socket may be a client's that is not on the page.

        A node that is in use has a socket all the same.
        """
        edges: dict[Row, dict[Socket, list[Pair]]] = {}
        for socket, pairs in options.items():
            for pair in pairs:
                edges.setdefault(pair.row, {}).setdefault(socket, []).append(pair)
        must = [row for row in edges if self._is_held(row)]
        owners = saturating(self._steady({row: list(edges[row]) for row in must}), must)
        claims = []
        for socket, rows in owners.items():
            pairs = [pair for row in rows for pair in edges[row][socket]]
            if socket in mature and all(self._is_witnessed(pair) for pair in pairs):
                claims.append(Claim(socket, pairs, is_grouped=False))
        return claims

    def _search(self, name: object, problem: Problem) -> dict[Socket, list[Pair]] | None:
        """Return what each socket may be under any law; None where no law has an assignment.

        These are sockets of one client, or to one address: all are under one law.
        """
        laws = {pair.law for pairs in problem.options.values() for pair in pairs}
        found: dict[Socket, list[Pair]] = {}
        is_possible = not problem.options
        for place, law in enumerate(sorted(laws)):
            options = {
                socket: [pair for pair in pairs if pair.law == law]
                for socket, pairs in problem.options.items()
            }
            if not all(options.values()):
                continue
            search = self._used_searches[name, law] = self._searches.get((name, law)) or Search()
            allowed = search.options(
                replace(problem, options=options), self._steps_left // (len(laws) - place)
            )
            self._steps_left -= min(search.steps, self._steps_left)
            if allowed is None:
                continue
            is_possible = True
            for socket, pairs in allowed.items():
                found.setdefault(socket, []).extend(pairs)
        return found if is_possible else None

    def may_claim(self, socket: Socket) -> bool:
        """Whether anything that was read leaves a node for a socket.

        None is left for a group of which the page says nothing: all of its clients have theirs.
        """
        if socket.group is not None and socket.group.key in self._unnamed:
            return False
        return any(True for _ in self.source.alive(socket))

    def may_hold(self, sockets: Iterable[Socket]) -> bool:
        """Whether some of another process's sockets may be these clients' as well."""
        return any(
            pair.growths or not pair.is_read
            for socket in sockets
            for pair in self.source.alive(socket)
            if pair.row.may_be_in_use
        )

    @staticmethod
    def _shows_whose(pair: Pair) -> bool:
        """Whether the figures of a page are this process's, and not those of a replica of it."""
        if pair.may_be_equal:
            return pair.growths >= WITNESS_GROWTHS
        return len(pair.increments) >= _DISTINCT_GROWTHS

    @staticmethod
    def _is_witnessed(pair: Pair) -> bool:
        """Whether both counted the same, and not by chance."""
        return pair.growths >= WITNESS_GROWTHS or pair.is_equal


def _claims_of(
    owners: Mapping[str, Sequence[ClientKey]],
    groups: Mapping[str, Sequence[Socket]],
    found: Mapping[tuple[ClientKey, str], Mapping[Socket, Sequence[Pair]]],
) -> list[Claim]:
    """Return the claims on the sockets of groups, each of which is one of some clients."""
    claims = []
    for key in owners.keys() & groups.keys():
        each_options = [found[client_key, key] for client_key in owners[key]]
        for socket in groups[key]:
            if all(socket in each for each in each_options):
                pairs = [pair for each in each_options for pair in each[socket]]
                claims.append(Claim(socket, pairs, is_grouped=True))
    return claims


def _shown_by(claims: Iterable[Claim]) -> dict[Endpoint, list[Pair]]:
    """Return the pairs that are certain, by address: its broker and certificates are known then."""
    shown: dict[Endpoint, list[Pair]] = {}
    for claim in claims:
        if len(claim.pairs) == 1:
            shown.setdefault(claim.socket.remote, []).append(claim.pairs[0])
    return shown


def _of_brokers(problem: Problem, shown: Mapping[Endpoint, Sequence[Pair]]) -> Problem:
    """Leave the pairs that agree with what is certain of the broker at their address."""
    options = {
        socket: [
            pair for pair in pairs
            if all(_is_one_broker(pair, each) for each in shown.get(socket.remote, ()))
        ]
        for socket, pairs in problem.options.items()
    }  # fmt: skip
    return replace(problem, options=options)


def _is_one_broker(pair: Pair, shown: Pair) -> bool:
    """Whether two sockets to one address may be these nodes: one broker with its certificates."""
    brokers = {pair.row.node.broker_id, shown.row.node.broker_id} - {None}
    if len(brokers) > 1:
        return False
    return pair.law != shown.law or not pair.law.incoming or certificates_agree(pair, shown)


def _parts(options: dict[Socket, list[Pair]]) -> list[dict[Socket, list[Pair]]]:
    """Split sockets into parts that have no client in common: each is searched by itself."""
    parts: list[tuple[set[ClientKey], dict[Socket, list[Pair]]]] = []
    for socket, pairs in options.items():
        clients = {pair.row.client for pair in pairs}
        part = {socket: pairs}
        rest = []
        for known, members in parts:
            if known & clients:
                clients |= known
                part |= members
            else:
                rest.append((known, members))
        parts = [*rest, (clients, part)]
    return [part for _clients, part in parts]


def _int(value: int | None) -> int:
    return value or 0
