"""Prometheus itself reads the page: its linter, and its server over TLS with a password."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import bcrypt
import pytest

from tests.integration.web_support import Agent, issue, port_of, put, serving
from tests.lab.addresses import free_port
from tests.unit.metrics_page import page
from tests.unit.snapshots import page_sample, snapshot

CACHE = Path(os.environ.get("BROKERWIRE_CACHE", ".cache")) / "prometheus" / "bin"


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{CACHE}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        message = f"needs {name}: run tools/install_prometheus.sh"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.mark.parametrize("snap", [snapshot(), page_sample(), None])
def test_promtool_finds_nothing_to_say(snap):
    text = page(snap)
    command = [tool("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, check=False, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)


def query(port: int, expression: str) -> list:
    words = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/api/v1/query?{words}", timeout=5
    ) as answer:
        return json.load(answer)["data"]["result"]


def wait_for(port: int, expression: str) -> list:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if result := query(port, expression):
                return result
        except OSError:
            pass  # not listening yet
        time.sleep(0.3)
    pytest.fail(f"Prometheus has no {expression}")


def test_prometheus_scrapes_over_tls_with_a_certificate_and_a_password(tmp_path):
    prometheus = tool("prometheus")
    authority = issue("authority")
    issue("server", authority).write(tmp_path, "server")
    issue("client", authority).write(tmp_path, "client")
    put(tmp_path / "ca.crt", authority.pem)
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    web = (
        "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
        "  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
        f"basic_auth_users:\n  prometheus: {hashed}\n"
    )
    put(tmp_path / "web.yml", web)
    with serving(Agent(page_sample()), web={"config_file": str(tmp_path / "web.yml")}) as server:
        scrape = {
            "job_name": "brokerwire",
            "scrape_interval": "1s",
            "scheme": "https",
            "basic_auth": {"username": "prometheus", "password": "secret"},
            "tls_config": {
                "ca_file": str(tmp_path / "ca.crt"),
                "cert_file": str(tmp_path / "client.crt"),
                "key_file": str(tmp_path / "client.key"),
            },
            "static_configs": [{"targets": [f"localhost:{port_of(server)}"]}],
        }
        put(tmp_path / "prometheus.yml", json.dumps({"scrape_configs": [scrape]}))
        port = free_port()
        command = [
            prometheus,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                held = wait_for(port, "sum(kafka_client_connections)")
                up = query(port, "up")
                over = query(
                    port,
                    "sum without (class) (kafka_client_connections)"
                    " > on (client_id, client_kind, process, broker_id, broker)"
                    " kafka_client_connections_expected",
                )
            finally:
                process.terminate()
    assert held[0]["value"][1] == "12"
    assert up[0]["value"][1] == "1"
    assert len(over) == 5
