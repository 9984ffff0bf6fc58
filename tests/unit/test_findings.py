"""Findings: what somebody should change, with the setting that does it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.alerts.settings import Thresholds
from exporter.config.settings import ClassSettings
from exporter.connections.seniority import Client, OwnerClients
from exporter.findings.explanations import explain
from exporter.findings.findings import REBALANCE_SECONDS, UNANSWERED_SECONDS, Held, find
from exporter.model import ClientKind, ClientThreads, ConnectionClass, Library, Role
from exporter.snapshot import ClientBroker, Expectation, Severity, SourceStatus
from tests.unit.snapshots import PROCESS, SIDE_PROCESS, connection, zombie

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


def test_a_disabled_idle_timeout_is_one_finding_for_a_client():
    connections = [connection(n, idle_limit_seconds=0.0) for n in (1, 2)]
    [finding] = found(*connections)
    assert (finding.name, finding.value) == ("KafkaClientIdleClosingOff", 2.0)
    assert "broker" not in finding.labels
    native = [replace(one, library=Library.LIBRDKAFKA) for one in connections]
    assert found(*native) == ()
    assert found(*(replace(one, idle_limit_seconds=540.0) for one in connections)) == ()
    assert found(*(replace(one, idle_limit_seconds=None) for one in connections)) == ()


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


def workers(count, brokers=3):
    """So many producers, each with a connection to each broker; all but the first are excess."""
    return [
        connection(
            10 * client + broker,
            client_id=f"worker-{client}",
            broker=f"10.2.0.{broker}:9092",
            evidence=(f"{count} clients in this process, the configuration allows 1",),
            connection_class=ConnectionClass.EXCESS if client > 1 else ConnectionClass.DATA,
            useful=client == 1,
        )
        for client in range(1, count + 1)
        for broker in range(1, brokers + 1)
    ]


def test_clients_that_a_process_does_not_need_are_one_finding():
    [finding] = found(*workers(4))
    assert (finding.name, finding.labels) == (
        "KafkaClientExcessConnections",
        {"process": "orders"},
    )
    assert finding.value == len(finding.cookies) == 9.0
    assert finding.description.startswith(
        "orders: 4 producers hold 12 connections to 3 brokers, 3 needed: 4 clients"
    )
    assert "Share one producer" in finding.remedy


def test_processes_are_found_one_by_one():
    others = [replace(one, owner=SIDE_PROCESS, cookie=one.cookie + 1000) for one in workers(2)]
    told = found(*workers(2), *others)
    assert [finding.labels["process"] for finding in told] == ["orders", "billing"]
    assert {finding.value for finding in told} == {3.0}


def test_the_needed_number_is_what_the_rules_expect_of_the_process():
    expected = {ClientBroker.of(workers(1)[0]): Expectation(2, ())}
    processes = {PROCESS.key: OwnerClients(PROCESS, (), ())}
    held = Held(processes=processes, expected=expected)
    [finding] = find(workers(2), (), TIMES, held=held)
    assert "2 needed" in finding.description
    # Of two processes of one name the numbers are added up: then it is what is useful.
    namesake = OwnerClients(replace(PROCESS, key="9:9"), (), ())
    held = Held(processes=processes | {"9:9": namesake}, expected=expected)
    [finding] = find(workers(2), (), TIMES, held=held)
    assert "3 needed" in finding.description


UNUSED = {"unused_seconds": 540.0, "useful": False}


def test_connections_unused_since_their_opening_are_one_finding_for_a_process():
    bootstrap = [connection(n, client_id=None, **UNUSED) for n in (1, 2, 3)]
    [finding] = found(*bootstrap, connection(4))
    assert (finding.name, finding.labels) == (
        "KafkaClientUnusedConnections",
        {"process": "orders"},
    )
    assert (finding.value, finding.cookies) == (3.0, (1, 2, 3))
    assert "4 connections, 3 unused since they were opened, for up to 9 min" in (
        finding.description
    )
    assert names(*bootstrap[:2], connection(4)) == []
    assert names(*bootstrap, *(connection(n) for n in (4, 5, 6, 7))) == []
    assert names(*bootstrap[:2], replace(bootstrap[2], owner=SIDE_PROCESS)) == []


def test_many_producers_in_one_process_are_told_and_many_consumers_are_not():
    producers = [connection(n, client_id=f"p-{n}") for n in range(10)]
    assert names(*producers) == ["KafkaClientManyInstances"]
    assert names(*producers[:9]) == []
    elsewhere = [replace(one, owner=SIDE_PROCESS) for one in producers[:5]]
    assert names(*producers[5:], *elsewhere) == []
    assert names(*(replace(one, client_kind=ClientKind.CONSUMER) for one in producers)) == []


NAMELESS = {"client_id": None, "client_kind": ClientKind.UNKNOWN}


@pytest.mark.parametrize(
    ("threads", "groups", "kind", "text"),
    [
        pytest.param(
            ClientThreads(producers=10), 0, "producer", "10 producers hold", id="producers"
        ),
        pytest.param(ClientThreads(producers=9), 9, None, "", id="one less"),
        pytest.param(ClientThreads(consumers=12), 12, None, "", id="consumers"),
        pytest.param(
            ClientThreads(librdkafka=11), 0, "unknown", "11 clients hold", id="librdkafka"
        ),
        pytest.param(ClientThreads(), 10, "unknown", "10 clients hold", id="groups alone"),
        pytest.param(ClientThreads(consumers=2), 11, None, "", id="groups, some of consumers"),
    ],
)
def test_without_metrics_groups_and_threads_count_the_clients(threads, groups, kind, text):
    connections = [connection(n, **NAMELESS) for n in range(3)]
    clients = tuple(Client(0.0, 0.0, ()) for _ in range(groups))
    held = Held(
        processes={PROCESS.key: OwnerClients(PROCESS, clients, ())},
        threads={PROCESS.key: threads},
    )
    told = find(connections, (), TIMES, held=held)
    if kind is None:
        assert told == ()
        return
    [finding] = told
    assert (finding.name, finding.value) == ("KafkaClientManyInstances", 3.0)
    assert finding.labels == {"process": "orders", "client_kind": kind}
    assert text in finding.description


def test_an_operator_says_from_how_many_on():
    producers = [connection(n, client_id=f"p-{n}") for n in range(3)]
    few = Thresholds(client_instances=3)
    assert [each.name for each in find(producers, (), TIMES, thresholds=few)] == [
        "KafkaClientManyInstances"
    ]
    unused = [connection(1, **UNUSED)]
    few = Thresholds(unused_connections=1)
    assert [each.name for each in find(unused, (), TIMES, thresholds=few)] == [
        "KafkaClientUnusedConnections"
    ]


@pytest.mark.parametrize(
    "finding",
    [
        found(zombie(1))[0],
        found(*workers(2))[0],
        found(waiting(1))[0],
        found(connection(1, idle_limit_seconds=0.0))[0],
    ],
    ids=lambda finding: finding.name,
)
def test_a_finding_says_what_its_alert_says(finding):
    alert = ALERTS_BY_NAME[finding.name]
    told = (finding.severity, finding.summary, finding.remedy)
    assert told == (alert.severity, alert.summary, alert.remedy)
    if alert.waits_for_each_pod:
        # One alert for a broker, whichever of its clients see it.
        assert set(alert.labels) <= set(finding.labels)
    else:
        assert set(finding.labels) <= set(alert.labels)


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
    assert answer.meaning
    assert answer.recommendation
    assert answer.closes
    assert answer.evidence


def test_an_explanation_says_for_how_long_a_connection_was_never_used():
    answer = explain(zombie(1))
    assert answer.evidence[-1] == "unused since it was opened, for 12 min"
