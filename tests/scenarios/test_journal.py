"""The journal beside real clients: to a file, and to a topic whose broker dies; the agent is killed.

What the topic has in the end, each record once, is what the file has, and adds up to the metrics.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from dataclasses import replace

import psutil
import pytest

from exporter.config.journal import JournalFileSettings, JournalKafkaSettings, JournalSettings
from exporter.config.settings import ClassSettings
from exporter.config.text import yaml_from_settings
from tests.integration.test_cli import running
from tests.integration.test_journal_kafka import consume
from tests.lab.cluster import KafkaCluster
from tests.unit.journals import check

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

TOPIC = "brokerwire-journal"
ENDS = ("closed_by_client", "closed_by_broker", "closed_by_reset", "closed_unknown")


@pytest.fixture(scope="module")
def cluster(lab_artifacts):
    with KafkaCluster(lab_artifacts, brokers=2) as cluster:
        cluster.create_topic("orders", 1, leaders=[1])
        cluster.create_topic(TOPIC, 1, leaders=[2])
        yield cluster


def wait_for(holds, what, seconds=45):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = holds()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds} s: {what}")


def metrics(agent):
    """Every sample of the agent's page: name and labels as text, and the value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def total(samples, family):
    return sum(value for name, value in samples.items() if re.match(rf"{family}(\{{|$)", name))


def by_place(records):
    """Each record once; the same place has the same content."""
    found = {}
    for record in records:
        place = (record["agent_id"], record["boot_id"], record["seq"], record["index"])
        assert found.setdefault(place, record) == record
    return found


def sums(records):
    """What the counters of each boot add up to: of each series the greatest, and their sum."""
    greatest = {}
    for record in records:
        if record["kind"] == "connections":
            key = (record["boot_id"], record["series"])
            for name in ("connection_ms", "useful_ms", "opened", "bytes_out", "bytes_in", *ENDS):
                at = greatest.setdefault((*key, name), 0)
                greatest[*key, name] = max(at, record[name] or 0)
    added = {}
    for (boot, _series, name), value in greatest.items():
        added[boot, name] = added.get((boot, name), 0) + value
    return added


class Batch:
    def __init__(self, records):
        self.records, self.at_ms, self.final = records, records[0]["at_ms"], records[0]["final"]


def batches_of(places):
    found = {}
    for _place, record in sorted(places.items(), key=lambda each: (each[1]["at_ms"], each[0])):
        found.setdefault((record["boot_id"], record["seq"]), []).append(record)
    return [Batch(members) for members in found.values()]


def test_no_record_is_lost_while_the_broker_and_the_agent_are_killed(
    cluster, stage, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("agent")
    spool, file = folder / "spool", folder / "journal.jsonl"
    play = stage(cluster)
    client = play.librdkafka()
    for name in ("orders-a", "orders-b"):
        client.producer(name)
        client.send(name, "orders", partitions=[0], rounds=-1, interval=0.3, wait=False)
    settings = replace(
        play.settings(),
        journal=JournalSettings(
            interval=1.0,
            agent_id="lab",
            labels={"service": "orders"},
            file=JournalFileSettings(path=str(file)),
            kafka=JournalKafkaSettings(
                bootstrap_servers=cluster.bootstrap(), topic=TOPIC, spool_folder=str(spool)
            ),
        ),
    )
    config = folder / "brokerwire.yaml"
    config.write_text(yaml_from_settings(settings))

    with running("--config", str(config)) as agent:
        wait_for(
            lambda: total(metrics(agent), "brokerwire_journal_records_total.*kafka.*") >= 5,
            "records to be acknowledged",
        )
        assert_own_connections_are_told_apart(agent, cluster)
        cluster.kill(2)
        wait_for(lambda: len(list(spool.glob("*.jsonl"))) >= 4, "the spool to fill")
        waiting = {path.name for path in spool.glob("*.jsonl")}
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    left = {path.name for path in spool.glob("*.jsonl")}
    assert left >= waiting

    with running("--config", str(config)) as agent:
        time.sleep(3)
        assert metrics(agent)["brokerwire_journal_spool_batches"] >= len(left)
        # Its attempts are refused now, and are nobody's failures but its own.
        before = metrics(agent)["brokerwire_own_broker_connections_opened_total"]
        cluster.restart(2)
        wait_for(
            lambda: metrics(agent)["brokerwire_journal_spool_batches"] <= 1, "the spool to empty"
        )
        wait_for(
            lambda: metrics(agent)["brokerwire_own_broker_connections_opened_total"] > before,
            "its new connection to be told",
        )
        client.close("orders-b")
        # Openings are counted once their client has had the time to become known.
        time.sleep(ClassSettings().settle_after + 1)
        samples = metrics(agent)
        told_at = time.monotonic()
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(10) == 0
        late = time.monotonic() - told_at
    assert list(spool.glob("*.jsonl")) == []

    messages = consume(cluster.bootstrap(), TOPIC)
    assert {message.key() for message in messages} == {b"lab"}
    topic = by_place(json.loads(message.value()) for message in messages)
    written = by_place(json.loads(line) for line in file.read_bytes().splitlines())
    batches = batches_of(topic)
    check(batches, 1000)
    boots = list(dict.fromkeys(batch.records[0]["boot_id"] for batch in batches))
    assert len(boots) == 2
    assert [batch.final for batch in batches if batch.final] == [True]
    assert batches[-1].final
    assert {each["service"] for each in topic.values()} == {"orders"}
    # The kill came between the two ways out, or it did not: one batch more or less.
    differing = {place[:3] for place in topic.keys() ^ written.keys()}
    assert len(differing) <= 1
    assert {boot for _agent, boot, _seq in differing} <= {boots[0]}
    assert all(topic[place] == written[place] for place in topic.keys() & written.keys())

    last = boots[1]
    added = sums(topic.values())
    assert added[last, "opened"] == total(samples, "kafka_client_connections_opened_total")
    ended = sum(added[last, name] for name in ENDS)
    failures = sum(
        each["connect_failures"] for each in batches[-1].records if each["kind"] == "connections"
    )
    assert ended + failures == total(samples, "kafka_client_connections_closed_total")
    seconds = total(samples, "kafka_client_connection_seconds_total")
    held = sum(each.get("connections", 0) for each in batches[-1].records[1:])
    # The page tells of a poll that was up to two intervals before it.
    assert seconds <= added[last, "connection_ms"] / 1000 + 0.1
    assert added[last, "connection_ms"] / 1000 <= seconds + (late + 2.5) * (held + 1)
    useful = total(samples, "kafka_client_connection_useful_seconds_total")
    assert useful <= added[last, "useful_ms"] / 1000 + 0.1


def assert_own_connections_are_told_apart(agent, cluster):
    """The kernel's own list of the agent's connections is what the metric says, and no client's."""
    addresses = set(cluster.addresses().values())

    def equal():
        mine = [
            each
            for each in psutil.Process(agent.pid).net_connections("tcp")
            if each.raddr and f"{each.raddr.ip}:{each.raddr.port}" in addresses
        ]
        told = metrics(agent)["brokerwire_own_broker_connections"]
        return mine and len([each for each in mine if each.status == "ESTABLISHED"]) == told

    wait_for(equal, "the agent's own connections to be told")
    url = f"http://127.0.0.1:{agent.port}/api/v1/connections"
    with urllib.request.urlopen(url, timeout=5) as answer:
        document = json.load(answer)
    assert document["connections"]
    assert agent.pid not in {each["pid"] for each in document["connections"]}
    assert os.getpid() not in {each["pid"] for each in document["connections"]}
