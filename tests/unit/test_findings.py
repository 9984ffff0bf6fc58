"""Findings: what somebody should change, with the setting that does it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.core.explanations import explain
from exporter.core.findings import REBALANCE_SECONDS, UNANSWERED_SECONDS, find
from exporter.model import ClientKind, ConnectionClass, Library, Role
from exporter.settings import ClassSettings
from exporter.snapshot import Severity, SourceStatus
from tests.unit.snapshots import SIDE_PROCESS, connection

TIMES = ClassSettings()


def found(*connections, sources=()):
    return find(connections, sources, TIMES)


def names(*connections):
    return [finding.name for finding in found(*connections)]


def test_a_healthy_client_is_nothing_to_speak_of():
    assert found(connection(1), connection(2, role=Role.COORDINATOR)) == ()


@pytest.mark.parametrize(
    ("connection_class", "name", "word"),
    [
        (ConnectionClass.ZOMBIE, "KafkaClientZombieConnections", "connections.max.idle.ms"),
        (ConnectionClass.EXCESS, "KafkaClientExcessConnections", "client.id"),
        (ConnectionClass.HALF_CLOSED, "KafkaClientHalfClosedConnections", "poll()"),
        (ConnectionClass.GHOST, "KafkaClientGhostDescriptors", "restart"),
        (ConnectionClass.STALE, "KafkaClientStaleEndpoint", "metadata.max.age.ms"),
        (ConnectionClass.CONNECTING, "KafkaClientBrokerUnreachable", "listener"),
    ],
)
def test_waste_is_told_with_its_remedy(connection_class, name, word):
    [finding] = found(connection(1, connection_class=connection_class, useful=False))
    assert finding.name == name
    assert word in finding.remedy
    assert set(finding.labels) <= set(ALERTS_BY_NAME[name].labels)
    assert "orders-producer" in finding.description
    assert (finding.value, finding.cookies) == (1.0, (1,))


def test_connections_of_one_client_and_broker_are_one_finding():
    zombies = [connection(n, connection_class=ConnectionClass.ZOMBIE) for n in (1, 2)]
    elsewhere = connection(3, connection_class=ConnectionClass.ZOMBIE, broker="10.2.0.2:9092")
    assert sorted(finding.value for finding in found(*zombies, elsewhere)) == [1.0, 2.0]


def test_a_broker_that_does_not_answer_is_one_finding_whoever_tries():
    state = {"connection_class": ConnectionClass.CONNECTING, "useful": False}
    [finding] = found(
        connection(1, **state), connection(2, client_id="billing", broker_id=None, **state)
    )
    assert (finding.labels, finding.value) == ({"broker": "10.2.0.1:9092"}, 2.0)
    assert "'billing'" in finding.description


def test_connecting_is_no_trouble_at_first():
    young = connection(1, connection_class=ConnectionClass.CONNECTING, age_seconds=1.0)
    assert names(young) == []


def waiting(number, seconds=UNANSWERED_SECONDS, **changes):
    return connection(number, unanswered_seconds=seconds, incoming_bytes=900, **changes)


def test_a_broker_that_does_not_answer_is_frozen():
    assert names(waiting(1)) == ["KafkaClientFrozenPeer"]
    assert names(waiting(1, UNANSWERED_SECONDS - 1)) == []


def test_a_coordinator_that_does_not_answer_may_wait_for_other_members():
    join = waiting(1, 60.0, role=Role.COORDINATOR)
    assert names(join) == []
    assert names(waiting(1, REBALANCE_SECONDS, role=Role.COORDINATOR)) == ["KafkaClientFrozenPeer"]
    assert names(waiting(1, 60.0, role=Role.UNKNOWN)) == []


def test_a_coordinator_is_frozen_with_its_broker():
    [first, second] = found(
        waiting(1, 60.0, role=Role.COORDINATOR, client_kind=ClientKind.CONSUMER), waiting(2)
    )
    assert {first.name, second.name} == {"KafkaClientFrozenPeer"}


def test_who_never_got_a_byte_needs_no_other_witness():
    mute = connection(1, unanswered_seconds=60.0, incoming_bytes=0, role=Role.UNKNOWN)
    assert names(mute) == ["KafkaClientFrozenPeer"]


def test_idle_closing_that_is_off_is_told_once_for_a_client():
    off = "only the broker's connections.max.idle.ms (10 min by default): the client's own is off"
    connections = [connection(n, close_expected=off, closes_in_seconds=500.0) for n in (1, 2)]
    [finding] = found(*connections)
    assert finding.name == "KafkaClientIdleClosingOff"
    assert "broker" not in finding.labels
    native = [replace(one, library=Library.LIBRDKAFKA) for one in connections]
    assert found(*native) == ()


def test_a_source_that_is_down_is_told_with_its_error():
    down = SourceStatus(
        name="orders",
        kind="java",
        up=False,
        duration_seconds=None,
        reads=3,
        errors=3,
        error="cannot reach http://x: refused",
        clients=0,
        last_success_wall_time=None,
    )
    [finding] = found(sources=[down])
    assert (finding.name, finding.labels["source"]) == ("BrokerwireSourceDown", "orders")
    assert "refused" in finding.description
    assert found(sources=[replace(down, up=True, error=None)]) == ()


def test_many_producers_in_one_process_are_told_and_many_consumers_are_not():
    producers = [connection(n, client_id=f"p-{n}") for n in range(20)]
    assert names(*producers) == ["KafkaClientManyInstances"]
    assert names(*producers[:19]) == []
    elsewhere = [replace(one, owner=SIDE_PROCESS) for one in producers[:10]]
    assert names(*producers[10:], *elsewhere) == []
    assert names(*(replace(one, client_kind=ClientKind.CONSUMER) for one in producers)) == []


def test_the_most_severe_come_first_and_the_order_of_connections_does_not_matter():
    connections = [
        connection(1, connection_class=ConnectionClass.ZOMBIE),
        connection(2, connection_class=ConnectionClass.CONNECTING, age_seconds=60.0),
        connection(3, connection_class=ConnectionClass.GHOST),
    ]
    told = found(*connections)
    assert told[0].severity is Severity.CRITICAL
    assert [f.name for f in told] == [f.name for f in found(*reversed(connections))]


@pytest.mark.parametrize("connection_class", ConnectionClass)
def test_every_class_can_be_explained(connection_class):
    answer = explain(connection(1, connection_class=connection_class))
    assert answer.what
    assert answer.change
    assert answer.closes
    assert answer.why
