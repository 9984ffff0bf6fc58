"""examples/compose: what can be known of it without a registry."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from exporter.config.files import read_settings
from tests.e2e.monitoring import tool

FOLDER = Path(__file__).parents[2] / "examples" / "compose"
SCHEMA = Path(__file__).parent / "compose-spec.json"
GIVEN_BY_USER = {"jmx_prometheus_javaagent.jar"}


@pytest.fixture(scope="module")
def document() -> dict:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def services(document) -> dict:
    return document["services"]


def mistakes(document) -> list[str]:
    """What the compose specification says of a file, by its own schema."""
    schema = json.loads(SCHEMA.read_text())
    # Draft 7: it names that draft by another address than the draft does itself.
    found = Draft7Validator(schema).iter_errors(document)
    return [error.json_path for error in found]


def test_it_is_what_the_specification_says(document):
    assert mistakes(document) == []


@pytest.mark.parametrize(
    ("service", "key", "value"),
    [
        pytest.param("orders", "port", ["127.0.0.1:10920:10920"], id="unknown-key"),
        pytest.param("brokerwire", "cap_drop", "ALL", id="no-list"),
        pytest.param("kafka", "healthcheck", {"test": ["CMD"], "tries": 3}, id="deep"),
    ],
)
def test_the_specification_tells_a_mistake(document, service, key, value):
    wrong = copy.deepcopy(document)
    wrong["services"][service][key] = value
    assert mistakes(wrong)


def test_every_file_that_is_mounted_is_there(services):
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert Path(source).name in GIVEN_BY_USER or (FOLDER / source).exists(), source


def test_configuration_of_the_agent_is_one():
    settings = read_settings(str(FOLDER / "brokerwire.yaml"))
    assert settings.sources.java[0].url == "http://127.0.0.1:9404/metrics"


def test_configuration_of_prometheus_is_one(tmp_path):
    text = (FOLDER / "prometheus.yaml").read_text()
    here = tmp_path / "prometheus.yml"
    here.write_text(text.replace("/etc/prometheus/brokerwire", str(FOLDER.parents[1] / "rules")))
    done = subprocess.run(
        [tool("promtool"), "check", "config", here], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_sidecar_is_closed_and_in_the_clients_namespaces(services):
    sidecar = services["brokerwire"]
    assert sidecar["network_mode"] == sidecar["pid"] == "service:orders"
    assert sidecar["user"] == services["orders"]["user"] != "0:0"
    assert sidecar["read_only"] is True
    assert sidecar["cap_drop"] == ["ALL"]
    assert sidecar["security_opt"] == ["no-new-privileges:true"]


def test_every_port_is_of_this_machine_only(services):
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
