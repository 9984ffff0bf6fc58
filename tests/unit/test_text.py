"""Figures read the same everywhere; text is one line on any terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.commands.tables import connections_table
from exporter.text import MISSING, count_words, duration, percent, size
from exporter.web.document import connections_document
from exporter.web.page import render_page
from tests.unit.snapshots import connection, snapshot


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, MISSING),
        (0.0, "0 ms"),
        (0.00071, "0.71 ms"),
        (0.25, "250 ms"),
        (0.9996, "1 s"),
        (9.84, "9.8 s"),
        (9.96, "10 s"),
        (75.0, "75 s"),
        (119, "119 s"),
        (120, "2 min"),
        (750.0, "12 min"),
        (7200, "2 h"),
        (172_800, "2 d"),
    ],
)
def test_a_duration_has_its_natural_unit(seconds, text):
    assert duration(seconds) == text


@given(st.integers(0, 10**13))
def test_no_duration_needs_an_exponent(microseconds):
    figure, unit = duration(microseconds / 1e6).split()
    assert re.fullmatch(r"\d{1,4}(\.\d{1,3})?", figure)
    assert unit in {"ms", "s", "min", "h", "d"}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, MISSING),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1803, "1.8 KiB"),
        (120 << 20, "120.0 MiB"),
        (2**40 * 5000, "5000.0 TiB"),
    ],
)
def test_bytes_are_in_powers_of_1024(count, text):
    assert size(count) == text


def test_percentages_have_no_space():
    assert (percent(None), percent(0.615)) == (MISSING, "62%")


def test_one_is_singular():
    assert (count_words(1, "socket"), count_words(0, "socket")) == ("1 socket", "0 sockets")


def test_page_and_terminal_write_the_same_figures():
    snap = snapshot((connection(1, outgoing_bytes=1803, incoming_bytes=123_456),))
    page = render_page(snap, "/metrics").decode()
    terminal = " ".join(
        str(cell)
        for table in connections_table(connections_document(snap)).renderables
        for column in table.columns
        for cell in column.cells
    )
    for shown in ("1.8 KiB", "120.6 KiB"):
        assert shown in page
        assert shown in terminal
