"""The page in a real browser: what it shows, what it does, and what no name makes it do."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from array import array
from dataclasses import replace

import pytest

from exporter.agent import Agent as RealAgent
from exporter.config.settings import BrokerSettings, PortRange, Settings
from exporter.history import ClientSeries, History, Mark, Ring
from exporter.model import ConnectionClass
from tests.integration.web_support import Agent, ask, port_of, serving
from tests.unit.payloads import PAYLOADS
from tests.unit.snapshots import AT, FINDING, PROCESS, connection, page_sample, snapshot

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api")
if CHROMIUM is None and not os.environ.get("CI"):
    pytest.skip("needs Chromium", allow_module_level=True)
expect = playwright.expect

LINES = "#clients tbody [data-line]"
HOLDER = """
import socket, sys, time
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(3)]
for one in held:
    one.sendall(b"x")
print("held", flush=True)
sys.stdin.read()
"""


def with_history(snap):
    """Ten steps of 5 s: first 4 connections for data, then also 8 zombies."""
    ring, minutes = Ring(5, 720), Ring(60, 360)
    for step in range(10):
        counts = dict.fromkeys(ConnectionClass, 0)
        counts[ConnectionClass.DATA] = 4
        counts[ConnectionClass.ZOMBIE] = 0 if step < 5 else 8
        for each in (ring, minutes):
            each.put(AT - 50 + 5 * step, array("I", (*counts.values(), 4)), 0, 0)
    history = History(
        rings=(ring, minutes),
        marks=(Mark(AT - 25, "begin", FINDING.name, FINDING.summary),),
        clients={
            ("orders-producer", "producer", "orders"): ClientSeries(
                array("I", (3, 6)), array("I", (0, 3))
            )
        },
    )
    return replace(snap, history=history)


class Clocked(Agent):
    """A snapshot whose times go on: `at` is what its history is counted in."""

    def __call__(self):
        return replace(self.current, interval_seconds=1.0)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


class Visit:
    """A page that is open, with everything that it complained about."""

    def __init__(self, browser, server, fragment="", **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints = []
        self.requests = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = f"http://127.0.0.1:{port_of(server)}/"
        self.page.goto(self.url + fragment)
        if options.get("java_script_enabled", True):
            expect(self.page.locator(LINES).first).to_be_visible()

    def _dismiss(self, dialog):
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def title(self):
        return self.page.locator("#clients-title")

    def groups(self):
        return self.page.locator("#clients tr.group b").all_inner_texts()

    def classes(self):
        return self.page.locator("#clients tr.member .badge").all_inner_texts()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.fixture
def agent():
    return Agent(with_history(page_sample()))


@pytest.fixture
def server(agent):
    with serving(agent) as made:
        yield made


def test_the_page_shows_what_there_is_and_complains_of_nothing(browser, server):
    with Visit(browser, server) as visit:
        expect(visit.page.locator(".totals")).to_contain_text("12 connections (6 expected)")
        expect(visit.page.locator(".totals .bad")).to_have_text("4 wasted")
        expect(visit.title()).to_have_text("12 connections in 2 groups")
        assert visit.groups() == ["orders", "billing"]
        assert visit.page.locator(".finding .remedy").inner_text() == FINDING.remedy
        assert visit.page.locator(".finding .saves").inner_text() == ""
        assert visit.page.locator(".map .edge").count() == 4
        expect(visit.page.locator(".limits summary")).to_contain_text("shareProcessNamespace")
        assert visit.complaints == []
        assert {url.startswith(visit.url) for url in visit.requests} == {True}
        assert not {"script", "style"} & {
            tag.lower()
            for tag in visit.page.evaluate(
                "[...document.querySelectorAll('script:not([src]), style')].map(e => e.tagName)"
            )
        }


def test_a_real_agent_s_connections_are_drawn(browser):
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(port := listener.getsockname()[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder,
    ):
        assert holder.stdout.readline() == b"held\n"
        settings = Settings(brokers=BrokerSettings(ports=(PortRange(port, port),)))
        with (
            RealAgent(settings) as real,
            serving(real.snapshot) as server,
            Visit(browser, server) as visit,
        ):
            expect(visit.title()).to_have_text("3 connections in 1 group")
            assert visit.page.locator(".map .edge").count() == 1
            expect(visit.page.locator("tr.group small")).to_contain_text(f"pid {holder.pid}")
            visit.press("j", "Enter")
            expect(visit.page.locator("tr.member")).to_have_count(3)
            holder.stdin.close()
            expect(visit.title()).to_have_text("0 connections in 0 groups", timeout=10_000)
            _, _, body = ask(server, "GET", "/api/v1/history")
            assert sum(json.loads(body)["series"][0]["closed"]) == 3
            assert visit.complaints == []


def test_it_says_the_same_without_a_script(browser, server):
    with Visit(browser, server, java_script_enabled=False) as visit:
        assert visit.page.locator("#connections-table tbody tr").count() == 12
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
            const style = getComputedStyle(each);
            const before = level(each instanceof SVGElement ? style.fill : style.color);
            const [light, dark] = [Math.max(before, behind), Math.min(before, behind)];
            return (light + .05) / (dark + .05);
        });
    }"""
    with Visit(browser, server, color_scheme=scheme) as visit:
        visit.press("j", "Enter")
        ratios = visit.page.evaluate(measure, "section :not(svg, svg *), svg text")
    assert len(ratios) > 50
    assert min(ratios) >= 4.5


