"""Sources against real clients: what a page says lies between two of the clients' own answers."""

from __future__ import annotations

import queue
import time
from pathlib import Path

import pytest

from exporter.clients.java import JavaSource
from exporter.clients.statistics_file import StatisticsFile
from exporter.clients.statistics_socket import StatisticsSocket
from exporter.config.settings import JavaSourceSettings
from exporter.model import Library, Role
from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JavaMetrics
from tests.lab.rdkafka_client import Statistics

pytestmark = pytest.mark.lab

RULES = Path(__file__).parents[2] / "examples" / "jmx_exporter" / "brokerwire.yaml"
ATTRIBUTES = {
    "outgoing_bytes": "outgoing-byte-total",
    "incoming_bytes": "incoming-byte-total",
    "requests": "request-total",
    "responses": "response-total",
}


def truth_of(java):
    return {(one.client_id, one.client_kind, one.node_id): one for one in java.truth()}


def check_between(before, reading, after):
    """Every node with a connection is told, with figures between the two truths."""
    told = {
        (client.client_id, str(client.kind), node.node_id): node
        for client in reading.clients
        for node in client.nodes
    }
    assert before
    for key, connection in before.items():
        node = told[key]
        assert connection.role == str(node.role)
        if node.role is not Role.BOOTSTRAP:
            assert connection.broker_id == node.broker_id
        for figure, attribute in ATTRIBUTES.items():
            count = getattr(node, figure)
            assert connection.totals[attribute] <= count <= after[key].totals[attribute]


def populate(java):
    java.producer("orders")
    java.send("orders", "orders", partitions=range(3))
    java.producer("payments", properties={"transactional.id": f"payments-{time.monotonic_ns()}"})
    java.send("payments", "orders", partitions=[0])
    java.consumer('billing: daily, "all"', topics=["orders"], group=f"g-{time.monotonic_ns()}")
    java.wait_assignment('billing: daily, "all"', partitions=3)
    java.admin("operator")
    java.ask("operator")


@pytest.mark.parametrize("generation", ["2.1.0", "3.9.2", "4.4.0"])
def test_every_page_of_every_generation_tells_the_truth(shared_cluster_3, java_client, generation):
    shared_cluster_3.create_topic("orders", 3)
    how = JavaMetrics(jmx_exporter="plain", jolokia=True)
    java = java_client(shared_cluster_3, generation, metrics=how)
    populate(java)
    for url in (java.jmx_url, java.jolokia_url):
        source = JavaSource(JavaSourceSettings(name="app", url=url, timeout=10.0))
        for _ in range(3):
            before = truth_of(java)
            begun = time.monotonic()
            reading = source.read()
            assert begun <= reading.begun_at <= reading.ended_at <= time.monotonic()
            check_between(before, reading, truth_of(java))
        assert {Library.JAVA} == {client.library for client in reading.clients}


def test_our_rules_tell_the_truth_and_the_version_on_a_small_page(shared_cluster_3, java_client):
    shared_cluster_3.create_topic("orders", 3)
    java = java_client(shared_cluster_3, "4.4.0", metrics=JavaMetrics(jmx_exporter=RULES))
    java.producer("orders")
    java.send("orders", "orders", partitions=range(3))
    java.consumer("billing", topics=["orders"], group=f"g-{time.monotonic_ns()}")
    java.wait_assignment("billing", partitions=3)
    source = JavaSource(JavaSourceSettings(name="app", url=java.jmx_url, timeout=10.0))
    before = truth_of(java)
    reading = source.read()
    check_between(before, reading, truth_of(java))
    assert {"4.4.0"} == {client.version for client in reading.clients}


def test_our_rules_keep_protocol_and_cipher_of_every_connection(lab_artifacts, java_client):
    """What a TLS record costs follows from them; Jolokia serves the same beans with no rules."""
    old = {"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.2"}
    with KafkaCluster(lab_artifacts, brokers=1, listeners=("SSL",)) as cluster:
        how = JavaMetrics(jmx_exporter=RULES, jolokia=True)
        java = java_client(cluster, "4.4.0", metrics=how)
        for name, properties in (("orders", {}), ('billing, "old"', old)):
            java.producer(name, listener="SSL", properties=properties)
            java.send(name, "orders", partitions=[0])
        pages = [
            JavaSource(JavaSourceSettings(name="app", url=url, timeout=10.0)).read()
            for url in (java.jmx_url, java.jolokia_url)
        ]
    ours, beans = [{each.client_id: each for each in page.clients} for page in pages]
    protocols = {
        name: {use.protocol for use in each.ciphers if use.connections}
        for name, each in ours.items()
    }
    assert protocols == {"orders": {"TLSv1.3"}, 'billing, "old"': {"TLSv1.2"}}
    for name, each in ours.items():
        assert sorted(each.ciphers) == sorted(beans[name].ciphers)
        assert sum(use.connections for use in each.ciphers) == each.connection_count > 0
        assert all(use.cipher.startswith("TLS_") for use in each.ciphers)


def delivered(shared_cluster_3, rdkafka_client, statistics, readings):
    shared_cluster_3.create_topic("orders", 3)
    native = rdkafka_client(shared_cluster_3, statistics=statistics)
    native.producer("payments", properties={"transactional.id": f"p-{time.monotonic_ns()}"})
    native.send("payments", "orders", partitions=range(3))
    native.consumer("billing", topics=["orders"], group=f"g-{time.monotonic_ns()}")
    native.wait_assignment("billing", partitions=3)
    roles = {}
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and len(roles.get("billing", ())) < 4:
        reading = readings.get(timeout=10)
        assert 0 <= time.monotonic() - reading.begun_at < 10
        (client,) = reading.clients
        roles[client.client_id] = {
            node.node_id: (str(node.role), node.broker_id, node.remote_name)
            for node in client.nodes
            if node.connection_state == "UP"
        }
    return native, reading, roles


def test_librdkafka_through_the_socket_tells_roles_and_pid(
    tmp_path, shared_cluster_3, rdkafka_client
):
    readings = queue.SimpleQueue()
    inlet = StatisticsSocket(str(tmp_path / "s"), readings.put, readings.put)
    inlet.start()
    try:
        statistics = Statistics(interval=0.5, socket=tmp_path / "s")
        native, reading, roles = delivered(shared_cluster_3, rdkafka_client, statistics, readings)
        assert native.pid == reading.sender_pid
        truth = {}
        for connection in native.truth():
            key = (connection.client_id, connection.remote, connection.role)
            truth[key] = connection.broker_id
        for client_id, nodes in roles.items():
            for role, broker_id, remote_name in nodes.values():
                assert broker_id == truth[client_id, remote_name, role]
    finally:
        inlet.stop()


def test_librdkafka_through_a_file_tells_its_roles(tmp_path, shared_cluster_3, rdkafka_client):
    readings = queue.SimpleQueue()
    path = tmp_path / "statistics"
    path.touch()
    follower = StatisticsFile(str(path), readings.put, readings.put, interval_seconds=0.1)
    follower.start()
    try:
        statistics = Statistics(interval=0.5, file=path)
        _, _, roles = delivered(shared_cluster_3, rdkafka_client, statistics, readings)
    finally:
        follower.stop()
    assert roles["billing"]["GroupCoordinator"][0] == "coordinator"
    assert roles["payments"]["TxnCoordinator"][0] == "transaction"
