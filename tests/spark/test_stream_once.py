"""A topic through Structured Streaming into the tables of the batch: small enough for every run."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.spark.command import run_to_the_end
from tests.spark.comparing import contents
from tests.spark.fleets import quiet
from tests.spark.journals import Agent
from tests.spark.test_stream import TOPIC, produce

# All others are functions of these, by the same code for streams and batches.
TABLES = ("silver", "quarantine")


def journal():
    """Two agents over an hour's end, with records doubled, out of order, cut and foreign."""
    lines = []
    for number in (1, 2):
        agent = Agent(agent_id=f"agent-{number}")
        agent.series(1)
        agent.series(2, **{"class": "zombie", "cause": "superseded_bootstrap"})
        for _ in range(7):
            agent.grow(1, connection_ms=600_000, useful_ms=500_000, opened=number)
            agent.grow(2, connection_ms=600_000)
            agent.write(minutes=10)
        lines += agent.lines()
    return [*lines[1::2], *lines[::2], *lines[:5], lines[0][:50], "{}"]


@pytest.mark.lab
@pytest.mark.timeout(600)
def test_a_topic_in_two_runs_is_the_batch_over_its_records(spark, tables, kafka_cluster, tmp_path):
    """The second run reads what came after the first, by the checkpoint, and nothing again."""
    from spark_rollups.jobs.ingest import ingest
    from spark_rollups.jobs.sources import kafka_options
    from spark_rollups.jobs.stale import StaleHours
    from spark_rollups.jobs.streaming import Stream
    from spark_rollups.tables import Tables

    lines = journal()
    cluster = kafka_cluster(brokers=1)
    cluster.create_topic(TOPIC, partitions=2)
    options = kafka_options(cluster.bootstrap(), TOPIC, []) | {"startingOffsets": "earliest"}
    streamed = Tables(spark, str(tmp_path / "streamed"))
    read = []
    for part in (lines[:30], lines[30:]):
        produce(cluster.bootstrap(), part)
        stream = Stream(streamed, str(tmp_path / "checkpoint"), quiet, refresh_seconds=1e9)
        query = stream.run(options)
        query.awaitTermination()
        read.append(query.lastProgress["numInputRows"])
    assert read == [30, len(lines) - 30]

    texts = spark.createDataFrame([(line, "file") for line in lines], "raw string, source string")
    ingest(tables, texts)
    for name in TABLES:
        assert contents(streamed, name) == contents(tables, name)
    assert len(contents(tables, "silver")) == 12
    assert len(contents(tables, "quarantine")) == 2
    # The hours that wait for the tables behind silver.
    assert len(StaleHours(spark, str(tmp_path / "checkpoint")).all()) == 2


@pytest.mark.ondemand
@pytest.mark.lab
@pytest.mark.timeout(600)
def test_records_that_the_topic_lost_before_they_were_read_are_told_of(kafka_cluster, tmp_path):
    """As where the topic keeps an hour and the stream was away for two."""
    cluster = kafka_cluster(brokers=1)
    servers = cluster.bootstrap()
    cluster.create_topic(TOPIC, partitions=2)

    def stream():
        return run_to_the_end(
            *("stream", "--once", "--kafka", servers, "--topic", TOPIC, "--memory", "1g"),
            *("--tables", tmp_path / "tables", "--checkpoint", tmp_path / "checkpoint"),
        )

    lines = journal()
    produce(servers, lines[:10])
    first = stream()
    assert not first.said("may have been lost")
    produce(servers, lines[10:30])
    admin = AdminClient({"bootstrap.servers": servers})
    (deleted,) = admin.delete_records([TopicPartition(TOPIC, 0, 12)]).values()
    assert deleted.result(30).low_watermark == 12
    second = stream()
    assert second.said("may have been lost")
