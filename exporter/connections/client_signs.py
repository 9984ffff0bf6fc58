"""Roles that follow from a client's other connections, with or without TLS.

A client has one connection to each broker that it uses, one more to its group's coordinator, and
before those its bootstrap connections, which fall silent before it uses any other. So of a client's
connections to one broker the one that fell silent first is its bootstrap connection, and what is in
use and does not fetch is a consumer's coordinator. Where it is unknown which connections are one
client, the same is said of a process, as a guess.
What cannot be distinguished stays unknown: no answer is better than a wrong one.
Pure.
"""

from __future__ import annotations

__all__ = ["Beginning", "ClientOfSigns", "beginning_of", "kinds_shown", "signs_of_client"]

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from exporter.connections.signs import (
    Sign,
    has_rhythm,
    is_beating,
    is_busy,
    is_established,
    is_fetch,
    is_in_use,
    is_produce,
    is_quiet,
    is_steady,
    sign_of_one,
)
from exporter.model import ClientKind, Confidence, Library, Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from exporter.connections.tracked import TrackedConnection
    from exporter.model import Endpoint

# The kernel stamps traffic by its tick of 1 to 10 ms (CONFIG_HZ), and a dump may go over one: what
# is further apart than the longest is in order, what is apart at all nearly always.
_APART, _HARDLY_APART = 0.011, 0.0005

# A client may ask more than one listed server before it has the list of brokers: Java opens two
# since 2.3 where the first is slow to answer.
_MOST_GUESSED = 2

# Where clients cannot be distinguished, the connection that a client used instead of its bootstrap
# one was opened soon after that: later ones may be another client's.
_PAIR_SECONDS = 10.0

# What bootstrap connections carry beyond ApiVersions (Metadata, InitProducerId, FindCoordinator; a
# record of TLS each): less than a request with records, or the answer to an AdminClient.
_LITTLE_OUT, _LITTLE_IN = 130, 1000


class Beginning(NamedTuple):
    """How a client began, as far as all connections that it ever opened are known.

    `first` is the cookie of its first connection. `silent_at` is when the first of its connections
    fell silent for good: until it has the list of brokers it opens none but bootstrap connections.
    `is_certain`: the agent was there; else an earlier connection may have been lost before.
    """

    first: int | None = None
    silent_at: float = float("-inf")
    is_certain: bool = False


@dataclass(slots=True)
class ClientOfSigns:
    """The connections that are set beside each other: those of a client, else of its process.

    `is_one`: they are one client's; `is_told_apart`: they would be if it were known yet. `kinds`
    are those that it may be of. `known` are roles that are known otherwise.
    """

    members: Sequence[TrackedConnection]
    library: Library
    is_one: bool
    is_told_apart: bool = False
    beginning: Beginning = field(default_factory=Beginning)
    kinds: frozenset[ClientKind] = frozenset()
    known: Mapping[int, Role] = field(default_factory=dict)


# ---- a client's connections -------------------------------------------------------------------


def signs_of_client(client: ClientOfSigns, now: float) -> dict[int, Sign]:
    """Return the role of each connection that follows from its own figures or its siblings'."""
    members = [each for each in client.members if is_established(each)]
    signs = {each.cookie: sign for each in members if (sign := sign_of_one(each)) is not None}
    roles = {cookie: sign.role for cookie, sign in signs.items()} | dict(client.known)
    if client.library is Library.LIBRDKAFKA:
        return signs | _of_librdkafka(members, roles, now)
    in_use = [each for each in members if is_in_use(each)]
    if client.is_one:
        kinds = client.kinds
        if Role.COORDINATOR in roles.values():
            kinds = frozenset({ClientKind.CONSUMER})
        _add(signs, roles, _coordinator(kinds, in_use, roles))
        _add(signs, roles, _used(kinds, in_use, roles))
        quiet = [each for each in members if is_quiet(each, now) and each.cookie not in roles]
        _add(signs, roles, _bootstraps(client, kinds, members, quiet, roles))
        _add(signs, roles, _learned(kinds, quiet, roles))
    elif not client.is_told_apart:
        _add(signs, roles, _used_in_process(in_use, roles))
        quiet = [each for each in members if is_quiet(each, now) and each.cookie not in roles]
        if client.library is not Library.JAVA:
            # Only a JVM has IPv6 sockets for IPv4 addresses: librdkafka keeps no bootstrap one.
            quiet = [each for each in quiet if each.reading.is_ipv6 is not False]
        _add(signs, roles, _pairs(members, quiet))
        _add(signs, roles, _smallest(members, quiet))
    return signs


