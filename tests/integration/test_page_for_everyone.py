"""The page for those who see no colours, use no mouse, or have it read to them."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from exporter.model import ConnectionClass
from tests.integration.colour_vision import _ciede2000, least_difference
from tests.integration.page_support import (  # noqa: F401
    Clocked,
    Visit,
    agent_fixture,
    browser_fixture,
    expect,
    server_fixture,
    with_history,
)
from tests.integration.web_support import serving
from tests.unit.snapshots import page_sample

pytestmark = pytest.mark.browser

# Rules of WCAG 2.2 A and AA and axe-core's best practices; all that it weighs as serious or worse.
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
RUN_AXE = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"]});
    return found.violations.flatMap(({id, impact, nodes}) =>
        nodes.map(({target, failureSummary}) => [impact, id, target.join(" "), failureSummary]));
}"""


def faults(visit):
    visit.page.evaluate(AXE)
    return visit.page.evaluate(RUN_AXE)


def open_group(visit):
    visit.press("j", "Enter")
    expect(visit.page.locator("tr.member")).to_have_count(11)


def open_story(visit):
    open_group(visit)
    visit.press("j", "Enter")
    expect(visit.page.locator("#story")).to_be_visible()


def open_help(visit):
    visit.press("?")
    expect(visit.page.locator("#help")).to_be_visible()


def choose(visit):
    visit.page.locator(".legend button.zombie").click()
    visit.page.locator(".finding .show").click()
    expect(visit.page.locator(".chip")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("look", [open_group, open_story, open_help, choose])
def test_axe_core_finds_no_fault(browser, server, scheme, look):
    with Visit(browser, server, color_scheme=scheme) as visit:
        look(visit)
        assert faults(visit) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_in_a_drawing_stand_out(browser, server, scheme):
    """WCAG AA: 4.5 to 1; axe-core leaves text before a drawing to people."""
    measure = """(selector) => {
        const level = (text) => {
            const parts = text.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
            const linear = parts.map((p) => (p <= .04045 ? p / 12.92 : ((p + .055) / 1.055) ** 2.4));
            return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
        };
        const behind = level(getComputedStyle(document.querySelector("section")).backgroundColor);
        return [...document.querySelectorAll(selector)].map((each) => {
            const before = level(getComputedStyle(each).fill);
            const [light, dark] = [Math.max(before, behind), Math.min(before, behind)];
            return (light + .05) / (dark + .05);
        });
    }"""
    with Visit(browser, server, color_scheme=scheme) as visit:
        visit.press("j", "Enter")
        ratios = visit.page.evaluate(measure, "svg text")
    assert len(ratios) > 10
    assert min(ratios) >= 4.5


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        # Of the table that came with the formula.
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_difference_of_colours_is_measured_rightly(one, other, difference):
    assert _ciede2000(one, other) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_classes_are_told_apart_without_colour_vision(browser, server, scheme):
    """Two classes differ by a pattern, or by ten steps that can just be seen."""
    look = """names => names.map(name => {
        const area = document.createElementNS("http://www.w3.org/2000/svg", "path");
        document.querySelector(".timeline").append(area);
        area.setAttribute("class", `fill ${name}`);
        const colour = getComputedStyle(area).fill.match(/[0-9.]+/g).map(Number);
        area.setAttribute("class", `over ${name}`);
        return [getComputedStyle(area).fill, colour];
    })"""
    with Visit(browser, server, color_scheme=scheme) as visit:
        looks = visit.page.evaluate(look, [str(each) for each in ConnectionClass])
    by_pattern = {}
    for name, (pattern, colour) in zip(ConnectionClass, looks, strict=True):
        alike = by_pattern.setdefault(pattern, {})
        assert colour not in alike.values(), name
        alike[str(name)] = colour
    assert len(by_pattern) == 3
    # One hue is one colour: what differs by its pattern only is compared with the others, too.
    hues = {str(colour): colour for _, colour in looks}
    assert min(least_difference(hues)[0], 99) >= 12, least_difference(hues)


def test_what_a_colour_says_stands_in_words_too(browser, server):
    with Visit(browser, server) as visit:
        worst = visit.page.locator(".map .worst").all_text_contents()
        assert worst == ["half closed", "unknown", "zombie", "half closed", "zombie", "unknown"]


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


def test_the_timeline_is_read_and_zoomed_with_keys(browser):
    with serving(Clocked(with_history(page_sample()))) as server, Visit(browser, server) as visit:
        timeline = visit.page.locator(".timeline")
        timeline.focus()
        visit.press("ArrowLeft")
        expect(timeline).to_have_attribute("aria-valuetext", re.compile(r"^\d\d:\d\d:\d\d: "))
        visit.press("Enter", "ArrowLeft", "ArrowLeft", "Enter")
        expect(visit.page.get_by_role("button", name="whole range")).to_be_visible()
        assert "from=" in visit.page.url
        visit.press("Escape")
        expect(visit.page.get_by_role("button", name="whole range")).to_be_hidden()


def test_tab_reaches_every_control_and_shows_where_it_is(browser, server):
    ring = """() => {
        const at = document.activeElement;
        if (at === document.body) return null;  // between the last and the first
        const style = getComputedStyle(at);
        const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
        at.dataset.reached = "";
        return shown ? null : at.outerHTML.slice(0, 200);
    }"""
    controls = "a, button, input, summary, [tabindex='0']"
    with Visit(browser, server) as visit:
        open_group(visit)
        visit.page.evaluate("document.activeElement.blur()")
        count = visit.page.locator(f":is({controls}):visible").count()
        assert count > 40
        dim = []
        for _ in range(count + 1):
            visit.press("Tab")
            dim.append(visit.page.evaluate(ring))
        assert set(dim) == {None}
        missed = visit.page.locator(f":is({controls}):not([data-reached]):visible")
        assert missed.evaluate_all("all => all.map(e => e.outerHTML)") == []
