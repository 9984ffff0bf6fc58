"""One source of metrics and the sockets of its process: what was read, and what follows from it.

First groups to clients, then sockets to nodes within a group; where there are no groups, all
sockets of the process are searched at once.
Pure.
"""

from __future__ import annotations

__all__ = ["Claim", "Source"]

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from exporter.join.history import LAG, Row
from exporter.join.laws import LAWS, PLAIN, law_told, shape_of
from exporter.join.pairs import MATURE_READS, Pair
from exporter.join.search import (
    Left,
    Problem,
    Right,
    Search,
    certificates_agree,
    saturating,
)
from exporter.model import Library

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from exporter.join.history import Socket
    from exporter.join.laws import Law
    from exporter.model import ClientKey, ClientReading, Endpoint, SourceReading

# Pairs of one source, laws counted: 55 MiB at first, before most are disproved. With more there is
# no join of that process.
_MOST_PAIRS = 100_000

# A page counts connections a read late at most.
_READS_OF_LAG = 2

# Growth in step so often is no coincidence (1 of 13,000 wrong pairs at one read, measured).
_WITNESS_GROWTHS = 2

# Replicas on other hosts send heartbeats of the same sizes at the same rate, and may do so at the
# same moments: only growths that differ from each other show whose figures they are.
_DISTINCT_GROWTHS = 5


class Claim(NamedTuple):
    """A socket and the nodes that it may be, the first one part of one whole assignment."""

    socket: Socket
    pairs: Sequence[Pair]
    is_grouped: bool


class _Group(NamedTuple):
    """A client group: whose, its sockets, and at which reads they changed and were seen last."""

    owner: str
    members: frozenset[int]
    changed: int
    seen: int


@dataclass(slots=True)
class _Client:
    """One client instance over its reads."""

    key: ClientKey
    reading: ClientReading
    rows: dict[str, Row] = field(default_factory=dict)
    shared_reads: int = 0
    """Reads in a row with more nodes that counted than connections that were ever opened."""
    is_steady: bool = False
    """Whether the last two reads counted the same connections."""
    is_shown_open: bool = False
    """Whether one of its nodes grew with a socket, equal to the byte: a client has one protocol."""
    law: Law | None = None
    """The law of its connections, once that is known."""

    @property
    def is_open(self) -> bool:
        """Whether a Java client neither encrypts nor logs in: it counts both, and has done neither.

        A page counts them late, but not as late as that.
        """
        reading = self.reading
        return self.is_shown_open or (
            reading.library is Library.JAVA
            and reading.authentications == 0
            and any(len(row.reads) > _READS_OF_LAG for row in self.rows.values())
        )

    def learn_law(self) -> bool:
        """Take what the reads say of its law; return whether that is new."""
        before, self.law = self.law, PLAIN if self.is_open else law_told(self.reading)
        return self.law != before

    @property
    def laws(self) -> Sequence[Law]:
        """The laws that its connections may be under."""
        return LAWS[self.reading.library] if self.law is None else (self.law,)

    def may_begin(self, pair: Pair) -> bool:
        """Whether the handshake and login of a pair may be what they must be.

        librdkafka counts its logins.
        """
        is_counted = self.reading.library is Library.LIBRDKAFKA or self.is_open
        return pair.may_begin(is_open=pair.law == PLAIN and is_counted)

    @property
    def may_log_in(self) -> bool:
        """Whether it may log in again while a connection lives."""
        reading = self.reading
        if reading.library is not Library.JAVA or self.is_open:
            return False
        return reading.reauthentications != 0

    @property
    def held(self) -> int | None:
        """How many connections it says it has, where that has settled."""
        return self.reading.connection_count if self.is_steady else None

    @property
    def created(self) -> int | None:
        """How many connections it ever had."""
        return self.reading.connections_created if self.is_steady else None

    @property
    def never_reconnected(self) -> bool:
        """Whether each node had one connection: as many were ever opened as there are nodes."""
        return self.created is not None and self.created == len(self.counted_rows)

    @property
    def is_shared(self) -> bool:
        """Whether two clients of one client.id are shown as one: more nodes than connections."""
        return self.shared_reads > _READS_OF_LAG

    @property
    def counted_rows(self) -> list[Row]:
        return [row for row in self.rows.values() if row.reads]