def _add(signs: dict[int, Sign], roles: dict[int, Role], more: Mapping[int, Sign]) -> None:
    for cookie, sign in more.items():
        if cookie not in roles:
            signs[cookie] = sign
            roles[cookie] = sign.role


def kinds_shown(members: Iterable[TrackedConnection]) -> frozenset[ClientKind]:
    """Return of which kind a client is by what its connections do; nothing where none shows it."""
    if any(is_fetch(each) or is_beating(each) for each in members):
        return frozenset({ClientKind.CONSUMER})
    if any(is_produce(each) for each in members):
        return frozenset({ClientKind.PRODUCER})
    return frozenset()


def _coordinator(
    kinds: frozenset[ClientKind],
    in_use: Sequence[TrackedConnection],
    roles: Mapping[int, Role],
) -> dict[int, Sign]:
    """Find a consumer's coordinator: of what it uses, the one connection that does not fetch."""
    if Role.COORDINATOR in roles.values() or ClientKind.CONSUMER not in kinds:
        return {}
    found = [each for each in in_use if each.cookie not in roles and has_rhythm(each)]
    if len(found) != 1 or any(is_produce(each) for each in in_use):
        return {}
    (only,) = found
    if kinds == {ClientKind.CONSUMER}:
        return {only.cookie: _BESIDE_FETCHES}
    others = [each for each in in_use if each is not only and roles.get(each.cookie) is None]
    if is_steady(only) and all(is_busy(each) for each in others):
        return {only.cookie: _STEADY}
    return {}


_BESIDE_FETCHES = Sign(
    Role.COORDINATOR,
    Confidence.STRONG,
    "small requests every few seconds, each answered at once; its client is a consumer, and this is"
    " the one connection in use that does not fetch",
)
_STEADY = Sign(
    Role.COORDINATOR,
    Confidence.WEAK,
    "an equal small request every few seconds, and no other connection of its client is like it",
)


def _used(
    kinds: frozenset[ClientKind],
    in_use: Sequence[TrackedConnection],
    roles: Mapping[int, Role],
) -> dict[int, Sign]:
    """Find what is in use and is not a coordinator."""
    left = [each for each in in_use if each.cookie not in roles]
    if kinds == {ClientKind.ADMIN}:
        return {each.cookie: _IN_USE_BY_ADMIN for each in left}
    has_coordinator = Role.COORDINATOR in roles.values()
    may_be = [each for each in left if not is_busy(each)]
    signs = {}
    for each in left:
        if kinds == {ClientKind.PRODUCER}:
            signs[each.cookie] = _IN_USE
        elif has_coordinator or ClientKind.CONSUMER not in kinds:
            # An AdminClient that asks again and again looks the same.
            is_sure = has_coordinator or ClientKind.ADMIN not in kinds
            signs[each.cookie] = _IN_USE if is_sure else _IN_USE_WEAK
        elif is_busy(each) or len(may_be) > 1:
            signs[each.cookie] = _IN_USE_WEAK
    return signs


_IN_USE = Sign(
    Role.DATA,
    Confidence.STRONG,
    "in use long after its opening, and not its client's coordinator",
)
_IN_USE_WEAK = _IN_USE._replace(
    confidence=Confidence.WEAK, evidence="in use long after its opening, not like a coordinator"
)
_IN_USE_BY_ADMIN = Sign(
    Role.ADMIN, Confidence.STRONG, "in use, and all clients of its process are AdminClients"
)


