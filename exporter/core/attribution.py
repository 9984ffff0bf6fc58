"""Which node of which client each socket is: a one-to-one join by bytes, kept over reads.

Each read of a client's figures is one inference: what is settled is verified, the open sockets are
held against the free nodes that this read suggests (`join_candidates`), the rules choose from those
pairs (`join_rules`), and what they chose teaches handshakes (`join_learning`) and places, which
may make more certain. What the figures leave open is given in a fixed order, says so in `equals`,
and stays open: the next read decides anew.
Pure: all state is values, all times come with the samples.
"""

from __future__ import annotations

__all__ = ["Attributor"]

from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.core.join_handshakes import EXACT
from exporter.core.join_inference import Read, learn, look_up, tell_laws
from exporter.core.join_laws import PLAIN, bracket_of
from exporter.core.join_memory import Row, Socket
from exporter.core.join_owner import elected_owner, known_owner
from exporter.core.join_rules import NAMES, certain_matches, evidence_of, left_open, names_of
from exporter.core.join_state import SourceState
from exporter.model import Attribution, Confidence, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from exporter.core.join_rules import Match
    from exporter.core.join_state import Listener
    from exporter.core.tracker import TrackedConnection
    from exporter.model import ClientKey, JoinSample, NodeReading, SourceReading

# Rules that rest on the order of things rather than on figures that are equal to the byte.
_NOT_EXACT = frozenset({"bounds", "endpoint"})

# What is learned from matches makes more matches possible; the next read goes on from there.
MOST_ROUNDS = 3

# By then a socket that could be told would have been.
CLAIMABLE_READS = 4

# So many reads after the last change all has been said that the figures say.
SETTLING_READS = 8


