"""The Python client: a distribution without dependencies that a real agent hears."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
import urllib.request
import venv
from contextlib import contextmanager
from pathlib import Path

import brokerwire_client
import pytest

import exporter
from tests.lab.addresses import free_port

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "python"
SEND = """
import sys
from brokerwire_client import send_statistics
send_statistics(sys.argv[1])('{"name": "rdkafka#producer-1", "client_id": "c", "brokers": {}}')
sys.stdin.readline()
"""


def run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, as a release builds them."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=CLIENT)
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """An environment that has nothing but the wheel; `--no-index`: a dependency would fail."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-index", wheel)
    listed = json.loads(run(*pip, "list", "--format", "json"))
    assert [each["name"] for each in listed] == ["brokerwire-client"]
    return python


@contextmanager
def agent(folder: Path):
    """A real agent with a statistics socket: the socket's path and the agent's address."""
    path = folder / "statistics.sock"
    settings = folder / "brokerwire.yaml"
    settings.write_text(f"sources: {{librdkafka: {{unix_socket: {path}}}}}")
    listen = f"127.0.0.1:{free_port('127.0.0.1')}"
    command = [Path(sys.executable).with_name("brokerwire"), "run", "--config", settings]
    with subprocess.Popen([*command, "--web.listen-address", listen]) as process:
        try:
            yield path, f"http://{listen}"
        finally:
            process.terminate()


def clients_by_source(address: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{address}/api/v1/sources", timeout=5) as answer:
        return {each["name"]: each["clients"] for each in json.load(answer)["sources"]}


@pytest.mark.parametrize("scheme", ["unix", "http"])
def test_a_clean_environment_sends_to_a_real_agent(installed, scheme, tmp_path):
    with agent(tmp_path) as (path, address):
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        target = f"unix://{path}" if scheme == "unix" else address
        heard = 0
        while not heard and time.monotonic() < deadline:
            with subprocess.Popen(
                [installed, "-c", SEND, target], cwd=tmp_path, stdin=subprocess.PIPE
            ) as sender:
                time.sleep(2)  # statistics are read with the next poll, within a second
                try:
                    clients = clients_by_source(address)
                    heard = next((n for name, n in clients.items() if scheme in name), 0)
                except OSError:
                    pass  # not listening yet
                sender.communicate()
    assert heard == 1


def test_the_sdist_has_what_the_wheel_is_built_from(built, tmp_path):
    (sdist,) = built.glob("*.tar.gz")
    run("tar", "-xzf", sdist, "-C", tmp_path, "--strip-components=1")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again",
        cwd=tmp_path)  # fmt: skip
    (first,), (again,) = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert again.read_bytes() == first.read_bytes()


def test_it_is_written_for_python_3_8():
    source = (CLIENT / "brokerwire_client" / "__init__.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 8))


def test_it_has_the_agent_s_version_and_licence():
    assert brokerwire_client.__version__ == exporter.__version__
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