def _bootstraps(
    client: ClientOfSigns,
    kinds: frozenset[ClientKind],
    members: Sequence[TrackedConnection],
    quiet: Sequence[TrackedConnection],
    roles: Mapping[int, Role],
) -> dict[int, Sign]:
    """Find the connections by which a client learned its brokers: it never uses them again."""
    first, silent_at, is_certain = client.beginning
    sign_of_first = _FIRST if is_certain else _FIRST._replace(confidence=Confidence.WEAK)
    signs = {each.cookie: sign_of_first for each in quiet if each.cookie == first}
    learned_at = min(
        (each.opened_at for each in members if roles.get(each.cookie, Role.UNKNOWN) in _LEARNED),
        default=float("-inf"),
    )
    silent = {each.cookie for each in quiet}
    for each in sorted(quiet, key=lambda each: each.last_activity_at):
        remote = each.reading.remote
        others = [one for one in members if one.reading.remote == remote and one is not each]
        if each.cookie == first or any(
            one.cookie in silent and one.cookie in signs for one in others
        ):
            # No client has two bootstrap connections to one broker.
            continue
        later = [
            one for one in others if _was_silent_before(each, one) or _was_opened_before(each, one)
        ]
        # A consumer may have looked for its coordinator through a broker that it does not use.
        may_guess = len(signs) < _MOST_GUESSED or ClientKind.CONSUMER not in kinds
        sign = None
        if later:
            sign = _followed(kinds, {roles.get(one.cookie) for one in later}, roles, may_guess)
        if sign is not None:
            signs[each.cookie] = sign
        elif each.opened_at + _HARDLY_APART < silent_at:
            signs[each.cookie] = _OPENED_BEFORE_SILENCE
        elif not later and may_guess and each.last_activity_at <= learned_at + _APART:
            signs[each.cookie] = _BEFORE_THE_OTHERS
    return signs


def _followed(
    kinds: frozenset[ClientKind],
    later: Collection[Role | None],
    roles: Mapping[int, Role],
    may_guess: bool,  # noqa: FBT001 - named at its one call
) -> Sign | None:
    """Judge a silent connection to whose broker its client has others that it used after that."""
    has_coordinator = Role.COORDINATOR in roles.values()
    if ClientKind.CONSUMER not in kinds or (has_coordinator and Role.DATA in later):
        return _FOLLOWED
    if may_guess or Role.COORDINATOR not in later:
        return _FOLLOWED._replace(confidence=Confidence.WEAK)
    return None


_FIRST = Sign(
    Role.BOOTSTRAP,
    Confidence.STRONG,
    "the first of its client's connections: until a client has asked one for the list of brokers it"
    " uses no other",
)
_LEARNED = frozenset({Role.DATA, Role.COORDINATOR, Role.TRANSACTION, Role.ADMIN})
# The connection that brought the list of brokers may have had another answer to wait for.
_OPENED_BEFORE_SILENCE = Sign(
    Role.BOOTSTRAP,
    Confidence.WEAK,
    "opened before any of its client's connections fell silent, and silent since its first seconds",
)
_FOLLOWED = Sign(
    Role.BOOTSTRAP,
    Confidence.STRONG,
    "silent since its first seconds, and its client has another connection to the same broker that"
    " it used after that",
)
_BEFORE_THE_OTHERS = Sign(
    Role.BOOTSTRAP,
    Confidence.WEAK,
    "silent since its first seconds, before its client used any other connection",
)


def beginning_of(members: Collection[TrackedConnection], now: float) -> Beginning:
    """Return how a client began; `members` are all connections that it ever opened."""
    silent = min(members, key=lambda each: each.last_activity_at)
    if not _is_silent(silent, now):
        return Beginning(_first_to_open(members, now))
    # Two requests of the first may wait at once; one is the list's, after which others open.
    is_first = all(
        _was_silent_before(silent, each) and each.opened_at >= silent.opened_at
        for each in members
        if each is not silent
    )
    first = silent.cookie if is_first else _first_to_open(members, now)
    return Beginning(first, silent.last_activity_at)


def _first_to_open(members: Collection[TrackedConnection], now: float) -> int | None:
    first = min(members, key=lambda each: each.opened_at)
    is_first = all(_was_opened_before(first, each) for each in members if each is not first)
    return first.cookie if is_first and _is_silent(first, now) else None


def _is_silent(tracked: TrackedConnection, now: float) -> bool:
    return is_established(tracked) and is_quiet(tracked, now)


def _was_silent_before(one: TrackedConnection, other: TrackedConnection) -> bool:
    return one.last_activity_at + _APART < other.last_activity_at


def _was_opened_before(one: TrackedConnection, other: TrackedConnection) -> bool:
    return one.opened_at + _APART < other.opened_after


