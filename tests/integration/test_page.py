"""The page in a real browser: what it shows, what it does, and what no name makes it do."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from exporter.agent import Agent as RealAgent
from exporter.config.settings import BrokerSettings, PortRange, Settings
from tests.integration.page_support import (  # noqa: F401
    Clocked,
    Visit,
    agent_fixture,
    browser_fixture,
    expect,
    server_fixture,
    with_history,
)
from tests.integration.web_support import Agent, ask, serving
from tests.unit.payloads import PAYLOADS
from tests.unit.snapshots import FINDING, PROCESS, connection, page_sample, snapshot

pytestmark = pytest.mark.browser

HOLDER = """
import socket, sys, time
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(3)]
for one in held:
    one.sendall(b"x")
print("held", flush=True)
sys.stdin.read()
"""


def test_the_page_shows_what_there_is_and_complains_of_nothing(browser, server):
    with Visit(browser, server) as visit:
        expect(visit.page.locator(".totals")).to_contain_text("12 connections (6 expected)")
        expect(visit.page.locator(".totals .bad")).to_have_text("4 wasted")
        expect(visit.title()).to_have_text("12 connections in 2 groups")
        assert visit.groups() == ["orders", "billing"]
        assert visit.page.locator(".finding .remedy").inner_text() == FINDING.remedy
        assert visit.page.locator(".finding .saves").inner_text() == ""
        assert visit.page.locator(".map .edge").count() == 4
        expect(visit.page.locator(".limits summary")).to_contain_text("process-access")
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


def test_the_timeline_is_what_the_history_says(browser):
    with serving(Clocked(with_history(page_sample()))) as server, Visit(browser, server) as visit:
        areas = visit.page.locator(".timeline path.fill")
        expect(areas).not_to_have_count(0)
        assert {"fill data", "fill zombie"} <= set(
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


def test_the_page_follows_in_place(browser, server, agent):
    with Visit(browser, server) as visit:
        visit.press("j", "Enter")
        expect(visit.page.locator("tr.member").first).to_be_visible()
        visit.press("j")
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
        visit.press("j", "Enter")
        expect(visit.page.locator("tr.member").first).to_be_visible()
        visit.press("j", "Enter")
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


@pytest.mark.parametrize(
    ("runbooks", "link"),
    [
        ("https://docs.test/{alert}.md", f"https://docs.test/{FINDING.name}.md"),
        ("docs/runbooks/{alert}.md", None),
        ("javascript:alert('{alert}')", None),
    ],
)
def test_a_recommendation_and_a_story_lead_to_the_runbook(browser, agent, runbooks, link):
    with (
        serving(agent, runbooks=runbooks) as server,
        Visit(browser, server, "#story=2") as visit,
    ):
        for place in ("#story", ".finding"):
            expect(visit.page.locator(place)).to_contain_text(FINDING.name)
            links = visit.page.locator(f"{place} a").evaluate_all("all => all.map(e => e.href)")
            assert links == ([] if link is None else [link])


def test_what_cannot_be_seen_is_one_line_with_its_command(browser, server):
    with Visit(browser, server) as visit:
        summary = visit.page.locator(".limits summary")
        expect(summary.locator("code")).to_have_text("sudo -u 'USER' brokerwire run")
        summary.click()
        commands = visit.page.locator(".limits li code").all_inner_texts()
        assert commands == [f"brokerwire explain unknown --agent {visit.url.rstrip('/')}"]
