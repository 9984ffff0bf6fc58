"""Which node of which client each socket is: a one-to-one join by bytes, kept over reads.

At each read of a client's figures, what is joined is verified (`join_pair`), pairs that might be
one are looked up (`join_candidates`), the rules choose from them (`join_rules`), and what they
chose teaches handshakes (`join_guesses`) and places, which may make more certain.
Pairs that no figure tells apart are given in a fixed order and say so in `equals`.
Pure: all state is values, all times come with the samples.
"""

from __future__ import annotations

__all__ = ["Attributor"]

from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.core.join_candidates import find_pairs, observe_pairs
from exporter.core.join_evidence import claim_of, evidence_of, names_of
from exporter.core.join_guesses import learn_handshake
from exporter.core.join_handshakes import EXACT
from exporter.core.join_laws import PLAIN, bracket_of
from exporter.core.join_owner import elected_owner, known_owner
from exporter.core.join_read import Read
from exporter.core.join_rules import equal_matches, next_matches
from exporter.core.join_state import PortState, SourceState, take_rows
from exporter.model import Attribution, Confidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from exporter.core.join_laws import Bracket
    from exporter.core.join_pair import PairHistory
    from exporter.core.join_rules import Match
    from exporter.core.join_state import Look, Row
    from exporter.core.tracker import TrackedConnection
    from exporter.model import ClientKey, JoinSample, NodeReading

# Rules that rest on the order of things rather than on figures that are equal to the byte.
_NOT_EXACT = frozenset({"bounds", "endpoint"})

# What is learned from matches makes more matches possible; the next read goes on from there.
MOST_ROUNDS = 6

# A node that has counted at no more reads than this may be the equal of others, and equals are
# weighed again at every so-many-th read whatever happens.
NEW_READS = 3
WEIGH_AGAIN = 16

# A free socket that has fitted nothing at so many reads is looked up at every so-many-th one only,
# unless bytes went over it.
PATIENT_LOOKUPS = 8
RARE_LOOKUPS = 8

# A young socket says little of handshakes: it may be in the middle of one.
LEARNING_READS = 2

# By then a socket that could be told would have been.
CLAIMABLE_READS = 4


