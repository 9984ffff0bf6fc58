"""The stage of the scenarios as a fixture."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.lab.artifacts import Artifacts
    from tests.lab.cluster import KafkaCluster


@pytest.fixture
def stage(lab_artifacts: Artifacts, tmp_path: Path) -> Iterator[Callable[[KafkaCluster], Stage]]:
    """Return a maker of stages: `stage(cluster)`."""
    with ExitStack() as stack:
        yield lambda cluster: Stage(lab_artifacts, cluster, stack, tmp_path)
