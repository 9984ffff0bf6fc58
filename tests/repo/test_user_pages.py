"""User pages say what is so; what stands behind it is in docs/internals/verification.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/alertmanager.md",
    "docs/classes.md",
    "docs/dashboards.md",
    "docs/fleet.md",
    "docs/journal.md",
    "docs/tables.md",
    "docs/client-metrics.md",
    "docs/install.md",
    "docs/use.md",
    "examples/README.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_user_page_names_no_test_and_no_machine(page):
    text = (ROOT / page).read_text("utf-8")
    assert re.findall(r"`(?:tests/[^`]*|test_\w+\.py)`", text) == []
    assert (
        re.findall(r"(?:not|nothing)[^.|\n]{0,40} (?:run|built|started|tried|proven) here", text)
        == []
    )


def test_each_test_that_the_page_of_proofs_names_is_there():
    named = re.findall(
        r"`(?:tests/\w+/)?(test_\w+\.py)`", (ROOT / "docs/internals/verification.md").read_text()
    )
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) > 20
    assert set(named) <= there
