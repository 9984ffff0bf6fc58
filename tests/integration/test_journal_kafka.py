"""The journal's way to a topic, against librdkafka's own mock cluster."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from exporter.config.journal import JournalKafkaSettings, JournalSettings
from exporter.journal import kafka as journal_kafka
from exporter.journal.kafka import WINDOW_BATCHES, KafkaDelivery
from exporter.journal.sink import JournalSink
from exporter.journal.spool import Spool
from tests.unit.journals import Bench
from tests.unit.journals import socket as a_socket
from tests.unit.test_journal_sinks import lines

ROOT = Path(__file__).parents[2]
TOPIC = "journal"


@pytest.fixture(scope="module")
def cluster():
    """A mock cluster of one broker; the client that owns it lives as long as the tests."""
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = host.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del host


def nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def settings(servers, folder, **changes):
    values = {"spool_folder": str(folder), "topic": TOPIC, "flush_timeout": 10.0}
    return JournalKafkaSettings(bootstrap_servers=servers, **(values | changes))


def consume(servers, topic, seconds=30):
    """Everything that is in a topic now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "t",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    messages, ended, until = [], set(), time.monotonic() + seconds
    while ended != set(partitions) and time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is None:
            messages.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    assert ended == set(partitions)
    return messages


def test_batches_arrive_in_order_under_the_agents_key(cluster, tmp_path):
    spool = Spool(str(tmp_path), 1 << 24)
    for number in range(1, 200):
        spool.add(lines(number, records=3))
    delivery = KafkaDelivery(settings(cluster, tmp_path, topic="ordered"), "agent-1", spool)
    delivery.start()
    delivery.stop()
    delivery.join()
    assert len(spool) == 0
    assert delivery.figures.records == 199 * 3
    assert delivery.figures.last_success is not None
    messages = consume(cluster, "ordered")
    assert {message.key() for message in messages} == {b"agent-1"}
    sent = [line for n in range(1, 200) for line in lines(n, records=3).data.splitlines()]
    assert [message.value() for message in messages] == sent
    spool.close()


def test_the_sink_sends_its_last_batch_before_it_ends(cluster, tmp_path):
    sink = JournalSink(
        JournalSettings(kafka=settings(cluster, tmp_path, topic="last")), "agent-1", 128
    )
    sink.start()
    bench = Bench()
    bench.poll(a_socket(1), seconds=0)
    bench.finish(10)
    until = time.monotonic() + 10
    while not sink.own_connections and time.monotonic() < until:
        time.sleep(0.05)
    assert sink.own_connections >= 1
    sink.take(bench.batches[0])
    sink.stop()
    figures = {(name, labels): value for name, labels, value in sink.readings()}
    records = [dict(each) for each in bench.batches[0].records]
    assert figures["brokerwire_journal_records_total", ("kafka",)] == len(records)
    assert figures["brokerwire_journal_records_total", ("spool",)] == len(records)
    assert figures["brokerwire_journal_spool_batches", ()] == 0
    assert figures["brokerwire_own_broker_connections_opened_total", ()] >= 1
    assert figures["brokerwire_own_broker_connections", ()] == 0
    assert [json.loads(m.value()) for m in consume(cluster, "last")] == records


def test_without_a_broker_the_spool_keeps_all_and_the_end_is_in_time(tmp_path):
    spool = Spool(str(tmp_path), 1 << 24)
    spool.add(lines(1))
    delivery = KafkaDelivery(settings(nobody_listens(), tmp_path, flush_timeout=1.0), "a", spool)
    delivery.start()
    begun = time.monotonic()
    delivery.stop()
    delivery.join()
    assert time.monotonic() - begun < 3.0
    assert len(spool) == 1
    assert delivery.figures.records == 0
    assert delivery.figures.failures > 0
    spool.close()


