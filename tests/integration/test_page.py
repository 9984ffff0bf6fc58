"""The page in a real browser: what it shows, what it does, and what no name makes it do."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from tests.integration.web_support import Agent, port_of, serving
from tests.unit.payloads import PAYLOADS
from tests.unit.snapshots import FINDING, PROCESS, connection, page_sample, snapshot

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api")
if CHROMIUM is None and not os.environ.get("CI"):
    pytest.skip("needs Chromium", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


class Visit:
    """A page that is open, with everything that it complained about."""

    def __init__(self, browser, server, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints = []
        self.requests = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = f"http://127.0.0.1:{port_of(server)}/"
        self.page.goto(self.url)

    def _dismiss(self, dialog):
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def classes(self) -> list[str]:
        cells = self.page.locator("#connections-table tbody tr:visible td:first-child .badge")
        return cells.all_inner_texts()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.fixture
def agent():
    return Agent(page_sample())


@pytest.fixture
def server(agent):
    with serving(agent) as made:
        yield made


def test_the_page_shows_what_there_is_and_complains_of_nothing(browser, server):
    with Visit(browser, server) as visit:
        assert visit.page.locator("h1").inner_text().startswith("brokerwire")
        assert len(visit.classes()) == 12
        assert visit.classes()[0] == "half closed"
        assert visit.page.locator(".finding .remedy").inner_text().startswith("Recommendation: Set")
        assert visit.page.locator("svg.bar rect").count() == 5
        assert visit.complaints == []
        assert {url.removeprefix(visit.url) for url in visit.requests} == {""}


def test_it_is_the_same_without_a_script(browser, server):
    with Visit(browser, server, java_script_enabled=False) as visit:
        assert len(visit.classes()) == 12
        assert visit.page.locator("#filter").is_hidden()
        visit.page.locator("details summary").first.click()
        assert visit.page.locator("details[open] dt").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_what_is_behind_them(browser, server, scheme):
    """WCAG AA: 4.5 to 1 for text."""
    measure = """(selector) => {
        const level = (text) => {
            const parts = text.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
            const linear = parts.map((p) => (p <= .04045 ? p / 12.92 : ((p + .055) / 1.055) ** 2.4));
            return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
        };
        const behind = level(getComputedStyle(document.querySelector("section")).backgroundColor);
        return [...document.querySelectorAll(selector)].map((each) => {
            const before = level(getComputedStyle(each).color);
            const [light, dark] = [Math.max(before, behind), Math.min(before, behind)];
            return (light + .05) / (dark + .05);
        });
    }"""
    with Visit(browser, server, color_scheme=scheme) as visit:
        ratios = visit.page.evaluate(measure, "section *")
    assert min(ratios) >= 4.5


def test_rows_are_sorted_by_a_click_on_their_head(browser, server):
    with Visit(browser, server) as visit:
        idle = visit.page.get_by_role("button", name="Idle")
        idle.click()
        idle.click()
        head = visit.page.locator("th[aria-sort]")
        assert head.get_attribute("aria-sort") == "descending"
        assert visit.classes()[:4] == ["zombie", "zombie", "zombie", "half closed"]


def test_rows_are_filtered_by_all_the_words(browser, server):
    with Visit(browser, server) as visit:
        visit.page.locator("#filter").fill("ZOMBIE 10.2.0.3")
        assert visit.classes() == ["zombie"]
        visit.page.locator("#filter").fill("")
        assert len(visit.classes()) == 12


def test_the_page_is_renewed_in_place(browser, server, agent):
    with Visit(browser, server) as visit:
        visit.page.locator("details summary").first.click()
        visit.page.locator("#filter").fill("orders-producer")
        title = visit.page.locator("#connections-title")
        agent.current = snapshot((connection(500), *agent.current.connections))
        playwright.expect(title).to_have_text("13 connections", timeout=15_000)
        assert visit.page.locator("details[open]").count() == 1
        assert visit.page.locator("#filter").input_value() == "orders-producer"
        assert set(visit.classes()) == {"data", "zombie"}
        assert visit.page.evaluate("document.activeElement.id") == "filter"
        assert visit.complaints == []


def test_an_agent_that_is_gone_is_told(browser, agent):
    with serving(agent) as server, Visit(browser, server) as visit:
        live = visit.page.locator("#live")
        server.stop()
        playwright.expect(live).to_contain_text("does not answer", timeout=15_000)
        assert len(visit.classes()) == 12


def test_a_hundred_payloads_stay_text(browser):
    connections = tuple(
        connection(
            number,
            client_id=payload,
            owner=replace(PROCESS, name=payload),
            evidence=(payload,),
            close_expected=payload,
        )
        for number, payload in enumerate(PAYLOADS, 1)
    )
    finding = replace(FINDING, summary=PAYLOADS[0], description=PAYLOADS[1], remedy=PAYLOADS[2])
    agent = Agent(snapshot(connections, findings=(finding,)))
    with serving(agent) as server, Visit(browser, server) as visit:
        count = "document.querySelectorAll('*').length"
        before = visit.page.evaluate(count)
        assert len(visit.classes()) == 100
        visit.page.locator("details summary").first.click()
        with visit.page.expect_response(visit.url, timeout=15_000):
            pass  # renewed once
        visit.page.wait_for_timeout(200)
        assert visit.page.evaluate(count) == before
        assert visit.page.evaluate("document.scripts.length") == 1
        assert (
            visit.page.evaluate(
                "document.querySelectorAll('img, iframe, object, base, form').length"
            )
            == 0
        )
        assert visit.complaints == []
        assert set(visit.requests) == {visit.url}


def test_a_narrow_screen_scrolls_tables_not_the_page(browser, server):
    with Visit(browser, server, viewport={"width": 400, "height": 800}) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 400