def _learned(
    kinds: frozenset[ClientKind],
    quiet: Sequence[TrackedConnection],
    roles: Mapping[int, Role],
) -> dict[int, Sign]:
    """Find idle connections to brokers to which their client had its bootstrap connection."""
    if kinds not in ({ClientKind.PRODUCER}, {ClientKind.ADMIN}):
        return {}
    role = Role.DATA if kinds == {ClientKind.PRODUCER} else Role.ADMIN
    bootstrap = {each.reading.remote for each in quiet if roles.get(each.cookie) is Role.BOOTSTRAP}
    return {
        each.cookie: Sign(
            role,
            Confidence.STRONG,
            "not its client's bootstrap connection to this broker, which fell silent before it",
        )
        for each in quiet
        if each.cookie not in roles and each.reading.remote in bootstrap
    }


# ---- a process's connections ------------------------------------------------------------------


def _used_in_process(
    in_use: Iterable[TrackedConnection], roles: Mapping[int, Role]
) -> dict[int, Sign]:
    """Find what is in use and does not look like heartbeats."""
    return {
        each.cookie: _IN_USE_WEAK
        for each in in_use
        if each.cookie not in roles and (is_busy(each) or not is_steady(each))
    }


def _pairs(
    members: Iterable[TrackedConnection], quiet: Iterable[TrackedConnection]
) -> dict[int, Sign]:
    """Find the silent ones that another connection to the same broker followed, and used more.

    Whose that other one is nobody knows: of a process that makes many clients and uses none of them
    some are wrong.
    """
    by_broker: dict[Endpoint, list[TrackedConnection]] = defaultdict(list)
    for each in members:
        by_broker[each.reading.remote].append(each)
    idle = {each.cookie for each in quiet}
    signs: dict[int, Sign] = {}
    for held in by_broker.values():
        held.sort(key=lambda each: each.opened_at)
        taken: set[int] = set()
        for each, after in pairwise(held):
            if each.cookie in idle and each.cookie not in taken and _follows(after, each, idle):
                taken.add(after.cookie)
                signs[each.cookie] = _FOLLOWED_IN_PROCESS
    return signs


def _smallest(
    members: Sequence[TrackedConnection], quiet: Sequence[TrackedConnection]
) -> dict[int, Sign]:
    """Find the silent ones that carried hardly more than the one that carried least."""
    figures = [
        (each, info.bytes_acked or 0, info.bytes_received or 0)
        for each in quiet
        if (info := each.reading.info) is not None
    ]
    if len(members) < 2 or not figures:  # noqa: PLR2004 - alone it is compared with nothing
        return {}
    least_out = min(out for _, out, _ in figures)
    least_in = min(incoming for _, _, incoming in figures)
    return {
        each.cookie: _HARDLY_MORE
        for each, out, incoming in figures
        if out <= least_out + _LITTLE_OUT and incoming <= least_in + _LITTLE_IN
    }


def _follows(after: TrackedConnection, before: TrackedConnection, idle: Collection[int]) -> bool:
    if not _was_silent_before(before, after):
        return False
    if after.opened_at - before.opened_at > _PAIR_SECONDS:
        return False
    if after.cookie not in idle:
        return True
    first, second = before.reading.info, after.reading.info
    if first is None or second is None:
        return False
    return (first.bytes_acked or 0, first.data_segments_out or 0) < (
        second.bytes_acked or 0,
        second.data_segments_out or 0,
    )


_FOLLOWED_IN_PROCESS = Sign(
    Role.BOOTSTRAP,
    Confidence.WEAK,
    "silent since its first seconds, and its process soon had another connection to the same broker"
    " that carried more",
)


_HARDLY_MORE = Sign(
    Role.BOOTSTRAP,
    Confidence.WEAK,
    "silent since its first seconds, and it carried hardly more than the least of its process: no"
    " records",
)


_IDLE_OF_LIBRDKAFKA = Sign(
    Role.DATA,
    Confidence.WEAK,
    "silent since its first seconds, and librdkafka from 2.10 on closes its bootstrap connections",
)


def _of_librdkafka(
    members: Iterable[TrackedConnection], roles: Mapping[int, Role], now: float
) -> dict[int, Sign]:
    """Classify what librdkafka holds: it has no epoll, and keeps no bootstrap connection."""
    signs = _used_in_process([each for each in members if is_in_use(each)], roles)
    for each in members:
        if each.cookie not in roles and is_quiet(each, now):
            signs.setdefault(each.cookie, _IDLE_OF_LIBRDKAFKA)
    return signs