@dataclass(slots=True)
class Source:
    """All that is remembered of one source."""

    clients: dict[ClientKey, _Client] = field(default_factory=dict)
    pairs: dict[Socket, dict[Row, list[Pair]]] = field(default_factory=dict)
    owner: str | None = None
    seen_at: dict[ClientKey, float] = field(default_factory=dict)
    _open_ends: set[Endpoint] = field(default_factory=set)
    """Listeners that neither encrypt nor ask for a login: a listener speaks one protocol."""
    _number: int = 0
    _begun: float = 0.0
    """The moment before which the last read was certainly not taken."""
    _groups: dict[str, _Group] = field(default_factory=dict)
    _loose_at: dict[str, int] = field(default_factory=dict)
    """The last read at which a process had sockets of no known group, by owner."""
    _searches: dict[object, Search] = field(default_factory=dict)
    _used_searches: dict[object, Search] = field(default_factory=dict)
    _chosen: dict[object, object] = field(default_factory=dict)
    """Which client each group was taken for last, and which node each socket."""
    _unnamed: AbstractSet[str] = frozenset()
    _claimed: set[Row] = field(default_factory=set)
    _holders: dict[int, ClientKey] = field(default_factory=dict)

    # ---- what was read ------------------------------------------------------------------------

    def take(self, reading: SourceReading) -> None:
        """Bring clients and nodes up to a read; those that a whole page leaves out are gone."""
        self._number += 1
        self._begun = reading.begun_at - LAG
        times = (reading.begun_at, reading.ended_at)
        is_whole = any(each.library is not Library.LIBRDKAFKA for each in reading.clients)
        shown = {each.key(reading.source): each for each in reading.clients}
        for key, told in shown.items():
            self.seen_at[key] = reading.ended_at
            client = self.clients.get(key)
            if client is None:
                client = self.clients[key] = _Client(key, told)
            else:
                before = client.reading
                client.is_steady = told.connection_count is not None and (
                    (before.connection_count, before.connections_created)
                    == (told.connection_count, told.connections_created)
                )
                client.reading = told
            self._take_nodes(client, told, times)
            created = told.connections_created
            is_more = created is not None and len(client.counted_rows) > created
            client.shared_reads = client.shared_reads + 1 if is_more else 0
        for key in self.clients.keys() - shown.keys() if is_whole else ():
            self.drop(key)

    def _take_nodes(self, client: _Client, told: ClientReading, times: tuple[float, float]) -> None:
        for node in told.nodes:
            row = client.rows.get(node.node_id)
            if row is None:
                row = client.rows[node.node_id] = Row(
                    client.key, node.node_id, told.library, node, shape_of(node, told.kind)
                )
            if not row.take(node, told.kind, self._number, times):
                # librdkafka makes a broker anew with totals from 0, Java a whole client.
                gone = [row] if told.library is Library.LIBRDKAFKA else list(client.rows.values())
                self._drop_rows(client, gone)
                if told.library is Library.LIBRDKAFKA:
                    fresh = Row(client.key, node.node_id, told.library, node, row.shape)
                    client.rows[node.node_id] = fresh
                    fresh.take(node, told.kind, self._number, times)
                else:
                    self._take_nodes(client, told, times)
                    return
        left = client.rows.keys() - {node.node_id for node in told.nodes}
        self._drop_rows(client, [client.rows[name] for name in left])

    def drop(self, key: ClientKey) -> list[int]:
        """Forget a client; return the sockets that were said to be its own."""
        client = self.clients.pop(key, None)
        self.seen_at.pop(key, None)
        held = [cookie for cookie, owner in self._holders.items() if owner == key]
        if client is not None:
            self._drop_rows(client, list(client.rows.values()))
        return held

    def _drop_rows(self, client: _Client, rows: Iterable[Row]) -> None:
        for row in rows:
            client.rows.pop(row.node_id, None)
            for pairs in self.pairs.values():
                pairs.pop(row, None)

    def forget(self, socket: Socket) -> None:
        """Forget a socket."""
        self.pairs.pop(socket, None)

    # ---- pairs --------------------------------------------------------------------------------

    def advance(self, sockets: Collection[Socket], may_be: Callable[[Row, Socket], bool]) -> None:
        """Hold every socket against every node, as far as both were read."""
        for client in self.clients.values():
            if client.learn_law() and client.law is not None:
                self._narrow(client, client.law)
        rows = sum(len(client.rows) * len(client.laws) for client in self.clients.values())
        if rows * len(sockets) > _MOST_PAIRS:
            self.pairs.clear()
            return
        for socket in self.pairs.keys() - set(sockets):
            self.forget(socket)
        for client in self.clients.values():
            laws = client.laws
            for socket in sockets:
                known = self.pairs.setdefault(socket, {})
                is_idle = socket.is_idle_since(self._begun)
                for row in client.rows.values():
                    pairs = known.get(row)
                    if pairs is None:
                        allowed = laws if may_be(row, socket) else ()
                        pairs = known[row] = [Pair(socket, row, law) for law in allowed]
                    elif not pairs or (
                        is_idle and row.is_idle and all(pair.is_settled for pair in pairs)
                    ):
                        continue
                    known[row] = [pair for pair in pairs if self._advance(client, pair)]

    def _narrow(self, client: _Client, law: Law) -> None:
        """Leave one law. What was read so far allowed for logins that an open client has not."""
        for socket, known in self.pairs.items():
            for row in client.rows.values():
                pairs = known.get(row, [])
                known_pairs = [pair for pair in pairs if pair.law == law != PLAIN]
                if pairs:
                    known[row] = known_pairs or [Pair(socket, row, law)]

    def _advance(self, client: _Client, pair: Pair) -> bool:
        """Hold a pair's two sides against each other; return whether it is still possible."""
        pair.advance(may_log_in=client.may_log_in)
        if pair.growths >= _WITNESS_GROWTHS and pair.is_equal:
            client.is_shown_open = True
            self._open_ends.add(pair.socket.remote)
        return pair.is_possible

    # ---- what follows -------------------------------------------------------------------------

    def claims(self, sockets: Sequence[Socket], *, needs_witness: bool) -> list[Claim]:
        """Return what every assignment of these sockets of one process shares."""
        groups: dict[str, list[Socket]] = {}
        for socket in sockets:
            if socket.group is not None:
                groups.setdefault(socket.group.key, []).append(socket)
        loose = [socket for socket in sockets if socket.group is None]
        self._used_searches = {}
        found: list[Claim] = []
        if loose:
            self._loose_at[loose[0].owner] = self._number
        if groups:
            # One that is gone may have been any client's, and the page may still count it.
            last = self._loose_at.get(sockets[0].owner, -_READS_OF_LAG)
            has_loose = self._number - last < _READS_OF_LAG
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
        # Whoever it was that sent this, the figures must show whose it is: those of all sockets
        # together where a page names all clients of a process, else those of each.
        if any(each.library is Library.JAVA for each in (c.reading for c in self.clients.values())):
            return found if any(self._shows_whose(claim.pairs[0]) for claim in found) else []
        return [claim for claim in found if all(map(self._is_witnessed, claim.pairs))]

    def _claims_of_groups(self, groups: dict[str, list[Socket]], *, has_loose: bool) -> list[Claim]:
        settled, gone = self._follow(groups)
        java = [
            client for client in self.clients.values()
            if client.reading.library is Library.JAVA and not client.is_shared
        ]  # fmt: skip
        # Of two clients with one client.id a page mixes the figures.
        is_mixed = len(groups) > sum(client.reading.connection_count != 0 for client in java)
        found: dict[tuple[ClientKey, str], dict[Socket, list[Pair]]] = {}
        owners: dict[str, list[ClientKey]] = {}
        claims: list[Claim] = []
        must = [client.key for client in java if not has_loose and self._must_be_there(client)]
        # A second time with the handshakes that are certain: they are the brokers'.
        for is_first in (True, False):
            shown = {} if is_first else _shown_by(claims)
            if not is_first and not shown:
                break
            edges: dict[ClientKey, list[str]] = {}
            for client in java:
                for key, members in groups.items():
                    is_settled = key in settled and not has_loose
                    options = self._options_in_group(
                        client, members, shown, is_settled=is_settled, is_mixed=is_mixed
                    )
                    if options is not None:
                        edges.setdefault(client.key, []).append(key)
                        found[client.key, key] = options
                # What was closed a moment ago may be what the page still counts.
                edges.setdefault(client.key, []).extend(
                    key for key, size in gone.items() if client.held in (None, size)
                )
            now = saturating(self._steady(edges), must)
            if is_first or now:
                owners = now
                claims = _claims_of(owners, groups, found)
        everybody = {client.key for client in java if client.reading.connection_count != 0}
        named = {client_key for client_keys in owners.values() for client_key in client_keys}
        is_told = not has_loose and settled >= groups.keys() and named >= everybody
        rest = groups.keys() - owners.keys()
        self._unnamed = rest if is_told else set()
        shared = [client for client in self.clients.values() if client.is_shared]
        if len(shared) == 1 and not has_loose:
            claims += self._claims_of_shared(shared[0], {key: groups[key] for key in rest})
        return claims

    def _claims_of_shared(self, client: _Client, groups: dict[str, list[Socket]]) -> list[Claim]:
        """Return what follows for clients of one client.id: each node is one's or another's.

        A group without any of the nodes that are in use has none on the page.
        """
        sockets = [socket for members in groups.values() for socket in members]
        rows = client.counted_rows
        options = {
            socket: [
                pair for row in rows for pair in self.pairs.get(socket, {}).get(row, ())
                if pair.is_possible and (not pair.is_read or client.may_begin(pair))
            ]
            for socket in sockets
        }  # fmt: skip
        mature = {socket for socket in sockets if self._is_mature(socket, client)}
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
            changed = known.changed if known and known.members == cookies else self._number
            self._groups[key] = _Group(owner, cookies, changed, self._number)
        gone = {}
        for key, known in list(self._groups.items()):
            if self._number - known.seen > _READS_OF_LAG:
                del self._groups[key]
            elif known.owner == owner and known.seen < self._number:
                gone[key] = len(known.members)
        settled = {
            key for key in groups if self._number - self._groups[key].changed >= _READS_OF_LAG
        }
        return settled, gone

    def _steady(self, edges: dict[Left, list[Right]]) -> dict[Left, list[Right]]:
        """Put what was chosen last first: of what no figure distinguishes nothing changes."""
        return {
            left: sorted(rights, key=lambda right: self._chosen.get(right) != left)
            for left, rights in edges.items()
        }

    def _must_be_there(self, client: _Client) -> bool:
        """Whether a client holds a connection for certain."""
        if client.reading.connection_count == 0:
            return False
        return bool(client.held) or any(
            row.is_in_use or row in self._claimed for row in client.counted_rows
        )

    def _options_in_group(
        self,
        client: _Client,
        members: Sequence[Socket],
        shown: Mapping[Endpoint, Sequence[Pair]],
        *,
        is_settled: bool,
        is_mixed: bool,
    ) -> dict[Socket, list[Pair]] | None:
        """Return what each socket of a group may be if the group is this client; None if not."""
        rows = client.rows.values()
        mature = [socket for socket in members if self._is_mature(socket, client)]
        if len(mature) > len(rows):
            return None
        is_whole = len(mature) == len(members)
        if is_settled and is_whole and client.held not in (None, len(members)):
            return None
        is_complete = is_settled and is_whole and client.created == len(members)
        options: dict[Socket, list[Pair]] = {}
        for socket in mature:
            options[socket] = [
                pair for row in rows for pair in self.pairs.get(socket, {}).get(row, ())
            ]
            for pair in options[socket]:
                pair.has_no_past |= is_settled and not is_mixed and client.never_reconnected
            known = shown.get(socket.remote, ())
            options[socket] = [
                pair for pair in options[socket]
                if client.may_begin(pair)
                and all(_is_one_broker(pair, each) for each in known)
            ]  # fmt: skip
            if not options[socket]:
                return None
        name = (client.key, members[0].group, bool(shown))
        return self._search(name, Problem(options, is_complete=is_complete))

    def _claims_of_pool(self, sockets: Sequence[Socket]) -> list[Claim]:
        """Return what follows where nothing shows which sockets are one client."""
        clients = list(self.clients.values())
        held = [client.held for client in clients]
        is_settled = bool(self._follow({sockets[0].owner: list(sockets)})[0])
        mature = {
            socket for socket in sockets
            if all(self._is_mature(socket, client) for client in clients if client.rows)
        }  # fmt: skip
        options: dict[Socket, list[Pair]] = {socket: [] for socket in sockets}
        for socket, possible in options.items():
            for client in clients:
                for row in client.counted_rows:
                    for pair in self.pairs.get(socket, {}).get(row, ()):
                        pair.has_no_past |= is_settled and client.never_reconnected
                        if socket.remote in self._open_ends and not (
                            pair.law == PLAIN and pair.may_begin(is_open=True)
                        ):
                            continue
                        if pair.is_possible and (not pair.is_read or client.may_begin(pair)):
                            possible.append(pair)
        if all(client.reading.library is Library.LIBRDKAFKA for client in clients):
            return self._claims_by_address(options, mature)
        is_saturated = None not in held and sum(map(_int, held)) == len(sockets) == len(mature)
        if is_settled and is_saturated and all(options.values()):
            is_complete = all(client.created == client.held for client in clients)
            most = {client.key: client.held for client in clients if client.held is not None}
            claims = []
            for part in _parts(options):
                name = frozenset(pair.row.client for pairs in part.values() for pair in pairs)
                found = self._search(name, Problem(part, is_complete, most))
                claims += [Claim(*each, is_grouped=False) for each in (found or {}).items()]
            return claims
        return self._claims_of_rows(options, mature)

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
                socket: [pair for pair in pairs if pair.row.is_in_use]
                for socket, pairs in there.items()
            }
            rows = {pair.row for pairs in used.values() for pair in pairs}
            # A node that was in use since the sockets there last changed has one of them.
            is_settled = all(row.reads and row.reads[-1].number > changed for row in rows)
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
        must = [row for row in edges if row.is_in_use or row in self._claimed]
        owners = saturating(self._steady({row: list(edges[row]) for row in must}), must)
        claims = []
        for socket, rows in owners.items():
            pairs = [pair for row in rows for pair in edges[row][socket]]
            if socket in mature and all(self._is_witnessed(pair) for pair in pairs):
                claims.append(Claim(socket, pairs, is_grouped=False))
        return claims

    def _search(self, name: object, problem: Problem) -> dict[Socket, list[Pair]] | None:
        """Return what all assignments share, whichever law holds where none was told."""
        if not all(problem.options.values()):
            return None
        laws = {pair.law for pairs in problem.options.values() for pair in pairs}
        found: dict[Socket, list[Pair]] = {}
        is_possible = not laws
        unknown: set[Socket] = set()
        for law in sorted(laws):
            options = {
                socket: [pair for pair in pairs if pair.law == law]
                for socket, pairs in problem.options.items()
            }
            if not all(options.values()):
                continue
            search = self._used_searches[name, law] = self._searches.get((name, law)) or Search()
            allowed = search.options(replace(problem, options=options))
            if allowed is None:
                continue
            is_possible = True
            unknown |= problem.options.keys() - allowed.keys()
            for socket, pairs in allowed.items():
                found.setdefault(socket, []).extend(pairs)
        if not is_possible:
            return None
        return {socket: pairs for socket, pairs in found.items() if socket not in unknown}

    def may_claim(self, socket: Socket) -> bool:
        """Whether anything that was read leaves a node for a socket.

        None is left for a group of which the page says nothing: all of its clients have theirs.
        """
        if socket.group is not None and socket.group.key in self._unnamed:
            return False
        return any(True for _ in self._alive(socket))

    def may_hold(self, sockets: Iterable[Socket]) -> bool:
        """Whether some of another process's sockets may be these clients' as well."""
        return any(
            pair.growths or not pair.is_read
            for socket in sockets
            for pair in self._alive(socket)
            if pair.row.is_in_use
        )

    def _alive(self, socket: Socket) -> Iterator[Pair]:
        for pairs in self.pairs.get(socket, {}).values():
            yield from (pair for pair in pairs if pair.is_possible)

    def _is_mature(self, socket: Socket, client: _Client) -> bool:
        """Whether its node must have shown by now, and every node was held against it."""
        rows = client.counted_rows
        known = self.pairs.get(socket, {})
        left = [pair for row in rows for pair in known.get(row, ()) if pair.is_possible]
        if not all(pair.is_read for pair in left):
            return False
        reads = max((pair.reads for pair in left), default=MATURE_READS)
        return socket.is_talking and bool(rows) and reads >= MATURE_READS

    @staticmethod
    def _shows_whose(pair: Pair) -> bool:
        """Whether the figures of a page are this process's, and not those of a replica of it."""
        if pair.may_be_equal:
            return pair.growths >= _WITNESS_GROWTHS
        return len(pair.increments) >= _DISTINCT_GROWTHS

    @staticmethod
    def _is_witnessed(pair: Pair) -> bool:
        """Whether both counted the same, and not by chance."""
        return pair.growths >= _WITNESS_GROWTHS or pair.is_equal


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


def _is_one_broker(pair: Pair, shown: Pair) -> bool:
    """Whether two sockets to one address may be these nodes: one broker with its certificates."""
    brokers = {pair.row.node.broker_id, shown.row.node.broker_id} - {None}
    if len(brokers) > 1:
        return False
    return pair.law != shown.law or not pair.law.incoming or certificates_agree(pair, shown)


def _parts(options: dict[Socket, list[Pair]]) -> list[dict[Socket, list[Pair]]]:
    """Part what has no client in common."""
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


def _name(part: dict[Socket, list[Pair]]) -> object:
    return frozenset(pair.row.client for pairs in part.values() for pair in pairs)


def _int(value: int | None) -> int:
    return value or 0
