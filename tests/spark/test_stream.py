"""Kafka to the tables: the stream is the batch, whatever happens to it on the way."""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka import Producer

from tests.spark.command import Command
from tests.spark.comparing import differences
from tests.spark.fleets import journal_lines, quiet, simulate

FAULTS = "--faults=duplicates=0.1,disorder=0.2,garbage=0.01,newer=0.01,restarts=0.5"


def produce(servers, topic, lines):
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number, line in enumerate(lines):
        producer.produce(topic, line.rstrip("\n"), partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.ondemand
@pytest.mark.lab
@pytest.mark.timeout(1500)
def test_the_stream_ends_in_the_tables_of_the_batch(spark, tables, kafka_cluster, tmp_path):
    """Killed after the commit to silver, out of order, late, and all over again without a checkpoint."""
    from spark_rollups.jobs.batch import batch_kafka
    from spark_rollups.jobs.sources import kafka_options
    from spark_rollups.jobs.streaming import start_stream
    from spark_rollups.tables import Tables

    cluster = kafka_cluster(brokers=1)
    servers, topic = cluster.bootstrap(), "journal"
    cluster.create_topic(topic, partitions=2)
    lines = journal_lines(simulate(tmp_path / "fleet", FAULTS, agents=8, hours=3))
    late = lines[::7]
    produce(servers, topic, [line for number, line in enumerate(lines) if number % 7])

    streamed, checkpoint = tmp_path / "streamed", tmp_path / "checkpoint"
    command = Command(
        *("stream", "--kafka", servers, "--topic", topic, "--tables", streamed),
        *("--checkpoint", checkpoint, "--once", "--memory", "1g"),
    )
    command.kill_when(lambda: command.said("rows in"))

    options = kafka_options(servers, topic, []) | {"startingOffsets": "earliest"}
    produce(servers, topic, late)
    few = options | {"maxOffsetsPerTrigger": str(len(lines) // 2)}

    def stream():
        start_stream(Tables(spark, str(streamed)), few, str(checkpoint), quiet).awaitTermination()

    stream()
    batch_kafka(tables, options, quiet)
    assert differences(Tables(spark, str(streamed)), tables) == {}

    shutil.rmtree(checkpoint)
    stream()
    assert differences(Tables(spark, str(streamed)), tables) == {}