@pytest.mark.parametrize(
    "client",
    [
        {"no.such.setting": "SECRET-VALUE"},
        {"sasl.password": "file:/nowhere/SECRET-VALUE"},
        {"ssl.ca.location": "/nowhere/ca.pem", "security.protocol": "SSL"},
    ],
)
def test_wrong_client_settings_cost_only_the_sending(tmp_path, caplog, client):
    spool = Spool(str(tmp_path), 1 << 24)
    spool.add(lines(1))
    wrong = settings("127.0.0.1:1", tmp_path, flush_timeout=0.5, client=client)
    delivery = KafkaDelivery(wrong, "a", spool)
    with caplog.at_level(logging.DEBUG):
        delivery.start()
        time.sleep(0.5)
        delivery.stop()
        delivery.join()
    assert len(spool) == 1
    assert delivery.figures.failures >= 1
    told = [record.__dict__.get("error", "") for record in caplog.records]
    assert any("journal.kafka.client" in text for text in told)


def test_a_secret_that_comes_later_is_awaited_and_every_batch_is_sent(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(journal_kafka, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(journal_kafka, "POLL_SECONDS", 0.005)
    batches = WINDOW_BATCHES + 6
    secret, spool = tmp_path / "secret", Spool(str(tmp_path / "spool"), 1 << 24)
    for number in range(batches):
        spool.add(lines(number))
    client = {"sasl.password": f"file:{secret}"}
    delivery = KafkaDelivery(settings(cluster, tmp_path, topic="late", client=client), "a", spool)
    delivery.start()
    deadline = time.monotonic() + 30.0
    while delivery.figures.failures < batches and time.monotonic() < deadline:
        time.sleep(0.01)
    secret.write_text("unused")
    while len(spool) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = len(spool)
    delivery.stop()
    delivery.join()
    spool.close()
    assert delivery.figures.failures >= batches
    assert left == 0


def test_a_batch_that_could_not_be_handed_over_is_sent_again(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(journal_kafka, "PAUSE_SECONDS", 0.0)
    spool = Spool(str(tmp_path), 1 << 24)
    spool.add(lines(1))
    delivery = KafkaDelivery(settings(cluster, tmp_path, topic="again"), "a", spool)
    produce, refused = delivery._produce, []

    def refuse_once(*arguments):
        if not refused:
            refused.append(True)
            raise RuntimeError("refused")
        produce(*arguments)

    monkeypatch.setattr(delivery, "_produce", refuse_once)
    delivery.start()
    deadline = time.monotonic() + 10.0
    while len(spool) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = len(spool)
    delivery.stop()
    delivery.join()
    spool.close()
    assert left == 0


def test_a_spool_that_cannot_be_had_is_tried_again_after_a_pause(cluster, tmp_path):
    folder = tmp_path / "spool"
    folder.write_text("in the way")
    delivery = KafkaDelivery(settings(cluster, tmp_path), "a", Spool(str(folder), 1 << 24))
    delivery.start()
    time.sleep(0.3)
    delivery.stop()
    delivery.join()
    assert delivery.figures.failures == 1


def test_a_password_is_in_no_log_line(cluster, tmp_path, caplog):
    secret = tmp_path / "secret"
    secret.write_text("hunter-two\n")
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": f"file:{secret}",
    }
    spool = Spool(str(tmp_path / "spool"), 1 << 24)
    spool.add(lines(1))
    with caplog.at_level(logging.DEBUG):
        delivery = KafkaDelivery(
            settings(cluster, tmp_path, client=client, flush_timeout=1.0), "a", spool
        )
        delivery.start()
        time.sleep(1.0)
        delivery.stop()
        delivery.join()
    assert delivery.figures.records == 0
    assert "hunter-two" not in "".join(str(record.__dict__) for record in caplog.records)


def test_the_client_library_is_imported_only_for_kafka(tmp_path):
    code = f"""
import sys
from exporter.commands.run import _journal
from exporter.config.journal import JournalFileSettings, JournalSettings
from exporter.config.settings import Settings
file = JournalFileSettings(path={str(tmp_path / "j.jsonl")!r})
sink, _ = _journal(Settings(journal=JournalSettings(file=file)))
sink.start()
sink.stop()
print("confluent_kafka" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "False"