class Attributor:
    """The join, carried from read to read of every source."""

    def __init__(self) -> None:
        self._sources: dict[str, SourceState] = {}
        self._attributions: dict[int, Attribution] = {}
        self._sources_of: dict[int, str] = {}

    # ---- what others ask ----------------------------------------------------------------------

    @property
    def attributions(self) -> Mapping[int, Attribution]:
        """What is known, by cookie. An attribution stays while nothing contradicts it."""
        return self._attributions

    def owner_of(self, source: str) -> str | None:
        """Return the key of the owner whose sockets this source's clients hold, once known."""
        state = self._sources.get(source)
        return state.owner if state is not None else None

    def is_claimable(self, cookie: int) -> bool:
        """Whether a free socket may still turn out to be some free node.

        While nothing was learned of its listener, anything may be; after that, what fits.
        """
        for state in self._sources.values():
            reads = state.reads.get(cookie)
            if reads is None:
                continue
            if reads < CLAIMABLE_READS or not _knows_its_listener(state, cookie):
                return True
            pairs = state.pairs.get(cookie, {})
            if any(pair.is_possible and not _is_ruled_out(state, pair) for pair in pairs.values()):
                return True
        return False

    def nodes_of(self, source: str) -> Mapping[tuple[ClientKey, str], tuple[NodeReading, bool]]:
        """Return a source's nodes with whether a socket was found for each."""
        state = self._sources.get(source)
        if state is None:
            return {}
        return {
            (row.client, row.node_id): (row_state.node, row_state.cookie is not None)
            for row, row_state in state.rows.items()
        }

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
        read = Read(
            source=reading.source,
            state=state,
            reading=reading,
            fresh=take_rows(state, reading),
            brackets=self._brackets(state, sample, connections),
            connections=connections,
            addresses_of=addresses_of,
        )
        before = {cookie: self._attributions[cookie] for cookie in state.joined}
        self._check_joined(read)
        observe_pairs(read)
        self._part_disturbed(read)
        self._join_free(read)
        if state.first_read_at is None:
            state.first_read_at = read.at
        for row in read.fresh:
            state.rows[row].remember(read.at)
        return _changed(before, {cookie: self._attributions[cookie] for cookie in state.joined})

    def release(self, cookie: int) -> None:
        """Free the node of a socket that is dead but still there (a ghost)."""
        for state in self._sources.values():
            if cookie in state.joined:
                row, _pair, _remote = state.joined.pop(cookie)
                state.rows[row].free()
            state.forget(cookie)

    def forget(self, cookies: Iterable[int]) -> None:
        """Forget sockets that are gone."""
        for cookie in set(cookies):
            self.release(cookie)
            self._attributions.pop(cookie, None)
            self._sources_of.pop(cookie, None)

    def forget_silent(self, source: str, before: float) -> None:
        """Forget librdkafka clients that have sent nothing since `before`."""
        state = self._sources.get(source)
        if state is not None:
            state.drop([row for row, known in state.rows.items() if known.seen_at < before])

    # ---- the joined ones ----------------------------------------------------------------------

    def _check_joined(self, read: Read) -> None:
        """Follow joined pairs: keep their figures fresh, part those that the law contradicts."""
        state = read.state
        for cookie, (row, pair, _remote) in list(state.joined.items()):
            if row not in read.fresh:
                continue
            row_state = state.rows[row]
            known = self._attributions[cookie]
            if known.node is not row_state.node:
                known = self._attributions[cookie] = replace(known, node=row_state.node)
            bracket = read.brackets.get(cookie)
            if bracket is None or row_state.counts is None:
                continue
            if not pair.observe(bracket, row_state.counts):
                self._part(state, cookie, row)
            elif row_state.equals:
                self._thin_equals(state, cookie, row, pair)
            elif known.confidence is Confidence.STRONG and not row_state.is_soft and pair.is_exact:
                row_state.rule = "totals"
                self._attributions[cookie] = replace(
                    known,
                    confidence=Confidence.EXACT,
                    evidence=(f"{claim_of(row_state)}, and the kernel the same for this socket",),
                )

    def _thin_equals(self, state: SourceState, cookie: int, row: Row, pair: PairHistory) -> None:
        """Drop equals that have counted differently since, while this pair went on agreeing."""
        row_state = state.rows[row]
        if not pair.is_current:
            # In traffic, or in doubt: the next quiet read tells.
            return
        equals = tuple(
            other
            for other in row_state.equals
            if other in state.rows
            and state.rows[other].counted_since_match() == row_state.counted_since_match()
        )
        if equals == row_state.equals:
            return
        row_state.equals = equals
        self._attributions[cookie] = replace(self._attributions[cookie], equals=names_of(equals))
        if not equals:
            row_state.is_soft = False
            state.settle(cookie, row)
            state.learn_place(row, state.joined[cookie][2])

    def _part_disturbed(self, read: Read) -> None:
        """Let go of equals when one of them moved, or when something free might be one too."""
        state = read.state
        twins = {
            row: pair for row, pair, _remote in state.joined.values() if state.rows[row].is_soft
        }
        if not twins:
            return
        # What is free must not look certain because equals hold, in a mere order, what it could be.
        anything_free = any(cookie not in state.joined for cookie in read.brackets)
        moved = any(
            pair.rebased or any(state.rows[row].counted_since_match())
            for row, pair in twins.items()
        )
        new = any(
            0 < state.rows[row].reads <= NEW_READS
            for row in read.fresh
            if state.rows[row].cookie is None or row in twins
        )
        if anything_free or moved or new or state.read_number % WEIGH_AGAIN == 0:
            self._part_equals(state)

    def _part_equals(self, state: SourceState) -> bool:
        """Free nodes that were given to their sockets in a mere order; say whether there were."""
        twins = [
            (cookie, row)
            for cookie, (row, _pair, _remote) in state.joined.items()
            if state.rows[row].is_soft
        ]
        for cookie, row in twins:
            pair = self._part(state, cookie, row)
            state.pairs.setdefault(cookie, {})[row] = pair
        return bool(twins)

    # ---- the free ones ------------------------------------------------------------------------

    def _join_free(self, read: Read) -> None:
        """Hold the free sockets against the free nodes until no rule finds a match any more."""
        state, looks = read.state, read.free_looks()
        if not looks:
            return
        round_begins = state.begins_round(read.series)
        for cookie in looks:
            state.reads[cookie] = state.reads.get(cookie, 0) + round_begins
            state.free_ports[cookie] = looks[cookie].remote.port
        new = any(0 < state.rows[row].reads <= NEW_READS for row in read.fresh)
        find_pairs(read, [look for look in looks.values() if new or _is_worth_it(state, look)])
        owner = elected_owner(read, looks)
        own = {
            cookie: look
            for cookie, look in looks.items()
            if read.connections[cookie].owner.key == owner
        }
        if own:
            self._match_all(read, own)
        quiet = state.quiet.setdefault(read.series, {})
        for cookie, look in looks.items():
            if look.bracket.is_quiet and cookie in state.reads:
                quiet[cookie] = read.at, look.bracket

    def _match_all(self, read: Read, looks: dict[int, Look]) -> None:
        """Join what is certain, learn from it, go on; at last what the figures leave open."""
        state = read.state
        for _round in range(MOST_ROUNDS):
            learned_place = False
            while matches := next_matches(state, _still_free(state, looks)):
                for match in matches:
                    learned_place |= self._join(read, match)
            learned = self._learn_handshakes(read, _still_free(state, looks))
            if learned_place and self._part_equals(state):
                learned = True
            if not learned:
                break
            find_pairs(read, _still_free(state, looks).values())
        for match in equal_matches(state, _still_free(state, looks)):
            self._join(read, match)

    def _learn_handshakes(self, read: Read, looks: Mapping[int, Look]) -> bool:
        rows = read.free_rows()
        learned = False
        for port in sorted({look.remote.port for look in looks.values()}) if rows else ():
            idle = [
                look
                for _cookie, look in sorted(looks.items())
                if look.remote.port == port
                and look.bracket.is_quiet
                and read.state.reads[look.cookie] >= LEARNING_READS
            ]
            read.state.ports.setdefault(port, PortState())
            learned |= learn_handshake(read.state, port, idle, rows)
        return learned

    def _join(self, read: Read, match: Match) -> bool:
        """Note a match; say whether it tells where a node is that was not known before."""
        state, cookie = read.state, match.cookie
        row_state = state.rows[match.row]
        tracked = read.connections[cookie]
        remote = tracked.reading.remote
        row_state.take(cookie, match.rule, match.equals, is_soft=match.is_soft)
        for row in match.equals:
            state.rows[row].mark()
        state.joined[cookie] = match.row, state.pairs[cookie][match.row], remote
        if not match.is_soft:
            state.settle(cookie, match.row)
        self._sources_of[cookie] = read.source
        exact = match.rule not in _NOT_EXACT and not match.contested
        self._attributions[cookie] = Attribution(
            client=match.row.client,
            node=row_state.node,
            library=row_state.library,
            confidence=Confidence.EXACT if exact else Confidence.STRONG,
            evidence=(evidence_of(match, row_state, remote),),
            equals=names_of(match.equals),
        )
        if not exact or match.equals:
            return False
        port = state.ports.setdefault(remote.port, PortState())
        if port.law is None and match.rule == "totals":
            port.law = PLAIN
        return state.learn_place(match.row, remote)

    def _part(self, state: SourceState, cookie: int, row: Row) -> PairHistory:
        """End an attribution and return its history."""
        state.rows[row].free()
        _row, pair, _remote = state.joined.pop(cookie)
        self._attributions.pop(cookie, None)
        self._sources_of.pop(cookie, None)
        return pair

    def _brackets(
        self,
        state: SourceState,
        sample: JoinSample,
        connections: Mapping[int, TrackedConnection],
    ) -> dict[int, Bracket]:
        """Return the byte counts of the sockets that may be of this source's process."""
        source = sample.reading.source
        owner = known_owner(state, sample.reading, connections)
        before = {reading.cookie: reading for reading in sample.before.sockets}
        brackets = {}
        for after in sample.after.sockets:
            tracked = connections.get(after.cookie)
            if tracked is None or tracked.ghost:
                continue
            if self._sources_of.get(after.cookie, source) != source:
                continue
            if owner is not None and tracked.owner.key != owner:
                continue
            bracket = bracket_of(before.get(after.cookie), after)
            if bracket is not None:
                brackets[after.cookie] = bracket
        return brackets


