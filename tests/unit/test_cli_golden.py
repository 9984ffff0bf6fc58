"""Help and tables as recorded: `python -m tests.golden.cli.expected` records them."""

from __future__ import annotations

import pytest

from tests.golden.cli.expected import HERE, expected

EXPECTED = expected()


@pytest.mark.parametrize("name", EXPECTED)
def test_output_is_as_recorded(name):
    assert EXPECTED[name] == (HERE / name).read_text("utf-8")


@pytest.mark.parametrize("name", ["help.txt", "inspect-80.txt"])
def test_nothing_is_wider_than_80_columns(name):
    assert [line for line in EXPECTED[name].splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", ["inspect-80.txt", "inspect-piped.txt"])
def test_a_header_stands_once_and_no_line_ends_with_spaces(name):
    lines = EXPECTED[name].splitlines()
    assert sum("EXPECTED" in line for line in lines) == 1
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_connection_is_a_line_and_a_column_a_cell():
    head, *lines = EXPECTED["inspect.tsv"].splitlines()
    assert len(lines) == 12
    assert {line.count("\t") for line in (head, *lines)} == {head.count("\t")}
