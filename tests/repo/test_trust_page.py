"""The page on trust promises nothing that no test is named for, and names no test that is gone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "internals" / "trust.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \|(.*)\|$", PAGE, re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def functions_of(file):
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists():
    named = set(NAMED.findall(PAGE))
    assert len(named) > 40
    assert {f"{file}::{name}" for file, name in named if name not in functions_of(file)} == set()


def test_every_property_is_there_once_with_its_tests():
    assert [int(number) for number, _ in ROWS] == list(range(1, 28))
    assert all(NAMED.search(row) for _, row in ROWS)


def test_every_threat_is_answered_by_a_test():
    table = PAGE.partition("## Threat model")[2].partition("## Properties")[0]
    threats = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert threats
    assert all(NAMED.search(line) for line in threats)
