"""What the pages for developers name is there, and each room has its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from exporter.model import ConnectionClass

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "docs/internals/architecture.md")
# Where a path on a page may begin.
ROOTS = (ROOT, ROOT / "exporter", ROOT / "spark_rollups", ROOT / "docs")
_PATH = re.compile(r"`([\w.-]*/[\w./-]*|\w+\.(?:py|md|toml))`")


def paths_of(page):
    return _PATH.findall((ROOT / page).read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_each_path_that_a_page_names_is_there(page):
    named = paths_of(page)
    assert len(named) > 20
    modules = {
        path.name for package in ("exporter", "tools") for path in (ROOT / package).rglob("*.py")
    }
    missing = [
        name
        for name in named
        if not any((root / name).exists() for root in ROOTS) and name not in modules
    ]
    assert not missing


def anchors_of(page):
    """Return the anchors of a page's headings as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links_of(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            yield f"{page.relative_to(ROOT)}: {link}"


def test_each_link_leads_to_a_page_and_a_heading():
    pages = [
        *ROOT.glob("*.md"),
        *(
            page
            for top in ("docs", "rules", "helm", "examples")
            for page in (ROOT / top).rglob("*.md")
        ),
    ]
    assert len(pages) > 40
    assert not [broken for page in pages for broken in broken_links_of(page)]


def test_each_room_has_a_line_in_the_tree():
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text("utf-8")
    table = text.partition("| `exporter/` | |")[2].partition("\n\n")[0]
    top = {
        path.name + "/" * path.is_dir()
        for path in (ROOT / "exporter").iterdir()
        if not path.name.startswith("__") and path.name != "py.typed"
    }
    assert set(re.findall(r"`([\w./]+)`", table)) == top


def test_each_class_is_explained():
    classes = (ROOT / "docs" / "classes.md").read_text("utf-8")
    assert set(ConnectionClass) <= set(re.findall(r"`(\w+)`", classes.partition("\n## ")[0]))
    assert set(ConnectionClass) <= set(re.findall(r"^## (\w+)$", classes, re.MULTILINE))


def test_the_apis_description_has_each_class():
    text = (ROOT / "docs" / "api.schema.json").read_text("utf-8")
    sets = [set(each) for each in _enums(json.loads(text)) if "zombie" in each]
    assert sets == [set(map(str, ConnectionClass))] * len(sets)
    assert sets


def _enums(node):
    if isinstance(node, dict):
        if "enum" in node:
            yield node["enum"]
        for value in node.values():
            yield from _enums(value)
    if isinstance(node, list):
        for value in node:
            yield from _enums(value)
