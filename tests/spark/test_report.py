"""The report's rendering: pure, the same each time, and harmless whatever names say."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")

from spark_rollups.report import charts, pictures
from spark_rollups.report.digest import Cohort, Lengths, Quarantined, Weeks
from spark_rollups.report.page import render, updates
from spark_rollups.report.words import FIXES, amount, percent, printable
from tests.unit.digests import digest, empty_digest
from tests.unit.payloads import PAYLOADS

pytestmark = pytest.mark.spark

SECTIONS = ("headline", "brokers", "savings", "wasters", "held", "seen")
PARTS = ("surges", "openings", "versions", "findings", "weeks")


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


def part_of(html, name):
    return html.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_every_section_is_there_once_and_the_contents_lead_to_it(report):
    page = Page(report)
    assert [each for each in page.ids if each in SECTIONS] == list(SECTIONS)
    assert set(PARTS) < set(page.ids)
    assert page.urls == [f"#{name}" for name in SECTIONS if name != "headline"]
    captions = re.findall("<caption>(.*?)</caption>", report)
    assert len(captions) == len(set(captions))


def test_each_broker_has_its_course_against_its_limit_and_forecast(report):
    rows = (
        part_of(report, "brokers").partition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")
    )
    limited, unlimited = rows[0], rows[3]
    assert limited.count('class="spark wide"') == unlimited.count('class="spark wide"') == 1
    assert 'class="limit"' in limited
    assert 'class="limit"' not in unlimited
    assert 'class="forecast"' in unlimited


def test_each_service_that_wastes_has_its_own_trend(report):
    assert part_of(report, "wasters").count('class="spark') == len(digest().wasters)


def test_a_line_has_gaps_where_nothing_is_known():
    # A point by itself is seen, too, and half of the top is in the middle.
    assert charts.line([8, 2, None, 4], 8) == "M0.0 0.0L33.3 75.0M100.0 50.0L100.0 50.0"
    assert charts.line([None, None], 1) == charts.line([], 1) == ""


def test_the_stack_is_as_high_as_what_was_held_and_has_gaps():
    made = digest()
    layers = charts.stacked(charts.bands(made))
    assert [band.name for band, *_ in layers][::6] == ["useful", "other waste"]
    top = layers[-1][2]
    by_hour = {hour.at: hour.connection_ms / 3_600_000 for hour in made.hours}
    assert [value for value in top if value is not None] == pytest.approx(list(by_hour.values()))
    assert [at for at, value in enumerate(top) if value is None] == [30, 31, 32]
    assert (
        charts.area((0, 0, 0), (1, None, 2), 4)
        == "M0.00 100V75.0H33.33V100.0H0.00ZM66.67 100V50.0H100.00V100.0H66.67Z"
    )


@pytest.mark.parametrize(
    ("top", "values"),
    [(0.7, [0, 0.2, 0.4, 0.6000000000000001]), (4, [0, 1, 2, 3, 4]), (700, [0, 200, 400, 600])],
)
def test_the_axis_has_round_figures(top, values):
    assert [tick.value for tick in charts.scale(top)] == values


@pytest.mark.parametrize("hours", [1, 5, 48, 24 * 28, 24 * 400])
def test_the_axis_of_time_has_a_few_moments(hours):
    ticks = charts.time_scale(digest(hours=hours, missing=range(hours)))
    assert 1 <= len(ticks) <= 8
    assert all(0 <= at < 100 for at, _ in ticks)


def test_runbooks_are_links_where_their_address_is_known(report):
    linked = render(digest(), "https://wiki.example/{alert}")
    urls = [url for url in Page(linked).urls if not url.startswith("#")]
    assert "https://wiki.example/KafkaClientIdleClosingOff" in urls
    assert "https://wiki.example/KafkaClientConnectionChurn" in urls
    assert "KafkaClientIdleClosingOff" in report
    books = {path.stem for path in (Path(__file__).parents[2] / "docs" / "runbooks").iterdir()}
    assert {fix.runbook for fix in FIXES.values()} <= books


def test_no_finding_leads_elsewhere():
    found = digest().findings[0]
    findings = tuple(found._replace(finding=payload) for payload in PAYLOADS)
    html = render(replace(digest(hours=1), findings=findings), "https://wiki.example/{alert}")
    urls = {url for url in Page(html).urls if not url.startswith("#")}
    assert urls <= {f"https://wiki.example/{fix.runbook}" for fix in FIXES.values()}
    assert "https://wiki.example/../x" not in render(
        replace(digest(hours=1), findings=(found._replace(finding="../x"),)),
        "https://wiki.example/{alert}",
    )


def test_the_main_charts_are_pictures():
    first, again = dict(pictures.draw(digest())), dict(pictures.draw(digest()))
    assert list(first) == ["brokers", "savings", "wasters", "held"]
    assert all(picture.startswith(b"\x89PNG") for picture in first.values())
    assert first == again
    assert dict(pictures.draw(empty_digest())) == {}


def test_it_needs_nothing_but_itself(report):
    page = Page(report)
    assert page.depth == []
    assert [url for url in page.urls if not url.startswith("#")] == []
    assert not {"script", "iframe", "img", "link", "object", "embed"} & set(page.tags)
    assert "http" not in report.replace('http-equiv="', "")
    assert "url(" not in report


def test_no_id_is_there_twice(report):
    ids = Page(report).ids
    assert len(ids) == len(set(ids))


def test_all_colours_are_the_pages(report):
    styles = " ".join(re.findall(r'style="([^"]*)"', report))
    named = set(re.findall(r"var\(--(\w+)\)", styles))
    assert {"good", "red", "violet"} <= named
    assert named <= set(re.findall(r"--(\w+):", report))
    assert "#" not in styles


def test_the_same_digest_is_the_same_page(report):
    assert report == render(digest())


def test_the_headline_is_what_the_hours_say(report):
    made = digest()
    text = " ".join(Page(report).text)
    assert f"On average {amount(made.wasted)} of {amount(made.connections)} connections" in text
    assert percent(made.efficiency) in text
    useful = sum(hour.useful_ms for hour in made.hours)
    waste = sum(hour.waste_ms for hour in made.hours)
    assert made.efficiency == useful / (useful + waste)


def test_hours_that_nobody_saw_lower_the_coverage():
    whole = digest(missing=())
    assert whole.coverage == pytest.approx(1 - 900 / (48 * 4800))
    assert digest(missing=(3, 4)).coverage == pytest.approx((46 * 4800 - 900) / (48 * 4800))
    text = " ".join(Page(render(digest(hours=5, missing=(3, 4)))).text)
    assert "2 of 5 hours have no data" in text


@pytest.fixture(scope="module")
def large():
    """A report of a fleet of which most cannot be shown, in two clusters, with nameless brokers."""
    made = digest(hours=3, missing=())
    surge = made.surges[0]._replace(broker_id=None)
    first = made.brokers[0]
    loads = (
        first._replace(broker_id=n or None, by_hour=first.by_hour[: n < 24]) for n in range(250)
    )
    return render(
        replace(
            made,
            lengths=Lengths(77, 300, 61, 5000, 400, 120, 51),
            surges=tuple(surge._replace(cluster=name) for name in ("east", "west")),
            brokers=tuple(loads),
            weeks=Weeks(90, 60, 150),
        )
    )


def test_what_is_cut_says_how_much_there_is(large):
    text = " ".join(Page(large).text)
    for words in (
        "first 7 of 77 reasons", "300 services waste any", "first 6 of 61 versions", "first 2 of 5,000 surges",
        "first 6 of 400 such hours", "first 2 of 120 findings", "first 2 of 51 reasons",
        "90 got better, 60 worse, 150 stayed", "first 6 of 150 services that changed",
        "first 24 of 250 brokers by hour", "first 200 of 250 brokers",
    ):  # fmt: skip
        assert words in text


def test_two_clusters_have_services_of_one_name_and_a_broker_may_have_no_number(large):
    assert "<small>east</small>" in large
    assert "<small>west</small>" in large
    assert not re.search("None(?! exceeds)", large)


def cohort(library, version, bootstrap, waste=9.0):
    return Cohort(library, version, "producer", 10, 30.0, waste, 0.5, 10 * bootstrap)


@pytest.mark.parametrize(
    ("cohorts", "words"),
    [
        pytest.param(
            [cohort("librdkafka", "2.8.0", 1.0), cohort("librdkafka", "2.16.0", 0.0)],
            ["Update librdkafka 2.8.0 to 2.16.0."],
            id="an old one keeps its bootstrap connections",
        ),
        pytest.param(
            [cohort("java", "3.9.2", 0.0), cohort("java", "4.4.0", 0.0, waste=90.0)],
            [],
            id="the newest has too many instances",
        ),
        pytest.param([cohort("java", "2.1.0", 2.0)], [], id="no newer one is known"),
        pytest.param(
            [cohort("java", "2.10.0", 2.0), cohort("java", "2.9.0", 0.0)], [], id="10 is after 9"
        ),
        pytest.param(
            [
                cohort("java", None, 2.0),
                cohort("java", "<script>", 2.0),
                cohort("java", "4.0", 0.0),
            ],
            [],
            id="what is no version",
        ),
    ],
)
def test_an_update_is_advised_where_the_version_makes_the_difference(cohorts, words):
    assert updates(cohorts) == words


def test_an_hour_that_has_only_begun_is_called_so():
    whole = digest(hours=1, missing=())
    assert "No hour is whole yet" in render(replace(whole, whole=False))
    assert "No hour is whole yet" not in render(whole)


def test_no_name_does_anything():
    names = tuple((payload, f"{payload}$x_{{1}}$") for payload in PAYLOADS)
    hostile = replace(
        digest(names=names, hours=3, missing=()),
        quarantine=tuple(Quarantined(payload, 1, 1) for payload in PAYLOADS),
    )
    html = render(hostile)
    page = Page(html)
    assert page.depth == []
    assert page.handlers == []
    assert not {"script", "img", "iframe", "b1"} & set(page.tags)
    assert [url for url in page.urls if not url.startswith("#")] == []
    letters = set("".join(page.text)) - set("\n")
    assert all(letter.isprintable() for letter in letters)


def test_a_fleet_that_wrote_nothing_has_a_report_without_empty_cards():
    made = render(replace(empty_digest(), hours=digest(hours=1, missing=()).hours))
    assert [each for each in Page(made).ids if each in SECTIONS] == ["headline", "held", "seen"]
    assert not {*PARTS} & set(Page(made).ids)
    assert [each for each in Page(render(empty_digest())).ids if each in SECTIONS] == [
        "headline",
        "seen",
    ]


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
