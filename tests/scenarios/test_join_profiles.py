"""Every security profile against real brokers and clients: all that is settled is right."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JavaMetrics
from tests.lab.rdkafka_client import Statistics
from tests.scenarios.join_clients import populate_process
from tests.scenarios.join_recording import Recording, RecordingAttributor
from tests.scenarios.join_verdicts import is_known_limit
from tests.scenarios.scoring import agent_for, score, settings_for, table

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

GENERATIONS = ("2.1.0", "3.9.2", "4.4.0")
LISTENERS = ("PLAINTEXT", "SSL", "SSL_AUTH", "SASL_PLAINTEXT", "SASL_SSL")

TLS12 = {"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.2"}

# The agent reads each page every two seconds: two growths in step, then what they teach.
SETTLE_SECONDS = 60
STEADY_LOOKS = 4

# A connection is settled when it was there for so many reads: some are opened anew meanwhile.
SETTLED_SECONDS = 10


@pytest.fixture(scope="module")
def cluster(lab_artifacts):
    """Three brokers with every kind of listener."""
    with KafkaCluster(lab_artifacts, brokers=3, listeners=LISTENERS) as cluster:
        cluster.create_topic("play", 6)
        yield cluster


def _score(agent, processes, attributor, first_told):
    """Score what was open both before and after the look, and for some time already."""
    told = [truth for process in processes.values() for truth in process.truth()]
    attributor.note_truth(told)
    now = time.monotonic()
    for truth in told:
        first_told.setdefault((truth.local, truth.remote), now)
    snapshot = agent.snapshot()
    still = {
        (truth.local, truth.remote) for process in processes.values() for truth in process.truth()
    }
    settled = [
        truth
        for truth in told
        if (truth.local, truth.remote) in still
        and now - first_told[truth.local, truth.remote] >= SETTLED_SECONDS
        and not is_known_limit(truth)
    ]
    return snapshot, score(snapshot, settled)


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(("PLAINTEXT", "PLAIN", {}, True), id="plaintext"),
        pytest.param(("SSL", "PLAIN", {}, True), id="tls-1.3"),
        pytest.param(("SSL", "PLAIN", TLS12, False), id="tls-1.2"),
        pytest.param(("SSL_AUTH", "PLAIN", {}, True), id="mutual-tls"),
        pytest.param(("SASL_PLAINTEXT", "PLAIN", {}, True), id="sasl-plain"),
        pytest.param(("SASL_PLAINTEXT", "SCRAM-SHA-256", {}, True), id="sasl-scram"),
        pytest.param(("SASL_SSL", "PLAIN", {}, True), id="sasl-tls-plain"),
        pytest.param(("SASL_SSL", "SCRAM-SHA-256", {}, True), id="sasl-tls-scram"),
    ],
)
def test_every_settled_connection_is_right(cluster, java_client, rdkafka_client, tmp_path, profile):
    listener, mechanism, properties, native = profile
    statistics = tmp_path / "statistics"
    metrics = JavaMetrics(jmx_exporter="plain")
    processes = {each: java_client(cluster, each, metrics=metrics) for each in GENERATIONS}
    urls = {name: process.jmx_url for name, process in processes.items()}
    if native:
        processes["librdkafka"] = rdkafka_client(cluster, statistics=Statistics(socket=statistics))
    settings = settings_for(
        cluster, java=urls, statistics_socket=str(statistics), listeners=(listener,)
    )
    with ExitStack() as stack:
        agent = stack.enter_context(agent_for(settings))
        first_told = {}
        attributor = RecordingAttributor(Recording(about=f"{listener} {mechanism}"))
        agent._engine._known.attributor = attributor
        for name, process in processes.items():
            more = {} if name == "librdkafka" else properties
            populate_process(process, name, more=more, listener=listener, mechanism=mechanism)
        deadline = time.monotonic() + SETTLE_SECONDS
        looks_right = 0
        # Right once could be luck: it has to stay so.
        while looks_right < STEADY_LOOKS:
            time.sleep(2)
            snapshot, result = _score(agent, processes, attributor, first_told)
            if result.right <= 40 or result.unknown or result.wrong or result.missing:
                looks_right = 0
            else:
                looks_right += 1
            if time.monotonic() > deadline:
                break
    print(listener, mechanism, result)
    if result.unknown or result.wrong:
        # To be replayed without a lab: tests/unit/test_join_recordings.py.
        attributor.recording.save(tmp_path / "join.json.gz")
        print(f"what the join was fed: {tmp_path / 'join.json.gz'}")
    assert result.wrong == [], table(snapshot)
    assert result.missing == []
    assert result.unknown == 0, table(snapshot)
    assert result.right > 40
