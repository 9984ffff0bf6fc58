"""The lab is the measure of everything else: its truth is held against the kernel's own table."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections import Counter

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JavaMetrics
from tests.lab.listeners import LISTENERS
from tests.lab.processes import wait_until
from tests.lab.rdkafka_client import Statistics
from tests.lab.truth import endpoint
from tests.lab.versions import CLIENT_GENERATIONS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

GENERATIONS = pytest.mark.parametrize("generation", CLIENT_GENERATIONS)


def kernel_connections(pid):
    """Return the (local, remote) pairs that the kernel lists for a process."""
    listing = subprocess.run(["ss", "-tnpH"], capture_output=True, text=True, check=True).stdout
    fields = [line.split() for line in listing.splitlines() if f"pid={pid}," in line]
    return sorted((endpoint(field[3]), endpoint(field[4])) for field in fields)


def assert_truth_is_the_kernels(client):
    """Compare on a moment when neither side has just changed."""

    def agreed():
        before = kernel_connections(client.pid)
        told = sorted((c.local, c.remote) for c in client.truth())
        return before and before == told == kernel_connections(client.pid)

    wait_until(f"{client.process.name} and the kernel to agree", agreed, timeout=20)


def roles(client, name):
    return Counter(c.role for c in client.truth() if c.name == name and c.instance == 0)


def populate(client, cluster, topic, **options):
    """Open one client of each kind and wait until they have settled."""
    cluster.create_topic(topic, 3)
    every = range(3)
    client.producer("plain", **options)
    client.send("plain", topic, partitions=every)
    transactional = {"transactional.id": f"{topic}-{client.pid}"}
    client.producer("transactional", properties=transactional, **options)
    client.send("transactional", topic, partitions=every)
    client.consumer("grouped", topics=[topic], group=f"{topic}-{client.pid}", **options)
    client.wait_assignment("grouped", partitions=3)
    client.consumer("assigned", assign=[f"{topic}:0"], **options)
    client.admin("operator", **options)
    assert client.ask("operator") == ["1", "2", "3"]
    wait_until("records to be read", lambda: client.status("grouped")["records"] >= 6)


@GENERATIONS
def test_java_tells_every_socket_that_the_kernel_has(shared_cluster_3, java_client, generation):
    client = java_client(shared_cluster_3, generation)
    assert client.version == generation
    populate(client, shared_cluster_3, f"java-{generation}")
    assert_truth_is_the_kernels(client)
    assert roles(client, "plain")["data"] == 3
    assert roles(client, "grouped")["coordinator"] == 1
    assert roles(client, "operator")["admin"] >= 1
    assert roles(client, "plain")["bootstrap"] >= 1
    coordinators = [c for c in client.truth() if c.is_transaction_coordinator]
    assert [c.name for c in coordinators] == ["transactional"]
    assert {c.broker_id for c in client.truth()} == {1, 2, 3}


def test_librdkafka_tells_every_socket_that_the_kernel_has(shared_cluster_3, rdkafka_client):
    client = rdkafka_client(shared_cluster_3)
    populate(client, shared_cluster_3, "librdkafka")
    assert_truth_is_the_kernels(client)
    assert roles(client, "plain") == {"data": 3}
    assert roles(client, "transactional") == {"data": 3, "transaction": 1}
    assert roles(client, "grouped") == {"data": 3, "coordinator": 1}


@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_leaked_twins_are_told_apart(shared_cluster_2, java_client, rdkafka_client, library):
    shared_cluster_2.create_topic("twins", 2)
    client = (
        java_client(shared_cluster_2, "3.9.2")
        if library == "java"
        else rdkafka_client(shared_cluster_2)
    )
    client.producer("twin")
    client.send("twin", "twins", partitions=[0, 1])
    client.leak("twin", 2)
    wait_until(
        "three producers to connect",
        lambda: {c.instance for c in client.truth()} == {0, 1, 2},
    )
    assert {c.client_id for c in client.truth()} == {"twin"}
    assert_truth_is_the_kernels(client)


def test_totals_of_java_are_the_kernels_bytes(shared_cluster_2, java_client):
    """The law of the join, on a quiet connection: the lab's figures are those it speaks of."""
    shared_cluster_2.create_topic("totals", 1)
    client = java_client(shared_cluster_2, "3.9.2")
    client.producer("counted")
    client.send("counted", "totals")

    def holds():
        quiet = next(c for c in client.truth() if c.role == "data")
        listing = subprocess.run(
            ["ss", "-tinH", "src", quiet.local], capture_output=True, text=True, check=True
        ).stdout
        return (
            f"bytes_acked:{quiet.totals['outgoing-byte-total'] + 1} " in listing
            and f"bytes_received:{quiet.totals['incoming-byte-total']} " in listing
        )

    # Quiet is a state that comes: the last answer may just be on its way.
    wait_until("the kernel and the client to count the same", holds, timeout=20)


@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_closing_a_client_leaves_its_leaked_twins(
    shared_cluster_2, java_client, rdkafka_client, library
):
    shared_cluster_2.create_topic("twins", 2)
    client = (
        java_client(shared_cluster_2, "4.4.0")
        if library == "java"
        else rdkafka_client(shared_cluster_2)
    )
    client.producer("twin")
    client.leak("twin")
    client.close("twin")
    wait_until("the twin alone", lambda: {c.instance for c in client.truth()} == {1})
    assert_truth_is_the_kernels(client)


