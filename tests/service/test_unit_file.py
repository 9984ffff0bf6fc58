"""The systemd unit: valid, closed, and open enough for what the agent really asks of the kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.monitoring import get
from tests.lab.addresses import free_port

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


def test_every_system_call_of_the_agent_is_let_through(tmp_path):
    """A run with a scrape, the page and an end by SIGTERM: nothing that the filter refuses."""
    trace = tmp_path / "trace"
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    agent = subprocess.Popen(
        [program("strace"), "-f", "-qq", "-o", trace, BROKERWIRE,
         "run", "--web.listen-address", address],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(OSError):
                get(f"http://{address}/-/ready", timeout=2)
                break
            time.sleep(0.2)
        for path in ("/metrics", "/", "/api/v1/sources"):
            assert get(f"http://{address}{path}")
        time.sleep(2.5)
    finally:
        child = int(Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()[0])
        os.kill(child, 15)
        agent.wait(30)
    used = set(re.findall(r"^\d+\s+(\w+)\(", trace.read_text(), re.MULTILINE))
    assert {"socket", "recvfrom", "execve"} <= used
    assert used <= _allowed()


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
