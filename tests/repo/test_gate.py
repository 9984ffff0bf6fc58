"""The gate cannot pass by skipping: what a tool's absence would hide is a failure there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = """import pytest

def test_missing(): pytest.skip("podman is missing")

@pytest.mark.skipif(True, reason="needs root")
def test_marked(): pass

def test_kernel(): pytest.skip("needs cgroup v2")

@pytest.mark.xfail(strict=True, reason="known")
def test_known(): assert False

@pytest.fixture
def tool(): pytest.skip("helm is missing")

def test_fixture(tool): pass
"""
MODULE = 'import pytest\npytest.skip("needs Chromium", allow_module_level=True)\n'


FLAKY = """import pytest

tries = []

@pytest.mark.lab
def test_at_the_second_try():
    tries.append(1)
    assert len(tries) == 2
"""


def last_lines(folder: Path, files: dict[str, str], **environment: str) -> list[str]:
    """The last two lines of a run of pytest, with this repository's conftest."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    for name, text in files.items():
        (folder / name).write_text(text)
    environment = {**{k: v for k, v in os.environ.items() if k != "CI"}, **environment}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder]
    options = ["-c", os.devnull, "--continue-on-collection-errors", "--color=no", folder]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip().splitlines()[-2:]


def outcomes(folder: Path, **environment: str) -> str:
    files = {"test_cases.py": CASES, "test_module.py": MODULE}
    return last_lines(folder, files, **environment)[0]


def test_with_ci_a_skip_is_a_failure(tmp_path):
    assert outcomes(tmp_path, CI="1").startswith("1 failed, 1 skipped, 1 xfailed, 3 errors")


def test_without_it_a_skip_is_a_skip(tmp_path):
    assert outcomes(tmp_path).startswith("5 skipped, 1 xfailed")


def test_second_tries_are_counted_in_the_last_line(tmp_path):
    outcome, last = last_lines(tmp_path, {"test_flaky.py": FLAKY}, CI="1")
    assert re.match(r"1 passed,.* 1 rerun", outcome)
    assert last.startswith("tests that needed a second try: 1 (")
    assert "test_at_the_second_try" in last


def test_without_second_tries_the_last_line_says_so(tmp_path):
    last = last_lines(tmp_path, {"test_cases.py": "def test_it(): pass\n"})[1]
    assert last == "tests that needed a second try: 0"


def test_the_gate_sets_it():
    assert "export CI=1" in (ROOT / ".ci" / "run").read_text().splitlines()
