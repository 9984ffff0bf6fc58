"""A page that is open in a real Chromium, and the fixtures of those who look at it."""

from __future__ import annotations

import os
import shutil
from array import array
from dataclasses import replace

import pytest

from exporter.history import ClientSeries, History, Mark, Ring
from exporter.model import ConnectionClass
from tests.integration.web_support import Agent, port_of, serving
from tests.unit.snapshots import AT, FINDING, page_sample

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api")
if CHROMIUM is None and not os.environ.get("CI"):
    pytest.skip("needs Chromium", allow_module_level=True)
expect = playwright.expect

LINES = "#clients tbody [data-line]"


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


# Each module has a browser of its own: Playwright's event loop would stay in the way of others.
@pytest.fixture(name="browser", scope="module")
def browser_fixture():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(name="agent")
def agent_fixture():
    return Agent(with_history(page_sample()))


@pytest.fixture(name="server")
def server_fixture(agent):
    with serving(agent) as made:
        yield made
