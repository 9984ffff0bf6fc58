"""Roles from figures alone: what real clients show (measured), and what only looks like it."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from exporter.connections.activity import Activity
from exporter.connections.client_signs import (
    Beginning,
    ClientOfSigns,
    beginning_of,
    kinds_shown,
    signs_of_client,
)
from exporter.connections.signs import sign_of_one
from exporter.connections.tracker import TrackedConnection
from exporter.model import ClientKind, Confidence, Endpoint, Library, Role
from tests.unit.sockets import JVM, figures, reading

NOW = 10_000.0
ANY = frozenset({ClientKind.PRODUCER, ClientKind.CONSUMER, ClientKind.ADMIN})
PRODUCER = frozenset({ClientKind.PRODUCER})


def connection(*activities, cookie=1, broker=1, opened=NOW - 60, last=None, info=None):
    """A connection with this past."""
    remote = Endpoint(f"10.0.0.{broker}", 9092)
    tracked = TrackedConnection(
        reading=replace(reading(info=info or figures(500, 900)), cookie=cookie, remote=remote),
        owner=JVM,
        opened_at=opened,
        age_is_exact=True,
        first_for_owner=False,
        last_activity_at=last if last is not None else NOW,
        opened_after=opened,
    )
    tracked.activities.extend(activities)
    return tracked


def rhythm(period, *figures, count=30, waiting=0.0):
    """Activities (bytes out and in, segments out and in) in turn, a period apart.

    Of so large a share the last request waits for its answer.
    """
    turns = cycle(figures)
    return [
        Activity(
            NOW - period * (count - n), *next(turns), is_waiting=(n % 10) < round(10 * waiting)
        )
        for n in range(count)
    ]


def merged(*series):
    return sorted(activity for one in series for activity in one)


BEAT = (87, 16, 1, 1)
COMMIT = (203, 64, 1, 1)
HEARTBEATS = merged(rhythm(3.0, BEAT, count=19), rhythm(5.0, COMMIT, count=11))
# Under TLS 1.3: each record is 38 bytes more.
TLS_HEARTBEATS = merged(
    rhythm(3.0, (133, 54, 1, 1), count=19), rhythm(5.0, (250, 103, 1, 1), count=11)
)
RECORDS = rhythm(1.0, (725, 1419, 5, 15), waiting=0.6, count=58)
TLS_PRODUCES = rhythm(1.0, (824, 274, 10, 2), count=58)


# ---- one connection ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activities", "expected"),
    [
        pytest.param(rhythm(3.0, (86, 14, 1, 1)), Role.COORDINATOR, id="heartbeats, Java 2.1"),
        pytest.param(rhythm(3.0, BEAT), Role.COORDINATOR, id="heartbeats, Java 3.9 and 4.4"),
        pytest.param(rhythm(3.0, (79, 14, 1, 1)), Role.COORDINATOR, id="heartbeats, librdkafka"),
        pytest.param(HEARTBEATS, Role.COORDINATOR, id="heartbeats and auto-commits"),
        pytest.param(
            merged(rhythm(5.0, (62, 49, 1, 1), count=20), rhythm(5.1, (180, 75, 1, 1), count=20)),
            Role.COORDINATOR,
            id="KIP-848 heartbeats and auto-commits",
        ),
        pytest.param(RECORDS, Role.DATA, id="records, Java, TLS"),
        pytest.param(rhythm(1.0, (262, 382, 2, 6), waiting=0.3), Role.DATA, id="records"),
        pytest.param(
            rhythm(5.0, (59, 21, 1, 1), waiting=1.0), Role.DATA, id="a long fetch.max.wait.ms"
        ),
    ],
)
def test_what_one_connection_shows(activities, expected):
    assert sign_of_one(connection(*activities)).role is expected


@pytest.mark.parametrize(
    "activities",
    [
        pytest.param([], id="nothing"),
        pytest.param(rhythm(3.0, BEAT, count=7), id="too few heartbeats"),
        pytest.param(rhythm(1.0, BEAT), id="heartbeats' size at another period"),
        pytest.param(
            rhythm(1.5, (140, 40, 1, 1), (95, 16, 1, 1)),
            id="AddPartitionsToTxn and EndTxn each 3 s, parted by a poll",
        ),
        pytest.param(rhythm(3.0, (90, 16, 1, 1), (97, 16, 1, 1)), id="answers alike, requests not"),
        pytest.param(
            rhythm(3.0, (120, 54, 1, 1)),
            id="a produce each 3 s, topic of three letters: a heartbeat's answer under TLS",
        ),
        pytest.param(rhythm(1.0, (201, 88, 1, 1), waiting=0.1), id="a producer under load"),
        pytest.param(TLS_HEARTBEATS, id="heartbeats under TLS"),
    ],
)
def test_what_one_connection_does_not_show(activities):
    assert sign_of_one(connection(*activities)) is None


# ---- a client ----------------------------------------------------------------------------------


def roles(*members, kinds=ANY, is_one=True, library=Library.JAVA, **changes):
    """The roles of a client's connections with their confidence, by cookie."""
    shown = kinds_shown(members) or kinds
    client = ClientOfSigns(members=members, library=library, is_one=is_one, kinds=shown, **changes)
    signs = signs_of_client(client, NOW)
    return {cookie: (sign.role, sign.confidence) for cookie, sign in signs.items()}


