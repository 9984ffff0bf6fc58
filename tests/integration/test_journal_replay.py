"""Nothing is lost while brokers stand still and the agent is killed; what comes twice is equal.

A mock cluster in a process of its own: stopped and continued, it is a broker that is away.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.integration.test_cli import running
from tests.integration.test_journal_kafka import consume
from tests.integration.test_journal_run import batches_of
from tests.unit.journals import COUNTERS, check

TOPIC = "journal"
CLUSTER = """
import sys
from confluent_kafka import Producer
host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
(broker,) = host.list_topics(timeout=20).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cluster():
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.address = process.stdout.readline().strip()
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def metrics(agent):
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line[0] != "#")


def total(samples, family):
    return sum(float(value) for name, value in samples.items() if name.split("{")[0] == family)


def sums(records):
    """What the counters of a boot add up to: the greatest of each series, and their sum."""
    greatest = {}
    for record in records:
        for name in COUNTERS & record.keys() if record["kind"] == "connections" else ():
            if name != "lifetime_buckets":
                key = (record["series"], name)
                greatest[key] = max(greatest.get(key, 0), record[name] or 0)
    added = dict.fromkeys(COUNTERS, 0)
    for (_series, name), value in greatest.items():
        added[name] += value
    return added


def wait_for(holds, what, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def once(records):
    """Each record once; what has the same place has the same content."""
    found = {}
    for record in records:
        place = (record["boot_id"], record["seq"], record["index"])
        assert found.setdefault(place, record) == record
    return found


@pytest.mark.timeout(240)
def test_what_was_spooled_arrives_after_a_kill(cluster, tmp_path):
    spool, file = tmp_path / "spool", tmp_path / "journal.jsonl"
    config = tmp_path / "brokerwire.yaml"
    config.write_text(f"""
poll: {{interval: 200ms}}
brokers: {{ports: [{cluster.address.rpartition(":")[2]}]}}
journal:
  interval: 1s
  agent_id: lab
  file: {{path: {file}}}
  kafka:
    bootstrap_servers: {cluster.address}
    topic: {TOPIC}
    spool_folder: {spool}
    flush_timeout: 20s
""")
    host, _, port = cluster.address.rpartition(":")

    def waiting():
        return {path.name for path in spool.glob("*.jsonl")}

    with socket.create_connection((host, int(port))):
        with running("--config", str(config)) as agent:
            sent = 'brokerwire_journal_records_total{sink="kafka"}'
            wait_for(lambda: float(metrics(agent)[sent]) >= 4, "records to be acknowledged")
            wait_for(
                lambda: float(metrics(agent)["brokerwire_own_broker_connections"]) >= 1,
                "its own connection to be told",
            )
            cluster.send_signal(signal.SIGSTOP)
            wait_for(lambda: len(waiting()) >= 4, "the spool to fill")
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        left = waiting()
        assert len(left) >= 4
        with running("--config", str(config)) as agent:
            wait_for(lambda: len(waiting()) >= len(left) + 2, "the spool to fill on")
            assert waiting() >= left
            cluster.send_signal(signal.SIGCONT)
            wait_for(lambda: not waiting() & left, "the spool to empty")
            with socket.create_connection((host, int(port))):
                time.sleep(1.0)
            time.sleep(1.0)
            samples = metrics(agent)
            told_at = time.monotonic()
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(30) == 0
            late = time.monotonic() - told_at
    assert waiting() == set()

    written = once(json.loads(line) for line in file.read_bytes().splitlines())
    values = [json.loads(m.value()) for m in consume(cluster.address, TOPIC)]
    topic = once(values)
    batches = batches_of([topic[place] for place in sorted(topic, key=lambda p: order(topic, p))])
    check(batches, 1000)
    assert [batch.final for batch in batches if batch.final] == [True]
    assert batches[-1].final
    # The kill may have come between the two ways out: one batch of the first boot more or less.
    first = batches[0].records[0]["boot_id"]
    differing = {place[:2] for place in topic.keys() ^ written.keys()}
    assert len(differing) <= 1
    assert {boot for boot, _seq in differing} <= {first}
    assert all(topic[place] == written[place] for place in topic.keys() & written.keys())

    boot = batches[-1].records[0]["boot_id"]
    added = sums(record for record in topic.values() if record["boot_id"] == boot)
    assert added["opened"] == total(samples, "kafka_client_connections_opened_total") == 1
    ends = ("closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown")
    ended = sum(added[name] for name in ends) + added["connect_failures"]
    assert ended == total(samples, "kafka_client_connections_closed_total") == 1
    assert added["bytes_out"] >= total(samples, "kafka_client_sent_bytes_total")
    held = sum(record.get("connections", 0) for record in batches[-1].records[1:])
    seconds = total(samples, "kafka_client_connection_seconds_total")
    # The page tells of a poll that was an interval before it at most.
    assert seconds - 0.1 <= added["connection_ms"] / 1000 <= seconds + (late + 1.0) * (held + 1)


def order(records, place):
    return (records[place]["at_ms"], *place)
