"""Every security profile against real brokers and clients: nothing is wrong, little unknown."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.java_client import JavaMetrics
from tests.lab.rdkafka_client import Statistics
from tests.scenarios.join_clients import populate_process
from tests.scenarios.join_recording import Recording, RecordingAttributor
from tests.scenarios.join_verdicts import Verdict, is_known_limit, judge
from tests.scenarios.scoring import agent_for, settings_for, table

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

GENERATIONS = ("2.1.0", "3.9.2", "4.4.0")
LISTENERS = ("PLAINTEXT", "SSL", "SSL_AUTH", "SASL_PLAINTEXT", "SASL_SSL")

TLS12 = {"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.2"}

# The agent reads each page every two seconds, and a read counts once the next look is there.
SETTLE_SECONDS = 90
STEADY_LOOKS = 4

# A connection is settled when it was there for so many reads: some are opened again meanwhile.
SETTLED_SECONDS = 15

# Right, or the truth among nodes that no figure distinguishes; the rest is unknown, never wrong.
LEAST_SHARE = 0.95


@pytest.fixture(scope="module")
def cluster(lab_artifacts):
    """Three brokers with every kind of listener."""
    with KafkaCluster(lab_artifacts, brokers=3, listeners=LISTENERS) as cluster:
        cluster.create_topic("play", 6)
        yield cluster


def _verdicts(agent, processes, attributor, first_told):
    """Judge what was open both before and after the look, and for some time already."""
    told = [truth for process in processes.values() for truth in process.truth()]
    attributor.note_truth(told)
    now = time.monotonic()
    for truth in told:
        first_told.setdefault((truth.local, truth.remote), now)
    snapshot = agent.snapshot()
    found = {(str(each.local), str(each.remote)): each for each in snapshot.connections}
    still = {
        (truth.local, truth.remote) for process in processes.values() for truth in process.truth()
    }
    return snapshot, [
        (truth, judge(found[truth.local, truth.remote], truth))
        for truth in told
        if (truth.local, truth.remote) in still & found.keys()
        and now - first_told[truth.local, truth.remote] >= SETTLED_SECONDS
        and not is_known_limit(truth)
    ]


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
def test_no_settled_connection_is_wrong_and_nearly_all_are_known(
    cluster, java_client, rdkafka_client, tmp_path, profile
):
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
        first_told = {}
        attributor = RecordingAttributor(Recording(about=f"{listener} {mechanism}"))
        agent = stack.enter_context(agent_for(settings, attributor))
        for name, process in processes.items():
            more = {} if name == "librdkafka" else properties
            populate_process(process, name, more=more, listener=listener, mechanism=mechanism)
        deadline = time.monotonic() + SETTLE_SECONDS
        steady = 0
        # Right once could be luck: it has to stay so.
        while steady < STEADY_LOOKS and time.monotonic() < deadline:
            time.sleep(2)
            snapshot, verdicts = _verdicts(agent, processes, attributor, first_told)
            counted = Counter(verdict for _truth, verdict in verdicts)
            known = sum(counted[each] for each in (Verdict.RIGHT, Verdict.EQUAL, Verdict.MISNAMED))
            wrong = [truth for truth, verdict in verdicts if verdict is Verdict.WRONG]
            is_enough = len(verdicts) > 40 and known >= LEAST_SHARE * len(verdicts)
            steady = steady + 1 if is_enough and not wrong else 0
    print(listener, mechanism, dict(counted))
    if steady < STEADY_LOOKS:
        # To be replayed without a lab: tests/unit/test_join_recordings.py.
        attributor.recording.save(tmp_path / "join.json.gz")
        print(f"what the join was fed: {tmp_path / 'join.json.gz'}")
    assert wrong == [], table(snapshot)
    assert known >= LEAST_SHARE * len(verdicts), table(snapshot)
    assert len(verdicts) > 40