def quiet(cookie, broker, *, at, until=0.02):
    """A connection that only said its greetings, `at` seconds ago."""
    return connection(
        cookie=cookie, broker=broker, opened=NOW - at, last=NOW - at + until,
        info=figures(900, 5_000, data_segments_out=7, data_segments_in=7),
    )  # fmt: skip


STRONG, WEAK = Confidence.STRONG, Confidence.WEAK


def test_of_what_a_consumer_uses_the_one_that_does_not_fetch_is_its_coordinator():
    fetch = connection(*RECORDS, cookie=1)
    other = connection(*TLS_HEARTBEATS, cookie=2, broker=2)
    assert roles(fetch, other) == {1: (Role.DATA, STRONG), 2: (Role.COORDINATOR, STRONG)}


def test_a_connection_that_is_used_as_often_as_fetches_are_is_no_coordinator():
    fetch = connection(*RECORDS, cookie=1)
    idle_fetch = connection(*rhythm(1.0, (184, 118, 2, 2), count=58), cookie=2, broker=2)
    assert roles(fetch, idle_fetch)[2] == (Role.DATA, WEAK)


def test_a_consumer_without_partitions_has_a_coordinator_probably():
    assert roles(connection(*TLS_HEARTBEATS)) == {1: (Role.COORDINATOR, WEAK)}


def test_a_slow_producer_has_no_coordinator():
    slow = [
        connection(*rhythm(3.0, (412, 137, 5, 1), count=19), cookie=n, broker=n) for n in (1, 2)
    ]
    assert roles(*slow) == {1: (Role.DATA, STRONG), 2: (Role.DATA, STRONG)}
    plain = [
        connection(*rhythm(3.0, (212, 89, 1, 1), count=19), cookie=n, broker=n) for n in (1, 2)
    ]
    assert roles(*plain, kinds=PRODUCER) == {1: (Role.DATA, STRONG), 2: (Role.DATA, STRONG)}
    assert roles(*plain) == {1: (Role.DATA, WEAK), 2: (Role.DATA, WEAK)}


def test_an_idle_producers_connections_are_told_apart_by_which_fell_silent_first():
    bootstrap, data = quiet(1, 1, at=60), quiet(2, 1, at=59.5)
    assert roles(bootstrap, data, kinds=PRODUCER) == {
        1: (Role.BOOTSTRAP, STRONG),
        2: (Role.DATA, STRONG),
    }


def test_of_a_client_that_may_be_a_consumer_that_is_a_guess():
    """A consumer's idle connection may stand before its coordinator's to the same broker."""
    assert roles(quiet(1, 1, at=60), quiet(2, 1, at=59.5)) == {1: (Role.BOOTSTRAP, WEAK)}


def test_beside_a_consumers_coordinator_it_is_certain():
    fetch = connection(*RECORDS, cookie=1)
    beats = connection(*TLS_HEARTBEATS, cookie=2, broker=2)
    assert roles(fetch, beats, quiet(3, 1, at=60))[3] == (Role.BOOTSTRAP, STRONG)
    assert roles(fetch, beats, quiet(3, 2, at=60))[3] == (Role.BOOTSTRAP, WEAK)


def test_the_first_that_a_client_opened_is_bootstrap():
    members = (quiet(1, 1, at=60), quiet(2, 2, at=59))
    beginning = beginning_of(members, NOW)
    assert beginning == Beginning(1, NOW - 60 + 0.02)
    certain = beginning._replace(is_certain=True)
    assert roles(*members, beginning=certain) == {1: (Role.BOOTSTRAP, STRONG)}
    assert roles(*members, beginning=beginning) == {1: (Role.BOOTSTRAP, WEAK)}


