"""What docs/client-metrics.md gives to paste: it parses, and the senders reach a listening agent."""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from exporter.clients.statistics_socket import StatisticsSocket
from exporter.config.files import read_settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "client-metrics.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DOCUMENT = '{"name": "rdkafka#producer-1", "client_id": "orders", "brokers": {}}'
SEND_IN_NODE = """
const { sendStatistics } = require(process.argv[1]);
sendStatistics(process.argv[2])(process.argv[3]);
setTimeout(() => {}, 500);
"""
SEND_IN_GO = """
package main

import (
	"os"
	"time"

	"test/brokerwire"
)

func main() {
	sender := brokerwire.NewSender(os.Args[1])
	sender.Send(os.Args[2])
	time.Sleep(500 * time.Millisecond)
	sender.Close()
}
"""


def blocks(language: str) -> list[str]:
    found = [text for name, text in BLOCK.findall(PAGE.read_text("utf-8")) if name == language]
    assert found
    return found


@pytest.fixture
def node():
    """Playwright's: it comes with the requirements."""
    import playwright

    return Path(playwright.__file__).parent / "driver" / "node"


@pytest.fixture
def go():
    found = shutil.which("go")
    if found is None:
        pytest.skip("Go is missing")
    return found


@pytest.fixture
def listening(tmp_path):
    """An agent's statistics socket: its path and a queue of readings."""
    readings = queue.SimpleQueue()
    inlet = StatisticsSocket(str(tmp_path / "s"), readings.put, readings.put)
    inlet.start()
    yield tmp_path / "s", readings
    inlet.stop()


def client_id_of(readings) -> str:
    return readings.get(timeout=10).clients[0].client_id


def test_every_client_of_the_table_has_a_section():
    text = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| \[([^\]]+)\]\(#([a-z-]+)\)", text, re.MULTILINE)
    assert len(rows) == 6
    headings = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
    assert {anchor for _, anchor in rows} <= anchors


@pytest.mark.parametrize("text", blocks("python"))
def test_python_compiles(text):
    compile(text, PAGE.name, "exec")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_parses_and_an_agent_takes_what_is_meant_for_it(text, tmp_path):
    if "sources" in yaml.safe_load(text):
        path = tmp_path / "brokerwire.yaml"
        path.write_text(text)
        assert read_settings(str(path)).sources


@pytest.mark.parametrize("text", blocks("javascript"))
def test_javascript_parses(text, node, tmp_path):
    path = tmp_path / "snippet.js"
    path.write_text(text)
    subprocess.run([node, "--check", path], check=True, timeout=60)


def test_the_node_sender_reaches_an_agent(node, listening):
    path, readings = listening
    sender = ROOT / "examples" / "statistics" / "node" / "brokerwire.js"
    subprocess.run([node, "-e", SEND_IN_NODE, sender, path, DOCUMENT], check=True, timeout=60)
    assert client_id_of(readings) == "orders"


@pytest.mark.ondemand
def test_the_go_sender_reaches_an_agent(go, listening, tmp_path):
    path, readings = listening
    for number, text in enumerate(blocks("go")):
        snippet = tmp_path / f"snippet{number}.txt"
        snippet.write_text(text)
        subprocess.run([Path(go).with_name("gofmt"), "-e", snippet], check=True, timeout=60)
    (tmp_path / "go.mod").write_text("module test\n\ngo 1.21\n")
    (tmp_path / "main.go").write_text(SEND_IN_GO)
    (tmp_path / "brokerwire").mkdir()
    shutil.copy(ROOT / "examples" / "statistics" / "go" / "brokerwire.go", tmp_path / "brokerwire")
    subprocess.run([go, "run", ".", path, DOCUMENT], cwd=tmp_path, check=True, timeout=240)
    assert client_id_of(readings) == "orders"
