"""Kafka to the tables: the stream is the batch and the truth, whatever happens on the way."""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka import Producer

from tests.spark.command import Command
from tests.spark.comparing import differences
from tests.spark.fleets import batch, journal_lines, quiet, simulate
from tests.spark.test_fleet import expected_of, hourly_of

FAULTS = "--faults=duplicates=0.1,disorder=0.2,garbage=0.01,newer=0.01,restarts=0.5"
TOPIC = "journal"


def produce(servers, lines):
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number, line in enumerate(lines):
        producer.produce(TOPIC, line.rstrip("\n"), partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.ondemand
@pytest.mark.lab
@pytest.mark.timeout(1500)
def test_the_stream_ends_in_the_tables_of_the_batch(spark, tables, kafka_cluster, tmp_path):
    """Killed twice, out of order, late, doubled, and all over again without a checkpoint."""
    from spark_rollups.jobs.sources import kafka_options
    from spark_rollups.jobs.streaming import Stream
    from spark_rollups.tables import Tables

    cluster = kafka_cluster(brokers=1)
    servers = cluster.bootstrap()
    cluster.create_topic(TOPIC, partitions=2)
    fleet = simulate(tmp_path / "fleet", FAULTS, agents=8, hours=3)
    lines = journal_lines(fleet)
    early = [line for number, line in enumerate(lines) if number % 7]
    late = lines[::7] + lines[::11]
    produce(servers, early)

    folder, checkpoint = tmp_path / "streamed", str(tmp_path / "checkpoint")
    streamed = Tables(spark, str(folder))
    options = kafka_options(servers, TOPIC, []) | {"startingOffsets": "earliest"}

    def start(*flags):
        return Command(
            *("stream", "--kafka", servers, "--topic", TOPIC, "--tables", folder, *flags),
            *("--checkpoint", checkpoint, "--memory", "1g", "--most-per-batch", len(early) // 2),
        )

    def take_all(**changes):
        stream = Stream(streamed, checkpoint, quiet, refresh_seconds=1e9)
        stream.run(options | changes).awaitTermination()
        stream.refresh()

    # Silver has the first batch, and the checkpoint does not know.
    first = start("--once")
    first.kill_when(lambda: first.said("rows in"))
    # The first batch has come again; its hours are being made anew when the late lines come.
    second = start("--every", "1 second", "--refresh-every", "0")
    second.kill_when(lambda: second.said("hours anew"))
    produce(servers, late)
    take_all()

    batch(tables, fleet / "journal")
    assert hourly_of(tables) == expected_of(fleet)
    assert differences(streamed, tables) == {}

    shutil.rmtree(checkpoint)
    take_all(maxOffsetsPerTrigger=str(len(lines) // 2))
    assert differences(streamed, tables) == {}
