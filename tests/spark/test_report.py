"""The report's rendering: pure, the same each time, and harmless whatever names say."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("matplotlib")

from spark_rollups.report import fleet_sections
from spark_rollups.report.digest import Cohort, Lengths, Quarantined, Weeks
from spark_rollups.report.page import render
from spark_rollups.report.savings_sections import updates
from spark_rollups.report.sparks import spark
from spark_rollups.report.words import amount, percent, printable
from tests.unit.digests import digest, empty_digest
from tests.unit.payloads import PAYLOADS

pytestmark = pytest.mark.spark

SECTIONS = (
    "headline", "brokers", "savings", "wasters", "held", "surges", "versions", "weeks", "findings",
    "seen",
)  # fmt: skip
PLOTS = ("brokers", "savings", "held", "surges", "versions", "weeks")


class Page(HTMLParser):
    """What is on the page, read as a browser reads it."""

    VOID = frozenset({"meta", "link", "br", "img", "input"})

    def __init__(self, html):
        super().__init__()
        self.tags, self.ids, self.urls, self.handlers, self.text = [], [], [], [], []
        self.depth = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.depth.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in {"href", "src", "xlink:href", "action", "data", "srcset"}:
                self.urls.append(value)
            if name.startswith("on"):
                self.handlers.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.depth.pop() == tag

    def handle_data(self, text):
        self.text.append(text)


@pytest.fixture(scope="module")
def report():
    return render(digest())


def test_every_section_is_there_with_its_plot_and_a_table_behind_it(report):
    page = Page(report.html)
    assert [each for each in page.ids if each in SECTIONS] == list(SECTIONS)
    assert set(report.pictures) == set(PLOTS)
    for name in PLOTS:
        part = report.html.partition(f'<section id="{name}"')[2].partition("</section>")[0]
        assert part.count('class="plot ') == 2, name
        assert "<table>" in part, name
    assert all(png().startswith(b"\x89PNG") for png in report.pictures.values())


def test_the_contents_lead_to_each_section(report):
    page = Page(report.html)
    links = [url for url in page.urls if not re.search("wide|narrow", url)]
    assert [url for url in links if url in {f"#{name}" for name in SECTIONS}] == [
        f"#{name}" for name in SECTIONS if name != "headline"
    ]


def test_a_sparkline_has_gaps_where_nothing_is_known():
    drawn = spark([1, 2, None, 4], "a & b", marks=[("limit", 8), ("forecast", None)])
    assert drawn.count("<path") == 3
    assert 'class="limit"' in drawn
    assert "a &amp; b" in drawn
    # A point by itself is seen, too, and half of the limit is in the middle.
    assert re.findall(r'd="(M132[^"]*)"', drawn) == ["M132.0 15.0L132.0 15.0"]
    assert spark([None, None], "x") == spark([], "x") == ""


def test_it_needs_nothing_but_itself(report):
    page = Page(report.html)
    assert page.depth == []
    assert [url for url in page.urls if not url.startswith("#")] == []
    assert not {"script", "iframe", "img", "link", "object", "embed"} & set(page.tags)
    without_namespaces = report.html.replace("http://www.w3.org/", "")
    assert "http" not in re.sub(r'http-equiv="', "", without_namespaces)
    assert "url(" not in re.sub(r"url\(#", "", report.html)


def test_no_id_is_there_twice(report):
    ids = Page(report.html).ids
    assert len(ids) == len(set(ids))


def test_all_colours_are_the_pages(report):
    """A mark that was left would be pink on both papers."""
    assert not re.search(r"#fe[0-9a-f]{2}ef", report.html)
    in_plots = " ".join(re.findall(r'style="([^"]*)"', report.html))
    assert set(re.findall(r"#[0-9a-f]{6}", in_plots)) == set()


def test_the_same_digest_is_the_same_report(report):
    again = render(digest())
    assert report.html == again.html
    for name in ("held", "brokers"):
        assert report.pictures[name]() == again.pictures[name]()


def test_the_headline_is_what_the_hours_say(report):
    made = digest()
    text = " ".join(Page(report.html).text)
    assert f"On average {amount(made.wasted)} of {amount(made.connections)} connections" in text
    assert percent(made.efficiency) in text
    useful = sum(hour.useful_ms for hour in made.hours)
    waste = sum(hour.waste_ms for hour in made.hours)
    assert made.efficiency == useful / (useful + waste)


def test_hours_that_nobody_saw_lower_the_coverage():
    whole = digest(missing=())
    assert whole.coverage == pytest.approx(1 - 900 / (48 * 4800))
    assert digest(missing=(3, 4)).coverage == pytest.approx((46 * 4800 - 900) / (48 * 4800))
    text = " ".join(Page(render(digest(hours=5, missing=(3, 4))).html).text)
    assert "2 of 5 hours have no data" in text


@pytest.fixture(scope="module")
def large():
    """A report of a fleet of which most cannot be shown, in two clusters, with nameless brokers."""
    made = digest(hours=3, missing=())
    surge = made.surges[0]._replace(broker_id=None)
    loads = (made.brokers[0]._replace(broker_id=n or None) for n in range(250))
    return render(
        replace(
            made,
            lengths=Lengths(77, 300, 61, 5000, 400, 120, 51),
            surges=tuple(surge._replace(cluster=name) for name in ("east", "west")),
            brokers=tuple(loads),
            weeks=Weeks(90, 60, 150),
        )
    ).html


def test_what_is_cut_says_how_much_there_is(large):
    text = " ".join(Page(large).text)
    for words in (
        "first 7 of 77 reasons", "300 services waste any", "first 6 of 61 versions", "first 2 of 5,000 surges",
        "first 6 of 400 such hours", "first 2 of 120 findings", "first 2 of 51 reasons",
        "90 got better, 60 worse, 150 stayed", "first 6 of 150 services that changed",
        "first 24 of 250 brokers", "first 200 of 250 brokers",
    ):  # fmt: skip
        assert words in text


def test_two_clusters_have_services_of_one_name_and_a_broker_may_have_no_number(large):
    assert "(east)" in large
    assert "(west)" in large
    assert not re.search("None(?! exceeds)", large)


def cohort(library, version, bootstrap, waste=9.0):
    return Cohort(library, version, "producer", 10, 30.0, waste, 0.5, 10 * bootstrap)


@pytest.mark.parametrize(
    ("cohorts", "words"),
    [
        pytest.param(
            [cohort("librdkafka", "2.8.0", 1.0), cohort("librdkafka", "2.16.0", 0.0)],
            " Update librdkafka 2.8.0 to 2.16.0.",
            id="an old one keeps its bootstrap connections",
        ),
        pytest.param(
            [cohort("java", "3.9.2", 0.0), cohort("java", "4.4.0", 0.0, waste=90.0)],
            "",
            id="the newest has too many instances",
        ),
        pytest.param([cohort("java", "2.1.0", 2.0)], "", id="no newer one is known"),
        pytest.param(
            [cohort("java", "2.10.0", 2.0), cohort("java", "2.9.0", 0.0)], "", id="10 is after 9"
        ),
        pytest.param(
            [
                cohort("java", None, 2.0),
                cohort("java", "<script>", 2.0),
                cohort("java", "4.0", 0.0),
            ],
            "",
            id="what is no version",
        ),
    ],
)
def test_an_update_is_advised_where_the_version_makes_the_difference(cohorts, words):
    assert updates(cohorts) == words


def test_an_hour_that_has_only_begun_is_called_so():
    whole = digest(hours=1, missing=())
    assert "No hour is whole yet" in fleet_sections.seen(replace(whole, whole=False)).html
    assert "No hour is whole yet" not in fleet_sections.seen(whole).html


def test_no_name_does_anything():
    names = tuple((payload, f"{payload}$x_{{1}}$") for payload in PAYLOADS)
    hostile = replace(
        digest(names=names, hours=3, missing=()),
        quarantine=tuple(Quarantined(payload, 1, 1) for payload in PAYLOADS),
    )
    html = render(hostile).html
    page = Page(html)
    assert page.depth == []
    assert page.handlers == []
    assert not {"script", "img", "iframe", "b1"} & set(page.tags)
    assert [url for url in page.urls if not url.startswith("#")] == []
    letters = set("".join(page.text)) - set("\n")
    assert all(letter.isprintable() for letter in letters)


def test_a_fleet_that_wrote_nothing_has_a_report_without_empty_cards():
    made = render(replace(empty_digest(), hours=digest(hours=1, missing=()).hours))
    """What it has nothing to say of has no card."""
    assert [each for each in Page(made.html).ids if each in SECTIONS] == [
        "headline",
        "held",
        "seen",
    ]
    assert made.pictures.keys() == {"held"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "\N{EN DASH}"), (0, "0"), (0.0, "0"), (0.01, "< 0.1"), (1.26, "1.3"), (9, "9"), (9.0, "9.0"), (1234567, "1,234,567"), (25e6, "25 M")],
)  # fmt: skip
def test_amounts(value, shown):
    assert amount(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(None, "\N{EN DASH}"), (0.0, "0%"), (0.001, "< 1%"), (0.5, "50%"), (0.9996, "99.9%"), (0.996, "99.6%"), (1.0, "100%"), (1.06, "106%")],
)  # fmt: skip
def test_shares_are_never_rounded_to_all_or_nothing(share, shown):
    assert percent(share) == shown


def test_names_are_made_printable_and_short():
    assert printable("a\u202eb\nc") == "a\\u202eb\\nc"
    assert len(printable("x" * 10_000)) == 120
    assert printable(None) == "\N{EN DASH}"
