from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from exporter.model import ConnectionClass
from exporter.web.markup import Markup, element, text
from exporter.web.page import PAGE_POLICY, render_page
from exporter.web.words import CLASS_WORDS, clock_time
from tests.unit.payloads import PAYLOADS
from tests.unit.snapshots import (
    FINDING,
    PROCESS,
    SOURCES,
    connection,
    fleet,
    page_sample,
    snapshot,
)

ASSETS = Path("exporter/web/static")
SCRIPTS = sorted(ASSETS.glob("*.js"))
VOID = {"meta", "link", "input"}


class Shape(HTMLParser):
    """The elements of a page with the names of their attributes, and all of its text."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values.extend(value or "" for _, value in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")


def page(snap=None, **options) -> bytes:
    return render_page(snap or snapshot(), "/metrics", **options)


def named(name: str) -> bytes:
    """A page on which everything that others may name has this name."""
    owner = replace(PROCESS, name=name)
    each = connection(
        1,
        client_id=name,
        owner=owner,
        evidence=(name, name),
        close_expected=name,
        node_id=name,
        source=name,
        equals=(name,),
        client_instance=name,
    )
    finding = replace(FINDING, summary=name, description=name, remedy=name)
    down = replace(SOURCES[1], name=name, error=name)
    return page(snapshot((each,), findings=(finding,), sources=(down,)))


def test_the_page_is_well_formed():
    shape = Shape(page(page_sample()))
    assert shape.open == []
    assert [tag for tag, _ in shape.elements].count("table") == 3


def test_a_hundred_payloads_are_tried():
    assert len(set(PAYLOADS)) == 100


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_name_adds_an_element_or_an_attribute(payload):
    harmless = Shape(named("a name"))
    hostile = Shape(named(payload))
    assert hostile.elements == harmless.elements
    assert hostile.open == []


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_name_is_shown_as_text(payload):
    words = "".join(Shape(named(payload)).words)
    if payload.isprintable():
        assert payload in words
    assert all(letter.isprintable() or letter == "\n" for letter in words)


def test_nothing_comes_from_elsewhere():
    shape = Shape(page(page_sample()))
    urls = [value for value in shape.values if re.match(r"(https?:)?//|javascript:", value)]
    assert urls == []
    assert not any(
        name.startswith("on") or name == "style" for _, names in shape.elements for name in names
    )
    # The two patterns stand in the page itself.
    css = (ASSETS / "page.css").read_text()
    assert set(re.findall(r"url\((.*?)\)", css)) == {"#hatch", "#dots"}
    assert "@import" not in (ASSETS / "page.css").read_text()


@pytest.mark.parametrize(
    "banned",
    [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "DOMParser",
    ],
)
def test_no_script_makes_html_from_text(banned):
    assert SCRIPTS
    assert [path.name for path in SCRIPTS if banned in path.read_text()] == []


def test_scripts_are_small_and_import_only_each_other():
    assert sum(path.stat().st_size for path in ASSETS.iterdir()) < 300_000
    names = {f"./{path.name}" for path in SCRIPTS}
    for path in SCRIPTS:
        imported = re.findall(r'from "([^"]+)"', path.read_text())
        assert set(imported) <= names, path.name
        assert "import(" not in path.read_text()


def test_the_policy_allows_only_what_the_agent_itself_serves():
    shape = Shape(page())
    assert PAGE_POLICY.startswith("default-src 'none'")
    assert "unsafe" not in PAGE_POLICY
    assert "require-trusted-types-for 'script'" in PAGE_POLICY
    assert [tag for tag, names in shape.elements if tag == "style"] == []
    assert [names for tag, names in shape.elements if tag == "script"] == [("type", "src")]


def test_a_page_below_a_path_finds_its_scripts():
    below = page(base="/networks/12", place="a-pod").decode()
    assert 'src="../../assets/page.js"' in below
    assert 'href="../../assets/page.css"' in below
    assert 'data-place="a-pod"' in below


def test_everything_is_told_without_a_script():
    words = " ".join(Shape(page(page_sample())).words)
    for expected in (
        "orders-producer",
        "billing-consumer",
        "zombie",
        "never used again, never closed",
        "Set connections.max.idle.ms to 540000, or leave it out.",
        "connection refused",
        "10.1.0.7:40001",
        "sent 1803 bytes and so did node-1",
        "by the client when idle for 9 minutes",
        "reads /proc/PID/fd of uid 1000",
        "a producer needs one connection to each leader",
        "/api/v1/connections",
    ):
        assert expected in words


def test_what_is_over_comes_first():
    words = Shape(page(page_sample())).words
    held = words.index("Held and expected")
    assert words.index("billing-consumer", held) < words.index("orders-producer", held)


def test_findings_of_one_kind_share_their_remedy():
    findings = tuple(replace(FINDING, description=f"case {number}") for number in range(5))
    words = Shape(page(snapshot(findings=findings))).words
    assert words.count(FINDING.remedy) == words.count(FINDING.summary) == 1
    assert [word for word in words if word.startswith("case ")] == [f"case {n}" for n in range(5)]
    assert "and 2 more" in words


def test_a_stale_page_says_so():
    assert b"out of date" in page(stale=True)
    assert b"out of date" not in page()


def test_an_empty_page_says_that_all_is_well():
    words = " ".join(Shape(page(snapshot((), findings=(), sources=()))).words)
    assert "0 connections" in words
    assert "each connection has its purpose" in words
    assert "None is configured" in words


def test_a_page_of_a_whole_fleet_is_cut():
    shape = Shape(page(fleet(50, 20)))
    assert sum(tag == "tr" for tag, _ in shape.elements) < 300
    assert "and 1900 more: see the API." in shape.words


def test_every_class_has_words_a_colour_and_a_place():
    css = (ASSETS / "page.css").read_text()
    assert list(CLASS_WORDS) == [str(each) for each in ConnectionClass]
    for name in CLASS_WORDS:
        assert re.search(rf"\.{name}\b[^{{]*{{ --hue", css), name


def test_text_is_escaped_and_markup_is_not():
    inner = element("b", "<&>\"'")
    assert inner == "<b>&lt;&amp;&gt;&quot;&#39;</b>"
    assert element("p", inner, title="<", hidden=True, id=None) == (
        f'<p title="&lt;" hidden>{inner}</p>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert isinstance(text("a"), Markup)


def test_times_are_as_people_write_them():
    assert clock_time("2026-01-01T12:34:56.789Z") == "2026-01-01 12:34:56 UTC"
