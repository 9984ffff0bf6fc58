"""The rollups' commands of docs/fleet.md as written, from a clean folder.

On demand, since `batch` over a simulated day takes minutes of Spark, which the other tests of
`batch` and `report` already take. The commands that need no Spark are run every time, by
`tests/integration/test_commands_of_docs.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def commands_of(page):
    """Return the fenced block that begins with `brokerwire-rollups simulate`."""
    blocks = re.findall(
        r"^```bash\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    found = [block for block in blocks if block.startswith("brokerwire-rollups simulate")]
    assert len(found) == 1
    return found[0]


@pytest.mark.ondemand
def test_the_commands_run_from_a_clean_folder(tmp_path):
    """With relative paths: `batch` ended with "this is a bug"."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", commands_of("docs/fleet.md")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert {"fleet", "tables", "report.html", "fleet.prom"} <= {
        each.name for each in tmp_path.iterdir()
    }
    assert (tmp_path / "report.html").stat().st_size > 50_000
