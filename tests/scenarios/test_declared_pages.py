"""A real JVM with jmx_exporter: its roles are exact although nobody configured its page."""

from __future__ import annotations

import pytest

from exporter.config.settings import SourceSettings
from tests.lab.cluster import KafkaCluster

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

TOPIC = "declared"


@pytest.fixture(scope="module")
def cluster(lab_artifacts):
    with KafkaCluster(lab_artifacts, brokers=2) as cluster:
        cluster.create_topic(TOPIC, 2)
        yield cluster


def test_the_page_of_a_jvm_is_found_and_its_roles_are_exact(cluster, stage):
    play = stage(cluster)
    java = play.java("4.4.0")
    java.producer("orders")
    java.send("orders", TOPIC, partitions=range(2))
    watch = play.watch(metrics=False, sources=SourceSettings())
    watch.wait_data(["orders"], 2)
    watch.assert_never_wrong()
    [source] = watch.snapshot.sources
    assert source.name == f"jmx_exporter:{java.jmx_url.rpartition(':')[2].partition('/')[0]}"
    assert source.found_by == f"-javaagent option in the command line of java (pid {java.pid})"
