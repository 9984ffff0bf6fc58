"""All findings together: from an engine's figures, made anew when there is news."""

from __future__ import annotations

from types import SimpleNamespace

from exporter.core.finder import FINDINGS_SECONDS, Finder
from exporter.model import ConnectionClass
from exporter.settings import ClassSettings
from exporter.snapshot import BrokerLimits, ClientBroker, OpenFiles, Totals
from tests.unit.snapshots import connection, zombie

NOW = 10_000.0
PAIR = ClientBroker("orders", "producer", "java", "1", "10.2.0.1:9092")


def engine(*connections, changes=1):
    counts = {PAIR: {ConnectionClass.DATA: 9}}
    return SimpleNamespace(
        connections=connections, counts=counts, closed_lately=(), changes=changes
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
