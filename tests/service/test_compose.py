"""examples/compose: what can be known of it without a registry."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from exporter.config import read_settings
from tests.e2e.monitoring import tool

FOLDER = Path(__file__).parents[2] / "examples" / "compose"
GIVEN_BY_USER = {"jmx_prometheus_javaagent.jar"}


@pytest.fixture(scope="module")
def services() -> dict:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


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