def test_the_timeline_is_what_the_history_says(browser):
    with serving(Clocked(with_history(page_sample()))) as server, Visit(browser, server) as visit:
        areas = visit.page.locator(".timeline path[class^=fill-]")
        expect(areas).not_to_have_count(0)
        assert {"fill-data", "fill-zombie"} <= set(
            areas.evaluate_all("all => all.map(e => e.getAttribute('class'))")
        )
        label = visit.page.locator(".timeline").get_attribute("aria-label")
        assert "between 4 and 12 connections, now 12; 1 mark" in label
        expect(visit.page.locator(".mark.begin title")).to_contain_text(FINDING.summary)
        box = visit.page.locator(".timeline").bounding_box()
        assert box is not None


def test_a_click_on_a_class_a_line_or_a_finding_filters_the_rest(browser, server):
    with Visit(browser, server) as visit:
        visit.page.locator(".legend button.zombie").click()
        expect(visit.title()).to_have_text("3 connections in 1 group")
        visit.page.locator(".chip").click()
        expect(visit.title()).to_have_text("12 connections in 2 groups")
        visit.page.get_by_role("button", name="orders to 10.2.0.2:9092").click()
        expect(visit.title()).to_have_text("5 connections in 1 group")
        visit.press("Escape")
        visit.page.locator(".finding .show").click()
        # The finding is about the connection with the cookie 2.
        expect(visit.title()).to_have_text("1 connection in 1 group")
        assert "finding=KafkaClientZombieConnections" in visit.page.url


def test_the_address_shows_another_reader_the_same(browser, server):
    with Visit(browser, server) as visit:
        visit.page.locator("[data-group=broker]").click()
        visit.page.locator("#filter").fill("ZOMBIE 10.2.0.3")
        expect(visit.title()).to_have_text("1 connection in 1 group")
        visit.press("Enter", "Enter")
        expect(visit.page.locator("tr.member")).to_have_count(1)
        address = visit.page.url
    with Visit(browser, server, address.partition("/#")[2].join(("#", ""))) as other:
        expect(other.title()).to_have_text("1 connection in 1 group")
        assert other.classes() == ["zombie"]
        assert other.page.locator("#filter").input_value() == "ZOMBIE 10.2.0.3"