@pytest.mark.parametrize("library", ["java", "librdkafka"])
@pytest.mark.parametrize("leak", [False, True], ids=["closed", "leaked"])
def test_a_producer_for_every_request(shared_cluster_2, java_client, rdkafka_client, library, leak):
    shared_cluster_2.create_topic("requests", 2)
    client = (
        java_client(shared_cluster_2, "3.9.2")
        if library == "java"
        else rdkafka_client(shared_cluster_2)
    )
    client.producer_per_request("r", "requests", requests=3, interval=0.1, leak=leak)
    wait_until("three requests", lambda: client.status("r")["requests"] == 3)
    assert {c.instance for c in client.truth()} == ({0, 1, 2} if leak else set())
    client.close("r")
    wait_until("all to be closed", lambda: not kernel_connections(client.pid))
    assert client.truth() == []


@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_every_listener_serves_every_library(secured_cluster, java_client, rdkafka_client, library):
    secured_cluster.create_topic("secured", 2)
    client = (
        java_client(secured_cluster, "2.1.0")
        if library == "java"
        else rdkafka_client(secured_cluster)
    )
    for listener in LISTENERS:
        for mechanism in ("PLAIN", "SCRAM-SHA-256") if "SASL" in listener else ("PLAIN",):
            name = f"{listener}-{mechanism}"
            client.producer(name, listener=listener, mechanism=mechanism)
            client.send(name, "secured", partitions=[0, 1])
            addresses = {c.remote for c in client.truth() if c.name == name}
            assert addresses == set(secured_cluster.addresses(listener).values())
    assert_truth_is_the_kernels(client)


@pytest.fixture(scope="module")
def secured_cluster(lab_artifacts):
    with KafkaCluster(lab_artifacts, brokers=2, listeners=tuple(LISTENERS)) as cluster:
        yield cluster


def test_bootstrap_through_a_load_balancer_is_through_no_broker(
    shared_cluster_3, java_client, bootstrap_relay
):
    relay = bootstrap_relay(shared_cluster_3)
    client = java_client(shared_cluster_3, "3.9.2")
    client.producer("balanced", properties={"bootstrap.servers": relay.address})
    wait_until("metadata to arrive", lambda: roles(client, "balanced")["bootstrap"])
    first = next(c for c in client.truth() if c.role == "bootstrap")
    assert (first.remote, first.broker_id) == (relay.address, None)
    assert_truth_is_the_kernels(client)


@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_a_connection_that_is_not_answered_is_told_while_it_connects(
    shared_cluster_2, java_client, rdkafka_client, library
):
    client = (
        java_client(shared_cluster_2, "4.4.0")
        if library == "java"
        else rdkafka_client(shared_cluster_2)
    )
    with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for filler in (first, second):  # a full backlog: the kernel answers nobody else
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        address = "{}:{}".format(*deaf.getsockname())
        client.producer("hopeful", properties={"bootstrap.servers": address})
        wait_until("an attempt", client.truth)
        assert_truth_is_the_kernels(client)
        [attempt] = client.truth()
        assert (attempt.remote, attempt.role) == (address, "bootstrap")
        assert attempt.connected is (False if library == "java" else None)


def test_a_broker_that_moved_is_known_at_both_addresses(kafka_cluster, java_client):
    """The old process hangs, so old connections stay, and new ones go to the new address."""
    cluster = kafka_cluster(brokers=2)
    cluster.create_topic("moving", 2)
    client = java_client(cluster, "4.4.0")
    client.producer("mover", properties={"request.timeout.ms": 60000})
    client.send("mover", "moving", partitions=[0, 1])
    old = cluster.addresses()[1]
    cluster.move(1)
    new = cluster.addresses()[1]
    assert old != new
    assert old in {c.remote for c in client.truth() if c.role == "data"}
    cluster.kill_retired()
    client.send("mover", "moving", partitions=[0, 1])
    remotes = {c.remote: c.broker_id for c in client.truth() if c.role == "data"}
    assert remotes == {new: 1, cluster.addresses()[2]: 2}


@GENERATIONS
def test_every_way_to_publish_java_metrics_speaks(shared_cluster_2, java_client, generation):
    shared_cluster_2.create_topic("published", 1)
    metrics = JavaMetrics(jmx_exporter="connect-total", jolokia=True, micrometer=True)
    client = java_client(shared_cluster_2, generation, metrics=metrics)
    client.producer("published")
    client.admin("unbound")
    client.send("published", "published")
    row = 'kafka_producer_node_outgoing_byte_total{clientId="published",nodeId="node-1"}'
    assert row in get(client.jmx_url)
    bean = "kafka.producer:type=producer-node-metrics,client-id=published,node-id=node-1"
    assert json.loads(get(f"{client.jolokia_url}read/{bean}"))["value"]["request-total"] >= 1
    assert 'client_id="published"' in get(client.micrometer_url)


@pytest.mark.parametrize(
    ("rules", "row"),
    [
        pytest.param(
            "plain",
            'kafka_producer_producer_node_metrics_outgoing_byte{client_id="p",node_id="node-1"}',
            id="plain",
        ),
        pytest.param(
            "connect",
            'kafka_producer_node_outgoing_byte{clientId="p",nodeId="node-1"}',
            id="connect",
        ),
    ],
)
def test_jmx_exporter_strips_total_from_untyped_names(shared_cluster_2, java_client, rules, row):
    shared_cluster_2.create_topic("published", 1)
    metrics = JavaMetrics(jmx_exporter=rules)
    client = java_client(shared_cluster_2, "4.4.0", metrics=metrics)
    client.producer("p")
    client.send("p", "published")
    assert row in get(client.jmx_url)


def test_statistics_of_librdkafka_are_delivered(shared_cluster_2, rdkafka_client, tmp_path):
    target = tmp_path / "statistics.jsonl"
    client = rdkafka_client(shared_cluster_2, statistics=Statistics(interval=0.2, file=target))
    client.producer("measured")
    wait_until("a document", lambda: target.exists() and target.read_text().endswith("\n"))
    assert json.loads(target.read_text().splitlines()[0])["client_id"] == "measured"


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()
