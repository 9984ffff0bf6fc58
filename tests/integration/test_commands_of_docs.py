"""The commands of README.md, docs/use.md and docs/fleet.md as written, from a clean folder.

Here: those that need neither Spark nor a broker. The others:

- `make demo` and `make test` install; the gate is `make test`, and `test_demo.py` runs the demo.
- `batch` and `report` read what `simulate` wrote for some minutes with Spark:
  `tests/spark/test_commands_of_docs.py`, on demand.
- `report --push` needs a Pushgateway of that name: `test_fleet_push.py` has one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.config.files import settings_from_text
from exporter.config.settings import Settings
from tests.integration.kernel_support import needs_root

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/use.md", "docs/fleet.md")
ELSEWHERE = re.compile(r"make demo FOR=20s$|make test$|brokerwire-rollups (batch|report) --")
# The sections of user pages that show a configuration of the agent.
SECTION = re.compile(r"(sources|journal|alertmanager|web|brokers):")
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

# A client of a broker that listens on a usual port, in a process that is called java.
CLIENT = """
import socket, time
server = socket.create_server(("127.0.0.1", 9092))
held = [socket.create_connection(("127.0.0.1", 9092)) for _ in range(2)]
print("connected", flush=True)
time.sleep(60)
"""
# A network of its own: nobody else's client and nobody else's agent on port 10920.
SCENE = """
set -e
ip link set lo up
./java client.py >connected &
client=$!
until grep -q connected connected; do sleep 0.1; done
{run} 2>agent.log &
agent=$!
for _ in $(seq 100); do
    if (exec 3<>/dev/tcp/127.0.0.1/10920) 2>/dev/null; then break; fi
    sleep 0.1
done
echo "== metrics"
python - <<'EOF'
from urllib.request import urlopen
print(urlopen("http://127.0.0.1:10920/metrics").read().decode())
EOF
set +e
{asked}
kill -TERM $agent
wait $agent
echo "== $?"
kill $client
"""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    return [re.sub(r"\s+# .*", "", line) for line in lines if line]


def questions() -> list[str]:
    """Return the agent's own command, and what docs/use.md asks it then."""
    return [line for line in commands("docs/use.md") if re.match(r"(source <\()?brokerwire ", line)]


def test_each_command_is_run_somewhere():
    here = questions()
    for line in [line for page in PAGES for line in commands(page)]:
        run_here = line in here or line.startswith("brokerwire-rollups simulate")
        assert run_here or ELSEWHERE.match(line), line


@pytest.mark.root
@needs_root
def test_run_and_what_is_asked_then(tmp_path):
    lines = questions()
    assert lines[0] == "brokerwire run"
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "java").symlink_to(sys.executable)
    asked = "\n".join(f'echo "== {line}"; {line}; echo "== $?"' for line in lines[1:])
    script = SCENE.format(run=lines[0], asked=asked)
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", script],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    said = done.stdout
    assert re.findall(r"^== (\d+)$", said, re.MULTILINE) == ["0"] * len(lines), said + done.stderr
    parts = dict(re.findall(r"^== (\D.*?)\n(.*?)(?=^== )", said, re.MULTILINE | re.DOTALL))
    assert 'kafka_client_connections{broker="127.0.0.1:9092"' in parts["metrics"]
    assert "2 connections" in parts["brokerwire inspect"]
    assert "127.0.0.1:9092" in parts["brokerwire explain java"]
    assert "9092" in parts["brokerwire top"]
    assert (tmp_path / "brokerwire-bundle.json").stat().st_size > 1000
    assert "ok   zombie: 0 (max 0)" in parts["brokerwire check --max zombie=0"]


def test_simulate_writes_the_folder_that_the_next_command_reads(tmp_path):
    """12 s, and 600 MB that are removed again."""
    simulate, batch = (
        line for line in commands("docs/fleet.md") if re.search(r" (simulate|batch) ", line)
    )
    done = subprocess.run(
        ["bash", "-e", "-c", simulate],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = list((tmp_path / re.search(r"--input (\S+)", batch)[1]).rglob("*.jsonl*"))
    assert sum(path.stat().st_size for path in written) > 1e8
    shutil.rmtree(tmp_path)


def configurations():
    for page in ("docs/client-metrics.md", "docs/alertmanager.md", "docs/fleet.md"):
        for text in blocks(page, "yaml"):
            if SECTION.match(text):
                yield pytest.param(text, id=f"{Path(page).stem}-{text.split(':')[0]}")


def test_each_of_these_pages_shows_a_configuration():
    assert {each.id.split("-")[-1] for each in configurations()} == {
        "sources", "alertmanager", "journal"
    }  # fmt: skip


@pytest.mark.parametrize("text", list(configurations()))
def test_a_configuration_that_a_page_shows_is_read(text):
    assert settings_from_text(text, "brokerwire.yaml") != Settings()