def test_lines_are_sorted_by_a_click_on_their_head(browser, server):
    with Visit(browser, server) as visit:
        visit.page.get_by_role("button", name="Name").click()
        expect(visit.page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
        assert visit.groups() == ["billing", "orders"]


def test_the_keyboard_alone_reaches_everything(browser, server):
    with Visit(browser, server) as visit:
        visit.press("j", "Enter")
        expect(visit.page.locator("tr.member")).to_have_count(11)
        assert visit.classes()[0] == "half closed"
        visit.press("j", "Enter")
        story = visit.page.locator("#story")
        expect(story).to_be_visible()
        expect(story).to_contain_text("the broker closed 410 s ago")
        expect(story).to_contain_text("closes: when the application polls again")
        visit.press("Escape")
        expect(story).to_be_hidden()
        visit.press("/")
        visit.page.keyboard.type("billing-consumer")
        visit.press("Enter")
        expect(visit.title()).to_have_text("5 connections in 1 group")
        visit.press("Escape", "b")
        expect(visit.page.locator("[data-group=broker]")).to_have_attribute("aria-pressed", "true")
        visit.press("g")
        expect(visit.page.locator("[data-group=process]")).to_have_attribute("aria-pressed", "true")
        visit.press("p")
        expect(visit.page.locator(".state")).to_contain_text("paused")
        visit.press("p", "?")
        expect(visit.page.locator("#help")).to_be_visible()


def test_everything_that_can_be_pressed_has_a_name(browser, server):
    with Visit(browser, server) as visit:
        visit.press("j", "Enter")
        names = visit.page.evaluate(
            "[...document.querySelectorAll('button, a, input, [role=button]')]"
            ".map(e => (e.getAttribute('aria-label') ?? e.textContent).trim())"
        )
        assert len(names) > 30
        assert all(names)


def test_the_page_follows_in_place(browser, server, agent):
    with Visit(browser, server) as visit:
        visit.press("j", "Enter", "j")
        cookie = "document.activeElement.dataset.cookie"
        focused = visit.page.evaluate(cookie)
        agent.current = replace(
            agent.current, connections=(connection(500), *agent.current.connections[1:])
        )
        expect(visit.page.locator("[data-cookie='500']")).to_be_visible(timeout=10_000)
        expect(visit.title()).to_have_text("12 connections in 1 group")
        assert visit.page.evaluate(cookie) == focused
        assert visit.complaints == []


def test_a_paused_page_stands_still(browser, server, agent):
    with Visit(browser, server) as visit:
        visit.press("p")
        agent.current = snapshot((connection(500),))
        visit.page.wait_for_timeout(2500)
        expect(visit.title()).to_have_text("12 connections in 2 groups")
        visit.press("p")
        expect(visit.title()).to_have_text("1 connection in 1 group", timeout=10_000)


def test_an_agent_that_is_gone_is_told(browser, agent):
    with serving(agent) as server, Visit(browser, server) as visit:
        server.stop()
        expect(visit.page.locator(".state")).to_contain_text("does not answer", timeout=15_000)
        expect(visit.title()).to_have_text("12 connections in 2 groups")


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
        names = visit.groups()
        assert len(names) == len(set(PAYLOADS))
        assert sum(payload in names for payload in PAYLOADS if payload.isprintable()) > 80
        visit.press("j", "Enter", "j", "Enter")
        expect(visit.page.locator("#story")).to_be_visible()
        visit.page.wait_for_timeout(1500)
        assert (
            visit.page.evaluate(
                "document.querySelectorAll('img, iframe, object, base, form, style').length"
            )
            == 0
        )
        assert visit.page.evaluate("document.scripts.length") == 1
        assert visit.complaints == []
        assert {url.startswith(visit.url) for url in visit.requests} == {True}


def test_a_narrow_screen_scrolls_tables_not_the_page(browser, server):
    with Visit(browser, server, viewport={"width": 400, "height": 800}) as visit:
        visit.press("j", "Enter")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 400
