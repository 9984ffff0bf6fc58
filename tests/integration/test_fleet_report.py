"""The fleet's report in a real browser, opened from the disk as an operator opens it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.unit.digests import digest
from tests.unit.payloads import PAYLOADS

pytestmark = [pytest.mark.browser, pytest.mark.spark]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if not os.environ.get("CI"):
    pytest.importorskip("jinja2")
    if CHROMIUM is None:
        pytest.skip("needs Chromium", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api")

from spark_rollups.report.page import render  # noqa: E402 -- after the skip

WIDE, PHONE = {"width": 1100, "height": 900}, {"width": 390, "height": 800}
# Letters in plots and on the page against what is behind them (WCAG: 4.5 to 1), and what is drawn
# with against the same (3 to 1).
CONTRASTS = """() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const level = (colour) => {
        canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((p) => p / 255);
        const linear = parts.map((p) => (p <= .04045 ? p / 12.92 : ((p + .055) / 1.055) ** 2.4));
        return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
    };
    const behind = level(getComputedStyle(document.querySelector('section')).backgroundColor);
    const against = (colour) => {
        const of = level(colour);
        return (Math.max(of, behind) + .05) / (Math.min(of, behind) + .05);
    };
    const texts = [...document.querySelectorAll('h2, h3, p, td, th, small, summary, .card span, b')];
    const letters = [...document.querySelectorAll('.plot span, .legend span')];
    const root = getComputedStyle(document.documentElement);
    const drawn = ['accent', 'good', 'red', 'orange', 'amber', 'teal', 'violet', 'grey'];
    return {
        texts: Math.min(...texts.map((each) => against(getComputedStyle(each).color))),
        letters: Math.min(...letters.map((each) => against(getComputedStyle(each).color))),
        drawn: Math.min(...drawn.map((name) => against(root.getPropertyValue('--' + name)))),
    };
}"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(digest()), "utf-8")
    return path


class Visit:
    """A page that is open, with everything that it complained about or asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def _dismiss(self, dialog):
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_is_whole_and_asks_for_nothing(browser, report, size):
    with Visit(browser, report, viewport=size) as visit:
        assert visit.page.locator("h1").inner_text() == "Kafka connections of the fleet"
        assert visit.page.locator("section").count() == 6
        assert visit.page.locator("svg.spark:visible").count() == 12
        assert visit.page.locator(".plot svg:visible").count() == 1
        assert visit.complaints == []
        assert visit.requests == [report.as_uri()]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_is_cut_off_at_the_side(browser, report, size):
    with Visit(browser, report, viewport=size) as visit:
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert visit.page.evaluate(over) == 0
        smallest = """Math.min(...[...document.querySelectorAll('.plot span')]
            .map((each) => each.getBoundingClientRect().height))"""
        assert visit.page.evaluate(smallest) >= 10
        lefts = """[...document.querySelectorAll('.plot .x')].map((each) => {
            const box = each.getBoundingClientRect();
            return [box.left, box.right];
        })"""
        moments = visit.page.evaluate(lefts)
        assert len(moments) > 2
        assert all(one[1] < other[0] for one, other in pairwise(moments))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_and_drawings_stand_out(browser, report, scheme):
    with Visit(browser, report, viewport=WIDE, color_scheme=scheme) as visit:
        contrasts = visit.page.evaluate(CONTRASTS)
        assert contrasts["texts"] >= 4.5
        assert contrasts["letters"] >= 4.5
        assert contrasts["drawn"] >= 3


def test_each_chart_has_words_and_a_table(browser, report):
    with Visit(browser, report, viewport=WIDE) as visit:
        for chart in visit.page.locator("svg").all():
            assert chart.get_attribute("aria-label")
        for table in visit.page.locator("table:visible").all():
            assert table.locator("caption").inner_text()
        visit.page.locator("summary").click()
        assert visit.page.locator("details table").is_visible()


def test_hostile_names_are_only_shown(browser, tmp_path):
    names = tuple((payload, payload) for payload in PAYLOADS[::2])
    path = tmp_path / "report.html"
    path.write_text(render(replace(digest(names=names, hours=2, missing=()))), "utf-8")
    with Visit(browser, path, viewport=PHONE) as visit:
        assert visit.complaints == []
        assert visit.requests == [path.as_uri()]
        assert visit.page.locator("section").count() == 6
        assert visit.page.locator("script, iframe, img").count() == 0
