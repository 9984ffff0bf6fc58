"""The scene, made once for all tests here: they run in the order of the files' names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.clients import populate
from tests.e2e.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.artifacts import Artifacts


@pytest.fixture(scope="package")
def scene(lab_artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Return brokers, healthy clients and all that watches them."""
    with Scene(lab_artifacts, tmp_path_factory.mktemp("scene")) as made:
        populate(made)
        yield made
