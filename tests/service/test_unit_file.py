"""The systemd unit: valid, closed, and open enough for what the agent really asks of the kernel."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import confluent_kafka
import psutil
import pytest
import yaml
from brokerwire_client import send_statistics

from tests.e2e.monitoring import get
from tests.integration.web_support import issue, trusting
from tests.lab.addresses import free_port
from tests.lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).parents[2]
UNIT = REPOSITORY / "examples" / "systemd" / "brokerwire.service"
BROKERWIRE = Path(sys.executable).with_name("brokerwire")
HIGHEST_EXPOSURE = 2.0


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is missing: run tools/install_test_tools.sh"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def ask(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def unit(tmp_path) -> Path:
    """The unit with a program that is there: systemd looks for it."""
    copy = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert "/opt/brokerwire/bin/brokerwire" in text
    copy.write_text(text.replace("/opt/brokerwire/bin/brokerwire", sys.executable))
    return copy


def test_unit_is_valid(unit):
    assert ask(program("systemd-analyze"), "verify", "--man=no", unit) == ""


def test_unit_is_closed(unit):
    words = ask(program("systemd-analyze"), "security", "--offline=true", unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", words)
    assert found is not None, words
    assert float(found[1]) <= HIGHEST_EXPOSURE


@pytest.mark.parametrize("configured", [False, True], ids=["bare", "everything"])
def test_every_system_call_of_the_agent_is_let_through(configured, tmp_path):
    """A run with a scrape, the page and an end by SIGTERM: nothing that the filter refuses.

    Once bare, once with TLS, a user, the statistics' socket, and the journal in file and topic.
    """
    trace = tmp_path / "trace"
    with ExitStack() as stack:
        served = stack.enter_context(_everything(tmp_path)) if configured else _bare()
        command = [program("strace"), "-f", "-qq", "-o", trace, BROKERWIRE, "run", *served.options]
        agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                with suppress(OSError):
                    served.get("/-/ready")
                    break
                time.sleep(0.2)
            for path in ("/metrics", "/", "/api/v1/sources"):
                assert served.get(path)
            time.sleep(2.5)
            wait_until("what is configured to work", served.works, timeout=60, interval=0.5)
        finally:
            child = int(Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()[0])
            os.kill(child, 15)
            agent.wait(30)
    text = trace.read_text()
    used = set(re.findall(r"^\d+\s+(\w+)\(", text, re.MULTILINE))
    assert {"socket", "recvfrom", "execve"} <= used
    assert used <= _allowed()
    families = set(re.findall(r"^\d+\s+socket\((AF_\w+)", text, re.MULTILINE))
    assert {"AF_NETLINK", "AF_UNIX"} <= families if configured else "AF_NETLINK" in families
    (allowed,) = re.findall(r"^RestrictAddressFamilies=(.+)", UNIT.read_text(), re.MULTILINE)
    assert families <= set(allowed.split())


@dataclass(frozen=True)
class _Served:
    """How the agent is started, asked, and found to do all that it was configured for."""

    options: list[str]
    get: Callable[[str], bytes]
    works: Callable[[], bool] = lambda: True


def _bare() -> _Served:
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    return _Served(
        ["--web.listen-address", address], lambda path: get(f"http://{address}{path}", timeout=2)
    )


@contextmanager
def _everything(folder: Path) -> Iterator[_Served]:
    """TLS and a user, statistics by the Unix socket, the journal to a file and to a broker."""
    authority = issue("authority", sans=())
    certificate, key = issue("localhost", authority).write(folder, "tls")
    hashed = bcrypt.hashpw(b"opening", bcrypt.gensalt(5)).decode()
    web = {
        "tls_server_config": {"cert_file": str(certificate), "key_file": str(key)},
        "basic_auth_users": {"me": hashed},
    }
    (folder / "web.yaml").write_text(yaml.safe_dump(web))
    port, inlet = free_port("127.0.0.1"), folder / "statistics.sock"
    with _mock_broker() as broker:
        config = {
            "sources": {"librdkafka": {"unix_socket": str(inlet), "unix_socket_mode": "0666"}},
            "web": {
                "listen_addresses": [f"127.0.0.1:{port}"],
                "config_file": str(folder / "web.yaml"),
            },
            "journal": {
                "interval": "1s",
                "file": {"path": str(folder / "journal.jsonl")},
                "kafka": {"bootstrap_servers": broker, "spool_folder": str(folder / "spool")},
            },
        }
        (folder / "brokerwire.yaml").write_text(yaml.safe_dump(config))
        context = trusting(authority)
        send = send_statistics(f"unix://{inlet}")

        def ask(path: str) -> bytes:
            words = base64.b64encode(b"me:opening").decode()
            request = urllib.request.Request(
                f"https://localhost:{port}{path}", headers={"Authorization": f"Basic {words}"}
            )
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                send(json.dumps({"client_id": "c", "name": "c", "type": "producer", "brokers": {}}))
                return answer.read()

        def works() -> bool:
            sources = json.loads(ask("/api/v1/sources"))["sources"]
            heard = [each["clients"] for each in sources if each["name"] == f"unix:{inlet}"]
            sinks = re.findall(
                r'^brokerwire_journal_records_total{sink="(\w+)"} [1-9]',
                ask("/metrics").decode(),
                re.MULTILINE,
            )
            return heard == [1] and {"file", "kafka"} <= set(sinks)

        yield _Served(["--config", str(folder / "brokerwire.yaml")], ask, works)


@contextmanager
def _mock_broker() -> Iterator[str]:
    """librdkafka's own mock of a broker, in this process."""
    me = psutil.Process()
    before = {each.laddr.port for each in me.net_connections() if each.status == "LISTEN"}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": "unused:1", "test.mock.num.brokers": 1}
    )
    listening = {each.laddr.port for each in me.net_connections() if each.status == "LISTEN"}
    (port,) = listening - before
    yield f"127.0.0.1:{port}"
    producer.flush(1)


def _allowed() -> set[str]:
    """What the unit's filters leave of all system calls, by systemd's own lists."""
    allowed: set[str] = set()
    for line in UNIT.read_text().splitlines():
        if line.startswith("SystemCallFilter=~"):
            for name in line.partition("~")[2].split():
                allowed -= _set(name)
        elif line.startswith("SystemCallFilter="):
            allowed |= _set(line.partition("=")[2])
    # What systemd lets through whatever the filter says.
    return allowed | _set("@default") | {"execve", "exit", "exit_group"}


def _set(name: str) -> set[str]:
    found: set[str] = set()
    for line in ask(program("systemd-analyze"), "syscall-filter", name).splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            found |= _set(word)
        elif word and not word.startswith("#"):
            found.add(word)
    return found