def test_what_was_established_first_is_the_first_whichever_fell_silent_first():
    members = (quiet(1, 1, at=60, until=0.9), quiet(2, 2, at=59.8, until=0.1))
    assert beginning_of(members, NOW).first == 1


def test_where_neither_order_is_known_none_is_the_first():
    members = (quiet(1, 1, at=60, until=0.9), quiet(2, 2, at=59.8, until=0.1))
    for each in members:
        each.opened_after = NOW - 61
    assert beginning_of(members, NOW).first is None


def test_what_was_opened_before_any_connection_fell_silent_is_bootstrap_probably():
    one, other, data = quiet(1, 1, at=60), quiet(2, 2, at=60), quiet(3, 3, at=59.97, until=0.1)
    beginning = beginning_of((one, other, data), NOW)
    assert beginning.first is None
    expected = {1: (Role.BOOTSTRAP, WEAK), 2: (Role.BOOTSTRAP, WEAK)}
    assert roles(one, other, data, beginning=beginning) == expected


def test_a_connection_that_was_used_again_shows_no_beginning():
    """It may have fallen silent long before its last use."""
    in_use = connection(*TLS_PRODUCES, cookie=1, opened=NOW - 60, last=NOW - 30)
    assert beginning_of((in_use, quiet(2, 2, at=20)), NOW) == Beginning()


def test_of_two_to_one_broker_the_one_that_was_opened_first_is_bootstrap():
    bootstrap, data = quiet(1, 1, at=60, until=0.2), quiet(2, 1, at=59.9, until=0.1)
    assert roles(bootstrap, data, kinds=PRODUCER)[1] == (Role.BOOTSTRAP, STRONG)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param((quiet(1, 1, at=2),), id="not silent for long"),
        pytest.param((quiet(1, 1, at=60, until=30.0),), id="used later"),
        pytest.param((quiet(1, 1, at=60), quiet(2, 2, at=60)), id="two at once"),
        pytest.param((connection(*TLS_PRODUCES),), id="in use"),
        pytest.param(
            (connection(opened=NOW - 60, last=NOW - 59, info=figures(9_000, 900, data_segments_out=40)),),
            id="too much went",
        ),
        pytest.param(
            (connection(opened=NOW - 60, last=NOW - 59, info=figures(0, 0)),), id="never an answer"
        ),
    ],
)  # fmt: skip
def test_what_may_be_something_else_is_not_the_first(members):
    assert beginning_of(members, NOW).first is None


def test_a_lone_silent_connection_stays_unknown():
    assert roles(quiet(1, 1, at=60)) == {}
    assert roles(connection(*TLS_PRODUCES, cookie=1), quiet(2, 2, at=20)) == {
        1: (Role.DATA, STRONG)
    }


def test_a_connection_used_once_more_is_not_in_use_yet():
    """A client that waits for its metadata uses a bootstrap connection after seconds."""
    late = Activity(NOW - 52, 60, 300, 1, 1)
    assert roles(connection(late, last=NOW - 52), kinds=PRODUCER) == {}


# ---- a process ---------------------------------------------------------------------------------


def test_of_a_process_nothing_is_more_than_a_guess():
    used = connection(*TLS_PRODUCES, cookie=2)
    found = roles(quiet(1, 1, at=60), used, is_one=False)
    assert found == {1: (Role.BOOTSTRAP, WEAK), 2: (Role.DATA, WEAK)}


def test_where_clients_can_be_told_apart_a_connection_without_one_is_not_judged_by_others():
    used = connection(*TLS_PRODUCES, cookie=2)
    assert roles(quiet(1, 1, at=60), used, is_one=False, is_told_apart=True) == {}


def test_of_a_processes_silent_connections_those_that_carried_least_are_told():
    least, hardly_more, more = quiet(1, 1, at=60), quiet(2, 2, at=58), quiet(3, 3, at=57)
    info = figures(1_200, 5_300, data_segments_out=10, data_segments_in=8)
    more.reading = replace(more.reading, info=info)
    found = roles(least, hardly_more, more, is_one=False)
    assert found == {1: (Role.BOOTSTRAP, WEAK), 2: (Role.BOOTSTRAP, WEAK)}


def test_a_silent_connection_that_no_jvm_makes_is_not_called_bootstrap():
    members = (quiet(1, 1, at=60), quiet(2, 2, at=58))
    for each in members:
        each.reading = replace(each.reading, is_ipv6=False)
    assert roles(*members, is_one=False, library=Library.UNKNOWN) == {}
    assert len(roles(*members, is_one=False)) == 2
