"""The rollups' image: a batch and a report in it, closed and without any network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.container.pods import CLOSED, build, need_podman, podman

# Building it installs PySpark; the base alone is 400 MB.
pytestmark = [pytest.mark.container, pytest.mark.ondemand, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
TAG = "localhost/brokerwire-rollups:test"
USER = 65532
# What the chart's CronJob mounts: /tmp for Spark, whose libraries are unpacked and loaded there.
MOUNTS = ("--tmpfs", "/tmp:rw,exec,size=1g")
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def image() -> dict:
    need_podman()
    return build(TAG, "--rollups")


@pytest.fixture(scope="module")
def volume(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    os.chown(folder, USER, USER)
    return folder


def rollups(volume: Path, *arguments: str) -> str:
    """Run the image's own command as the CronJob does; nothing may be fetched: no network."""
    # Kubernetes makes no account for the uid, and Spark needs one.
    closed = (*CLOSED, *MOUNTS, "--network", "none", "--memory", "3g", "--passwd=false")
    mounted = ("--volume", f"{volume}:/var/lib/brokerwire")
    return podman("run", "--rm", *closed, *mounted, TAG, *arguments, timeout=900)


def test_is_nobodys_root(image):
    assert image["Config"]["User"] == f"{USER}:{USER}"
    labels = image["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "brokerwire-rollups"
    assert len(labels["org.opencontainers.image.revision"]) == 40


@pytest.mark.usefixtures("image")
def test_a_batch_and_a_report_are_right(volume):
    data = "/var/lib/brokerwire"
    # The simulator is not in the image.
    size = ("--agents", "6", "--hours", "3", "--shards", "2")
    out = ("--out", str(volume / "fleet"))
    subprocess.run([sys.executable, "-m", "fleet_simulator", *size, *out], cwd=ROOT, check=True)
    batch = ("batch", "--input", f"{data}/fleet/journal", "--tables", f"{data}/tables",
             "--master", "local[2]", "--memory", "1g")  # fmt: skip
    rollups(volume, *batch)
    report = ("report", "--tables", f"{data}/tables", "--out", f"{data}/report.html",
              "--openmetrics", f"{data}/fleet.prom", "--memory", "1g")  # fmt: skip
    rollups(volume, *report)
    first = fleet_in(volume)
    assert first["kafka_client_fleet_connections"] == pytest.approx(held_in_truth(volume), rel=1e-6)
    assert b"</html>" in (volume / "report.html").read_bytes()
    # What was read is not read again.
    rollups(volume, *batch)
    rollups(volume, *report)
    assert fleet_in(volume) == first


def fleet_in(volume: Path) -> dict:
    families = text_string_to_metric_families((volume / "fleet.prom").read_text())
    samples = [sample for family in families for sample in family.samples]
    return {sample.name: sample.value for sample in samples if not sample.labels}


def held_in_truth(volume: Path) -> float:
    """Connections on average in the last whole hour, by what the simulation really did."""
    lines = (volume / "fleet" / "truth" / "hourly.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    last = max(row["hour"] for row in rows)
    return sum(row["connection_ms"] for row in rows if row["hour"] == last) / HOUR_MS


@pytest.mark.usefixtures("image")
def test_bill_of_materials_has_packages_wheels_and_jars(tmp_path):
    container = podman("create", TAG)
    try:
        podman("cp", f"{container}:/usr/share/brokerwire/sbom.cdx.json", str(tmp_path / "sbom"))
    finally:
        podman("rm", container)
    document = json.loads((tmp_path / "sbom").read_text())
    assert document["metadata"]["component"]["name"] == "brokerwire-rollups"
    names = {each["name"] for each in document["components"]}
    assert {"openjdk-17-jre-headless", "libc6", "pyspark", "brokerwire"} <= names
    assert any(name.startswith("delta-spark") for name in names)
