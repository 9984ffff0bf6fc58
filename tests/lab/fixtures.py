"""The lab as pytest fixtures: a plugin, loaded by its module name.

What a test starts ends with the test; the shared clusters and the artifacts live as long
as the session.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.lab.artifacts import Artifacts, fetch_artifacts
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabUnavailableError
from tests.lab.java_client import JavaClient
from tests.lab.rdkafka_client import RdkafkaClient
from tests.lab.relay import BootstrapRelay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "bootstrap_relay",
    "java_client",
    "kafka_cluster",
    "lab_artifacts",
    "rdkafka_client",
    "shared_cluster_2",
    "shared_cluster_3",
]


@pytest.fixture(scope="session")
def lab_artifacts() -> Artifacts:
    """Fetch and compile what the lab runs, or skip with the reason; in CI a skip is a failure."""
    try:
        return fetch_artifacts()
    except LabUnavailableError as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def kafka_cluster(lab_artifacts: Artifacts) -> Iterator[Callable[..., KafkaCluster]]:
    """Return a maker of clusters: the arguments of `KafkaCluster`, and it is up."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(KafkaCluster(lab_artifacts, **options))


@pytest.fixture
def java_client(lab_artifacts: Artifacts) -> Iterator[Callable[..., JavaClient]]:
    """Return a maker of JVMs: `java_client(cluster, "4.4.0", metrics=...)`."""
    with ExitStack() as stack:
        yield lambda cluster, generation, **options: stack.enter_context(
            JavaClient(lab_artifacts, cluster, generation, **options)
        )


@pytest.fixture
def rdkafka_client(lab_artifacts: Artifacts) -> Iterator[Callable[..., RdkafkaClient]]:
    """Return a maker of librdkafka processes: `rdkafka_client(cluster, statistics=...)`."""
    with ExitStack() as stack:
        yield lambda cluster, **options: stack.enter_context(
            RdkafkaClient(lab_artifacts, cluster, **options)
        )


@pytest.fixture
def bootstrap_relay() -> Iterator[Callable[..., BootstrapRelay]]:
    """Return a maker of load balancers: `bootstrap_relay(cluster).address` to bootstrap from."""
    with ExitStack() as stack:
        yield lambda cluster, *listener: stack.enter_context(BootstrapRelay(cluster, *listener))


@pytest.fixture(scope="session")
def shared_cluster_3(lab_artifacts: Artifacts) -> Iterator[KafkaCluster]:
    """Three brokers, plaintext, for tests that leave the brokers alone."""
    with KafkaCluster(lab_artifacts, brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_cluster_2(lab_artifacts: Artifacts) -> Iterator[KafkaCluster]:
    """Two brokers, plaintext, for tests that leave the brokers alone."""
    with KafkaCluster(lab_artifacts, brokers=2) as cluster:
        yield cluster