def _changed(before: Mapping[int, Attribution], after: Mapping[int, Attribution]) -> list[int]:
    """Return the cookies that got, lost or changed their attribution, its figures aside."""
    return [
        cookie
        for cookie in before.keys() | after.keys()
        if cookie not in before
        or cookie not in after
        or replace(before[cookie], node=after[cookie].node) != after[cookie]
        or before[cookie].node.node_id != after[cookie].node.node_id
    ]


def _still_free(state: SourceState, looks: Mapping[int, Look]) -> dict[int, Look]:
    return {cookie: look for cookie, look in looks.items() if cookie not in state.joined}


def _is_worth_it(state: SourceState, look: Look) -> bool:
    """Whether to look a socket up now: not each time one that never fitted anything."""
    cookie = look.cookie
    return (
        state.reads[cookie] <= PATIENT_LOOKUPS
        or (cookie + state.read_number) % RARE_LOOKUPS == 0
        or any(
            cookie in known and known[cookie][1] != look.bracket for known in state.quiet.values()
        )
    )


def _knows_its_listener(state: SourceState, cookie: int) -> bool:
    """Whether enough was learned of a socket's listener to say that it fits no node.

    Without TLS and SASL equal totals suffice; else a handshake must be known.
    """
    known = state.ports.get(state.free_ports.get(cookie, 0))
    if known is None or known.law is None:
        return False
    if any(each.shape == EXACT for each in known.handshakes):
        return True
    return known.law == PLAIN and any(
        pair.is_exact for _row, pair, _remote in state.joined.values() if pair.law == PLAIN
    )


def _is_ruled_out(state: SourceState, pair: PairHistory) -> bool:
    """Whether a pair is followed although its totals differ where nothing adds to them."""
    without_handshakes = all(
        known.law == PLAIN and not known.handshakes for known in state.ports.values()
    )
    return without_handshakes and pair.is_settled and bool(pair.offsets()) and not pair.is_exact
