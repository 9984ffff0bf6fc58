"""All findings together: from an engine's figures, made again when there is news."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from exporter.alerts.settings import Thresholds
from exporter.config.settings import ClassSettings
from exporter.connections.activity import Activity
from exporter.connections.endings import ClosedConnection
from exporter.findings.finder import FINDINGS_SECONDS, Finder
from exporter.model import ClosedBy, ConnectionClass, GroupsReading
from exporter.snapshot import BrokerLimits, ClientBroker, OpenFiles, Totals
from tests.unit.snapshots import connection, zombie
from tests.unit.sockets import figures, reading

NOW = 10_000.0
PAIR = ClientBroker("orders", "producer", "java", "1", "10.2.0.1:9092")


def engine(*connections, changes=1, closed=()):
    counts = {PAIR: {ConnectionClass.DATA: 9}}
    return SimpleNamespace(
        connections=connections,
        counts=SimpleNamespace(by_class=counts, expected={}),
        closed_lately=closed,
        changes=changes,
        processes={},
        groups=GroupsReading(),
    )


def names(finder, engine, now=NOW, files=None):
    return [each.name for each in finder.find(engine, Totals(), (), files or {}, now)]


def test_findings_of_all_kinds_come_together_the_most_severe_first():
    finder = Finder(ClassSettings(), BrokerLimits(max_connections_per_ip=10))
    told = names(finder, engine(zombie(1)), files={"java": OpenFiles(99, 100)})
    assert told == [
        "KafkaClientNearDescriptorLimit",
        "KafkaClientNearMaxConnectionsPerIp",
        "KafkaClientZombieConnections",
    ]


def test_a_healthy_client_is_none_from_the_first_poll_on():
    finder = Finder(ClassSettings(), BrokerLimits())
    for second in range(120):
        assert names(finder, engine(connection(1), changes=second), NOW + second) == []


def test_findings_are_kept_until_there_is_news_or_time_has_passed():
    finder = Finder(ClassSettings(), BrokerLimits())
    least, most = FINDINGS_SECONDS
    assert names(finder, engine(zombie(1))) != []
    assert names(finder, engine(changes=2), NOW + least - 1) != []
    assert names(finder, engine(changes=1), NOW + most - 1) != []
    assert names(finder, engine(changes=2), NOW + most - 1) == []
    assert names(finder, engine(zombie(1), changes=2), NOW + 2 * most) != []


def lost(count, by=ClosedBy.BROKER):
    """Endings a second apart, each of a connection that had talked unless it was refused."""
    info = figures(50, 0 if by is ClosedBy.REFUSED else 70, data_segments_in=1)
    rest = Activity(0.0, 0, 0, 0, 0)
    socket = reading(info=info)
    return tuple(
        (
            PAIR,
            ClosedConnection(
                NOW - count + n, socket.local, socket.remote, by, 300.0 + 50 * n, None, info, rest
            ),
        )
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("name", "seen", "lower", "higher"),
    [
        pytest.param(
            "KafkaClientReconnectStorm",
            engine(closed=lost(30)),
            {"storm_connections": 20},
            {"storm_connections": 31},
            id="storm",
        ),
        pytest.param(
            "KafkaClientBrokerUnreachable",
            engine(closed=lost(3, ClosedBy.REFUSED)),
            {"failed_connects": 3},
            {"failed_connects": 4},
            id="failed connects",
        ),
        pytest.param(
            "KafkaClientBrokerUnreachable",
            engine(closed=lost(9, ClosedBy.REFUSED)),
            {"failed_connects": 9},
            {"failed_connects": 10},
            id="many failed connects",
        ),
        pytest.param(
            "KafkaClientBrokerNearMaxConnections",
            engine(),
            {"max_connections": 10},
            {"max_connections": 100},
            id="a limit that the agent does not know",
        ),
        pytest.param(
            "KafkaClientBrokerNearMaxConnections",
            engine(),
            {"max_connections": 18, "near_limit_percent": 50},
            {"max_connections": 18},
            id="how near",
        ),
    ],
)
def test_the_operators_thresholds_decide_both_ways(name, seen, lower, higher):
    limits = BrokerLimits()
    assert names(Finder(ClassSettings(), limits, Thresholds(**lower)), seen) == [name]
    assert names(Finder(ClassSettings(), limits, Thresholds(**higher)), seen) == []
