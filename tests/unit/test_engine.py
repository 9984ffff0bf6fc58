"""The core put together: what it counts of connections that came and went."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from exporter.config.settings import ClientRule, ClientSettings, Settings
from exporter.connections.view import libraries
from exporter.engine.engine import Engine
from exporter.join.attribution import Attributor
from exporter.model import (
    Attribution,
    ClientGroup,
    ClosedBy,
    Confidence,
    Endpoint,
    GroupsReading,
    JoinSample,
    Library,
)
from exporter.snapshot import ClientLibrary
from tests.unit.joins import client, node, page
from tests.unit.sockets import BROKER, JVM, end, figures, kernel, owned, reading

# As the kernel tells of them (tests/unit/test_tracker.py).
FIN = figures(bytes_acked=2, bytes_received=1, bytes_sent=0, segments_out=4, segments_in=2)
TURNED_AWAY = figures(bytes_acked=1, bytes_sent=24, segments_out=3, segments_in=2)
NOT_THROUGH = figures(bytes_acked=0, segments_out=1, segments_in=1)
WIPED = figures(bytes_acked=0, segments_out=0, segments_in=0, data_segments_in=0)


@pytest.mark.parametrize(
    ("info", "port", "by", "probes", "failures"),
    [
        pytest.param(FIN, BROKER.port, ClosedBy.CLIENT, 1, 0, id="a probe"),
        pytest.param(WIPED, 0, ClosedBy.CLIENT, 1, 0, id="a probe that resets"),
        pytest.param(TURNED_AWAY, BROKER.port, ClosedBy.BROKER, 0, 0, id="the broker resets it"),
        pytest.param(NOT_THROUGH, BROKER.port, ClosedBy.REFUSED, 0, 1, id="refused"),
    ],
)
def test_a_health_check_hangs_up_itself_and_a_client_that_is_turned_away_is_none(
    info, port, by, probes, failures
):
    engine = Engine(Settings())
    client = reading(1)
    engine.poll(kernel(100.0, client), owned(client))
    event = end(reading(2), 101.0, info, remote=Endpoint(BROKER.address, port))
    engine.poll(kernel(101.0, client, closed=[event]), owned(client))
    totals = engine.totals
    assert {each for (_key, each), count in totals.closed.items() if count} == {by}
    assert sum(totals.probes.values()) == probes
    assert sum(totals.connect_failures.values()) == failures


def test_a_probe_that_a_poll_met_hung_up_itself_too():
    engine = Engine(Settings())
    silent = reading(1, info=figures())
    engine.poll(kernel(99.0), {})
    engine.poll(kernel(100.0, silent), owned(silent))
    event = end(silent, 101.0, WIPED, remote=Endpoint(BROKER.address, 0))
    engine.poll(kernel(101.0, closed=[event]), {})
    totals = engine.totals
    assert [by for (_key, by), count in totals.closed.items() if count] == [ClosedBy.CLIENT]
    assert totals.probes == {str(BROKER): 1}


OTHER_BROKER = Endpoint("10.2.0.2", 9092)


def in_use(engine, sockets, *, seconds=30.0, groups=None):
    """Open connections, and send over them once their opening is over."""
    engine.poll(kernel(99.0), {})
    engine.poll(kernel(100.0, *sockets), owned(*sockets), groups)
    later = [replace(each, at=100.0 + seconds, info=figures(500, 700)) for each in sockets]
    engine.poll(kernel(100.0 + seconds, *later), owned(*later), groups)
    return later


def expected_of(engine):
    counted = Counter()
    for key, each in engine.counts.expected.items():
        counted[key.broker] += each.count
    return counted


def test_without_metrics_each_client_needs_one_connection_to_each_broker_that_it_uses():
    """The groups say that there are two clients; each has two used connections to one broker."""
    engine = Engine(Settings())
    sockets = [reading(1), reading(2), reading(3), reading(4, remote=OTHER_BROKER)]
    groups = {cookie: ClientGroup(key=f"g{n}", number=n) for cookie, n in ((1, 1), (2, 1), (3, 2))}
    in_use(engine, sockets, groups=GroupsReading(of=groups))
    assert expected_of(engine) == {str(BROKER): 2, str(OTHER_BROKER): 1}
    assert {key.client_id for key in engine.counts.expected} == {"", "#1", "#2"}


def test_without_metrics_and_groups_every_connection_in_use_is_a_clients():
    engine = Engine(Settings())
    in_use(engine, [reading(1), reading(2), reading(4, remote=OTHER_BROKER)])
    assert expected_of(engine) == {str(BROKER): 2, str(OTHER_BROKER): 1}


def test_an_unused_connection_is_needed_by_nobody_and_counted_as_unused():
    engine = Engine(Settings())
    sockets = [reading(1), reading(2)]
    engine.poll(kernel(99.0), {})
    engine.poll(kernel(100.0, *sockets), owned(*sockets))
    again = [replace(sockets[0], at=131.0, info=figures(500, 700)), sockets[1]]
    engine.poll(kernel(131.0, *again), owned(*again))
    assert expected_of(engine) == {str(BROKER): 1}
    assert [timing.unused for timing in engine.timings.values()] == [1]
    told = {each.cookie: each.unused_seconds for each in engine.connections}
    assert told == {1: None, 2: pytest.approx(31.1, abs=0.1)}


def test_an_operators_number_of_connections_is_that_of_one_client_where_no_groups_are_known():
    rule = ClientRule(process="java", connections_per_broker=5)
    engine = Engine(Settings(clients=ClientSettings(rules=(rule,))))
    in_use(engine, [reading(1), reading(2), reading(3)])
    assert expected_of(engine) == {str(BROKER): 5}


def test_excess_does_not_flip_while_nothing_opens_or_closes():
    """Six clients of one process take turns; the oldest stays the one that is needed."""
    rule = ClientRule(process="java", instances=1)
    engine = Engine(Settings(clients=ClientSettings(rules=(rule,))))
    sockets = [reading(n) for n in range(1, 7)]
    groups = {n: ClientGroup(key=f"g{n}", number=n) for n in range(1, 7)}
    engine.poll(kernel(99.0), {})
    seen = set()
    for turn in range(60):
        at = 100.0 + turn
        busy = 1 + turn % 6
        sockets = [
            replace(each, at=at, info=figures(100 * turn, 100 * turn))
            if each.cookie == busy
            else each
            for each in sockets
        ]
        engine.poll(kernel(at, *sockets), owned(*sockets), GroupsReading(of=groups))
        if turn > 40:
            classes = {each.cookie: each.connection_class for each in engine.connections}
            seen.add(tuple(cookie for cookie in classes if classes[cookie] == "excess"))
    assert seen == {(2, 3, 4, 5, 6)}


def test_the_library_of_a_process_is_known_without_metrics_and_its_version_is_not():
    engine = Engine(Settings())
    java, other = reading(1), reading(2)
    stranger = replace(JVM, key="42:1000", name="other", pid=42, library=Library.UNKNOWN)
    engine.poll(kernel(100.0, java, other), owned(java) | owned(other, owner=stranger))
    assert {key.process: found for key, found in engine.libraries.items()} == {
        "java": frozenset({ClientLibrary(Library.JAVA, None)})
    }


class Stated(Attributor):
    """A join whose outcome is given."""

    def __init__(self, attributions):
        super().__init__()
        self.given = attributions

    def update(self, sample, tracked, addresses_of):
        pass

    @property
    def attributions(self):
        return self.given


def test_clients_that_send_their_statistics_one_by_one_keep_their_versions():
    clients = [client(name, library=Library.LIBRDKAFKA, version="2.16.0") for name in ("a", "b")]
    stated = {
        cookie: Attribution(
            client=each.key("app"),
            node=node("1"),
            library=each.library,
            confidence=Confidence.EXACT,
            evidence=(),
        )
        for cookie, each in enumerate(clients, start=1)
    }
    sockets = kernel(100.0, reading(1), reading(2))
    engine = Engine(Settings(), attributor=Stated(stated))
    engine.poll(sockets, owned(*sockets.sockets))
    for each in clients:
        engine.join(JoinSample(before=sockets, reading=page(101.0, each), after=sockets))
    engine.look_again(102.0)
    versions = {key.client_id: found for key, found in engine.libraries.items()}
    known = frozenset({ClientLibrary(Library.LIBRDKAFKA, "2.16.0")})
    assert versions == {"a": known, "b": known}
    # A client that is gone is forgotten once another one appears: names may come without end.
    del stated[1]
    newcomer = client("c", library=Library.LIBRDKAFKA, version="2.16.0")
    engine.join(JoinSample(before=sockets, reading=page(103.0, newcomer), after=sockets))
    stated[1] = replace(stated[2], client=clients[0].key("app"))
    engine.join(JoinSample(before=sockets, reading=page(104.0), after=sockets))
    engine.look_again(104.0)
    versions = {key.client_id: found for key, found in engine.libraries.items()}
    assert versions == {"a": frozenset({ClientLibrary(Library.LIBRDKAFKA, None)}), "b": known}


def test_the_versions_behind_one_clients_connections_are_all_kept():
    java, older = (
        SimpleNamespace(key="a client", library=Library.JAVA, library_version=version)
        for version in ("4.4.0", "3.9.2")
    )
    assert libraries([java, older, java]) == {
        "a client": {ClientLibrary(Library.JAVA, "4.4.0"), ClientLibrary(Library.JAVA, "3.9.2")}
    }
