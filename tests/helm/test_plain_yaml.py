"""examples/kubernetes: the sidecar as plain YAML and as a Kustomize component, the same as the chart's."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import yaml

from exporter.config.files import read_settings
from tests.helm.tools import (
    NEWEST,
    REPOSITORY,
    application_chart,
    conform,
    deployment_in,
    render,
    sidecar_of,
    write_schemas,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.helm

FOLDER = REPOSITORY / "examples" / "kubernetes"


@pytest.fixture
def plain() -> dict:
    return yaml.safe_load((FOLDER / "sidecar.yaml").read_text())


@pytest.fixture
def rendered(tmp_path) -> dict:
    chart = application_chart(tmp_path)
    return deployment_in(render(chart, "--set=brokerwire.sidecar.processAccess=false"))


def test_the_container_is_the_charts(plain, rendered):
    assert sidecar_of(plain, "initContainers") == sidecar_of(rendered, "initContainers")


def test_the_volume_and_the_label_are_the_charts(plain, rendered):
    ours, theirs = plain["spec"]["template"], rendered["spec"]["template"]
    (volume,) = ours["spec"]["volumes"]
    assert volume in theirs["spec"]["volumes"]
    assert ours["metadata"]["labels"].items() <= theirs["metadata"]["labels"].items()
    assert ours["metadata"]["annotations"].keys() <= theirs["metadata"]["annotations"].keys()


def test_the_configuration_is_one(plain, tmp_path):
    file = tmp_path / "brokerwire.yaml"
    file.write_text(plain["spec"]["template"]["metadata"]["annotations"]["brokerwire/config"])
    assert read_settings(str(file)) is not None


def test_a_deployment_with_it_conforms(plain, tmp_path):
    write_schemas(tmp_path, NEWEST)
    whole = with_application(plain)
    done = conform(yaml.safe_dump(whole), tmp_path, NEWEST)
    assert done.returncode == 0, done.stdout
    # Strict: the schema would tell a key that is misspelt.
    sidecar_of(whole, "initContainers")["restartpolicy"] = "Always"
    assert conform(yaml.safe_dump(whole), tmp_path, NEWEST).returncode == 1


def with_application(plain: dict) -> dict:
    """Paste it into a Deployment."""
    whole = copy.deepcopy(plain)
    whole["spec"]["selector"] = {"matchLabels": {"app": "orders"}}
    whole["spec"]["template"]["metadata"]["labels"]["app"] = "orders"
    whole["spec"]["template"]["spec"]["containers"] = [{"name": "orders", "image": "orders:1"}]
    return whole


def test_the_component_patches_with_it():
    """What Kustomize makes of it is walked through by `make e2e-kubernetes`."""
    component = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert component["kind"] == "Component"
    paths: list[Path] = [FOLDER / each["path"] for each in component["patches"]]
    assert paths == [FOLDER / "sidecar.yaml"]
