"""The core put together: what it counts of connections that came and went."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from exporter.config.settings import ClientRule, ClientSettings, Settings
from exporter.engine.engine import Engine
from exporter.model import ClientGroup, ClosedBy, Endpoint, GroupsReading
from tests.unit.sockets import BROKER, end, figures, kernel, owned, reading

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
