"""What all tests share: the lab's fixtures, and one second try for tests of real processes."""

from __future__ import annotations

import pytest
from hypothesis import settings

# An example is slow where the machine is busy, which says nothing of the law that it tries.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

pytest_plugins = ["tests.lab.fixtures"]

# They start brokers, JVMs, browsers and containers on a machine of two cores, and wait for moments
# that the scheduler decides on. A second try is printed (`-ra`), so it is seen, never silent.
TRIED_TWICE = ("browser", "container", "lab")

# Spark computes beside the tests of real brokers, at low priority.
SPARK_TIMEOUT_SECONDS = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of real processes a second try; all others get one (docs/decisions/0008)."""
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_SECONDS))
        if any(item.get_closest_marker(name) for name in TRIED_TWICE):
            item.add_marker(pytest.mark.flaky(reruns=1))