class Attributor:
    """The join, carried from read to read of every source."""

    def __init__(self) -> None:
        self._sources: dict[str, SourceState] = {}
        self._attributions: dict[int, Attribution] = {}
        self._outlived: set[int] = set()

    # ---- what others ask ----------------------------------------------------------------------

    @property
    def attributions(self) -> Mapping[int, Attribution]:
        """What is known, by cookie. An attribution stays while nothing contradicts it."""
        return self._attributions

    def is_claimable(self, cookie: int) -> bool:
        """Whether a free socket may still turn out to be some free node.

        While nothing was learned of its listener, anything may be; after that, what fits. Where
        several sockets have the totals of fewer nodes, those that stay without one are too many,
        whichever of them it really is: the matching is the largest that there is.
        """
        for state in self._sources.values():
            socket = state.sockets.get(cookie)
            if socket is None or socket.row is not None:
                continue
            known = state.listener(socket.remote.port)
            if socket.reads < CLAIMABLE_READS or not _is_known(state, known):
                return True
            plain = known.law == PLAIN and not known.handshakes
            waits = socket.left_over < CLAIMABLE_READS
            for row, pair in socket.pairs.items():
                ruled_out = plain and pair.is_settled and pair.offsets() and not pair.is_exact
                # Where totals are not equal, its own node may not have been thought of yet.
                taken = plain and pair.is_exact and row.cookie is not None and not waits
                if pair.is_possible and not ruled_out and not taken:
                    return True
        return False

    @property
    def outlived(self) -> AbstractSet[int]:
        """Sockets whose node has become another socket since they were taken for it.

        A second client with the same client.id takes over the metrics of the first one.
        """
        return self._outlived

    def has_learned(self, client: ClientKey) -> bool:
        """Whether a client has talked to a broker under its real id."""
        state = self._sources.get(client.source)
        rows = state.clients.get(client, {}) if state is not None else {}
        return any(
            row.node.role is not Role.BOOTSTRAP and bool(row.node.incoming_bytes)
            for row in rows.values()
        )

    def nodes_of(self, source: str) -> Mapping[tuple[ClientKey, str], tuple[NodeReading, bool]]:
        """Return a source's nodes with whether a socket was found for each."""
        state = self._sources.get(source)
        if state is None:
            return {}
        return {(row.client, row.node_id): (row.node, row.cookie is not None) for row in state.rows}

    # ---- what others tell ---------------------------------------------------------------------

    def update(
        self,
        sample: JoinSample,
        connections: Mapping[int, TrackedConnection],
        addresses_of: Callable[[str], frozenset[str]] = lambda _host: frozenset(),
    ) -> list[int]:
        """Take one read of one source; return the cookies whose attribution is new or changed.

        `addresses_of` resolves a host name that a client gave (librdkafka's node names).
        """
        reading = sample.reading
        state = self._sources.setdefault(reading.source, SourceState())
        state.read_number += 1
        before = {cookie: self._attributions.get(cookie) for cookie in state.sockets}
        read = Read(state, reading, addresses_of)
        seen = self._take_sockets(state, sample, connections)
        self._verify(read, seen)
        begins = state.begins_round(read.series)
        self._infer(read, seen, connections, reading, begins=begins)
        if begins:
            self._count_left_over(state, seen)
        after = {cookie: self._attributions.get(cookie) for cookie in state.sockets}
        return [
            cookie
            for cookie in before.keys() | after.keys()
            if _differ(before.get(cookie), after.get(cookie))
        ]

    def release(self, cookie: int) -> None:
        """Free the node of a socket that is dead but still there (a ghost)."""
        self._outlived.discard(cookie)
        for state in self._sources.values():
            state.forget(cookie)

    def forget(self, cookies: Iterable[int]) -> None:
        """Forget sockets that are gone."""
        for cookie in set(cookies):
            self.release(cookie)
            self._attributions.pop(cookie, None)

    def forget_silent(self, source: str, before: float) -> None:
        """Forget librdkafka clients that have sent nothing since `before`."""
        state = self._sources.get(source)
        if state is not None:
            state.drop([row for row in state.rows if row.seen_at < before])

    # ---- the sockets ----------------------------------------------------------------------------

    def _take_sockets(
        self,
        state: SourceState,
        sample: JoinSample,
        connections: Mapping[int, TrackedConnection],
    ) -> list[Socket]:
        """Bring the sockets that may be of this source's process up to this read."""
        source, at = sample.reading.source, sample.reading.ended_at
        owner = known_owner(state, sample.reading, connections)
        earlier = {reading.cookie: reading for reading in sample.before.sockets}
        seen = []
        for after in sample.after.sockets:
            cookie = after.cookie
            tracked = connections.get(cookie)
            if tracked is None or tracked.ghost:
                continue
            if owner is not None and tracked.owner.key != owner:
                continue
            claim = self._attributions.get(cookie)
            if claim is not None and claim.client.source != source:
                continue
            bracket = bracket_of(earlier.get(cookie), after)
            if bracket is None:
                continue
            socket = state.sockets.get(cookie)
            if socket is None:
                socket = state.sockets[cookie] = Socket(cookie, after.remote, tracked.opened_at)
            socket.moved = socket.history.note(at, bracket)
            seen.append(socket)
        return seen

    def _verify(self, read: Read, seen: Sequence[Socket]) -> None:
        """Hold pairs against this read: drop what the law contradicts, part what was settled."""
        moved = {row for row in read.fresh if row.moved}
        fresh: AbstractSet[Row] | None = None
        for socket in seen:
            doubted = any(pair.is_doubted for pair in socket.pairs.values())
            if socket.moved or doubted or read.series or not socket.bracket.is_quiet:
                # It may have moved between reads of one librdkafka client, at another's.
                if fresh is None:
                    fresh = set(read.fresh)
                rows: Iterable[Row] = [row for row in socket.pairs if row in fresh]
            else:
                rows = moved & socket.pairs.keys() if moved else ()
            for row in rows:
                counts = row.counts
                if counts is None or not socket.pairs[row].observe(socket.bracket, counts):
                    if socket.row is row:
                        self._part(read.state, socket)
                    del socket.pairs[row]
        for row in read.fresh:
            if row.cookie is not None:
                known = self._attributions[row.cookie]
                if known.node is not row.node and known.node != row.node:
                    self._attributions[row.cookie] = replace(known, node=row.node)

    def _part(self, state: SourceState, socket: Socket) -> None:
        state.part(socket)
        self._attributions.pop(socket.cookie, None)

    # ---- the inference --------------------------------------------------------------------------

    def _infer(
        self,
        read: Read,
        seen: Sequence[Socket],
        connections: Mapping[int, TrackedConnection],
        reading: SourceReading,
        *,
        begins: bool,
    ) -> None:
        """Hold the open sockets against the free nodes until nothing new follows."""
        state = read.state
        sockets = [socket for socket in seen if not socket.is_settled]
        for socket in sockets if begins else ():
            socket.reads += 1
        rows = read.free_rows()
        if any(each.moved for each in sockets) or any(row.moved for row in rows):
            state.unsettled_reads = 0
        state.unsettled_reads += 1
        if not sockets or not rows or state.unsettled_reads > SETTLING_READS:
            return
        tell_laws(state, reading, sockets)
        look_up(read, sockets, rows)
        owner = elected_owner(state, reading, sockets, connections)
        own = [socket for socket in sockets if connections[socket.cookie].owner.key == owner]
        if not own:
            return
        for _round in range(MOST_ROUNDS):
            learned = self._settle(state, own)
            own = [socket for socket in own if not socket.is_settled]
            learned |= learn(read, own)
            if not learned:
                break
        self._give_what_is_open(state, own)

    def _settle(self, state: SourceState, sockets: Sequence[Socket]) -> bool:
        """Join what is certain, the surest rule first; say whether a place was learned by it."""
        learned = False
        for rule in NAMES:
            sockets = [socket for socket in sockets if not socket.is_settled]
            for match in certain_matches(state, sockets, rule):
                self._join(state, match, is_settled=True)
                if rule in _NOT_EXACT:
                    continue
                known = state.listener(match.socket.remote.port)
                if known.law is None and rule == "totals":
                    known.law = PLAIN
                    known.version += 1
                    learned = True
                learned |= state.learn_place(match.row, match.socket.remote)
        return learned

    def _give_what_is_open(self, state: SourceState, sockets: Sequence[Socket]) -> None:
        """Give open sockets one of the nodes that they could be, and name the others."""
        matches = {match.socket.cookie: match for match in left_open(state, sockets)}
        for socket in sockets:
            if socket.row is not None:
                reads = state.unsettled_reads
                state.part(socket)
                state.unsettled_reads = reads
                if socket.cookie not in matches:
                    self._attributions.pop(socket.cookie, None)
        for match in matches.values():
            self._join(state, match, is_settled=False)

    def _count_left_over(self, state: SourceState, seen: Sequence[Socket]) -> None:
        for socket in seen:
            if socket.row is not None:
                socket.left_over = 0
                self._outlived.discard(socket.cookie)
                continue
            socket.left_over += 1
            claim = self._attributions.get(socket.cookie)
            if claim is not None and socket.left_over >= CLAIMABLE_READS:
                row = state.clients.get(claim.client, {}).get(claim.node.node_id)
                if row is not None and row.is_settled:
                    self._outlived.add(socket.cookie)

    def _join(self, state: SourceState, match: Match, *, is_settled: bool) -> None:
        socket, row = match.socket, match.row
        if is_settled:
            if socket.row is not None:
                state.part(socket)
            if row.cookie is not None:
                held = state.sockets[row.cookie]
                self._part(state, held)
            for other in socket.pairs.keys() - {row}:
                del socket.pairs[other]
        socket.row, socket.rule, socket.is_settled = row, match.rule, is_settled
        row.cookie, row.is_settled = socket.cookie, is_settled
        exact = match.rule not in _NOT_EXACT and not match.contested
        self._attributions[socket.cookie] = Attribution(
            client=row.client,
            node=row.node,
            library=row.library,
            confidence=Confidence.EXACT if exact else Confidence.STRONG,
            evidence=(evidence_of(row, match.rule, socket.remote),),
            equals=names_of(match.equals),
        )


def _is_known(state: SourceState, known: Listener) -> bool:
    """Whether enough was learned of a listener to say that a socket fits no node.

    Without TLS and SASL equal totals suffice; else a handshake must be known.
    """
    if known.law is None:
        return False
    if any(each.shape == EXACT for each in known.handshakes):
        return True
    return known.law == PLAIN and any(
        socket.rule == "totals" and socket.is_settled for socket in state.sockets.values()
    )


def _differ(before: Attribution | None, after: Attribution | None) -> bool:
    """Whether an attribution is new, gone or another, its figures aside."""
    if before is after:
        return False
    if before is None or after is None:
        return True
    return (
        before.client != after.client
        or before.node.node_id != after.node.node_id
        or before.confidence is not after.confidence
        or before.equals != after.equals
    )
