"""The parts of the page for those without scripts, each a section."""

from __future__ import annotations

__all__ = [
    "agent_section",
    "expected_section",
    "findings_section",
    "sources_section",
    "summary_section",
]

import math
from typing import TYPE_CHECKING

from exporter.model import WASTED_CLASSES
from exporter.text import MISSING, duration, percent
from exporter.web.markup import Markup, element
from exporter.web.page_parts import (
    MOST_ROWS,
    Document,
    badge,
    broker,
    number,
    rest,
    section,
    table,
    whose,
)
from exporter.web.words import CLASS_WORDS, TIMES, clock_time

if TYPE_CHECKING:
    from collections.abc import Sequence

_BAR_WIDTH = 1000
_CASES_AT_ONCE = 3
_PROCESSES_SHOWN = 5


def summary_section(document: Document) -> Markup:
    """Show the whole at a glance: how many, how many expected, of which classes."""
    summary = document["summary"]
    total, by_class = summary["connections"], summary["by_class"]
    waste = sum(by_class[name] for name in WASTED_CLASSES)
    up = sum(each["up"] for each in document["sources"])
    findings = len(document["findings"])
    cards = (
        _card(str(total), "connections", f"{summary['expected']} expected", bad=False),
        _card(str(waste), "wasted", "zombie, excess, half closed", bad=waste),
        _card(str(summary["unused"]), "unused", "since they were opened", bad=summary["unused"]),
        _card(percent(summary["efficiency"]), "efficiency", "useful connection time", bad=False),
        _card(
            str(findings),
            "finding" if findings == 1 else "findings",
            "recommendations below",
            bad=findings,
        ),
        _card(
            f"{up}/{len(document['sources'])}" if document["sources"] else MISSING,
            "sources up",
            "clients' own metrics",
            bad=up < len(document["sources"]),
        ),
    )
    present = [(name, count) for name, count in by_class.items() if count]
    legend = [
        element("li", badge(name), f" {count} ", element("span", CLASS_WORDS[name]))
        for name, count in present
    ]
    return section(
        "summary",
        "At a glance",
        element("div", *cards, class_="cards"),
        _bar(present, total),
        element("ul", *legend, class_="legend"),
    )


def _card(figure: str, name: str, words: str, *, bad: object) -> Markup:
    return element(
        "div",
        element("b", figure, class_="bad" if bad else None),
        element("span", name),
        element("small", words),
        class_="card",
    )


def _bar(present: Sequence[tuple[str, int]], total: int) -> Markup:
    """Draw the classes to scale; SVG, because the policy allows no style attributes."""
    left, pieces = 0.0, []
    for name, count in present:
        width = _BAR_WIDTH * count / total
        pieces.append(
            element(
                "rect",
                x=f"{left:.2f}",
                y="0",
                width=f"{max(width - 2, 1):.2f}",
                height="10",
                class_=f"fill {name}",
            )
        )
        left += width
    words = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in present)
    return element(
        "svg",
        *pieces,
        viewBox=f"0 0 {_BAR_WIDTH} 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=words or "no connections",
        class_="bar",
    )


def findings_section(findings: Sequence[Document]) -> Markup:
    """List the findings, each with its recommendation."""
    if not findings:
        calm = element("p", "Nothing: each connection has its purpose.", class_="quiet")
        return section("findings", "Recommendations", calm)
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for each in findings:
        kind = (each["name"], each["severity"], each["summary"], each["remedy"])
        groups.setdefault(kind, []).append(each["description"])
    items = [_finding(*kind, cases) for kind, cases in list(groups.items())[:MOST_ROWS]]
    return section("findings", "Recommendations", element("ul", *items, class_="findings"))


def _finding(name: str, severity: str, summary: str, remedy: str, cases: Sequence[str]) -> Markup:
    """Say once what is wrong and what helps, and for each case whose it is."""
    lines = [element("li", case) for case in cases[:MOST_ROWS]]
    listed = element("ul", *lines[:_CASES_AT_ONCE])
    if len(lines) > _CASES_AT_ONCE:
        more = element("summary", f"and {len(cases) - _CASES_AT_ONCE} more")
        rest_of_them = element("ul", *lines[_CASES_AT_ONCE:])
        listed = Markup(
            listed + element("details", more, rest_of_them, data_key=f"{name} {summary}")
        )
    return element(
        "li",
        element("h3", badge(severity), summary),
        listed if len(cases) > 1 else element("p", cases[0]),
        element("p", element("b", "Recommendation: "), remedy, class_="remedy"),
        element("small", element("code", name)),
        class_=f"finding {severity}",
    )


def expected_section(expected: Sequence[Document]) -> Markup:
    """Set what each client holds to each broker against what it needs."""
    ordered = sorted(expected, key=_surplus, reverse=True)
    rows = [_expected_row(each) for each in ordered[:MOST_ROWS]]
    head = ("Client", "Broker", "Held", "Expected", "Classes", "Why so many are expected")
    return section("expected", "Held and expected", table(head, rows), rest(len(expected)))


def _surplus(each: Document) -> int:
    """Count those that nobody needs: beyond what is expected, or of a class that is waste."""
    over: int = max(each["connections"] - each["expected"], 0) if each["expected"] else 0
    waste: int = sum(each["by_class"][name] for name in WASTED_CLASSES)
    return max(over, waste)


def _expected_row(each: Document) -> Markup:
    held, expected = each["connections"], each["expected"]
    over = _surplus(each)
    classes = [
        element("span", badge(name), f"{TIMES}{count}" if count > 1 else "", class_="some")
        for name, count in each["by_class"].items()
        if count
    ]
    reasons = [
        element("li", rule["reason"], " ", element("code", rule["rule"])) for rule in each["rules"]
    ]
    return element(
        "tr",
        whose(each),
        element("td", broker(each)),
        element("td", element("b", str(held), class_="bad" if over else None), class_="n"),
        number(expected),
        element("td", *classes) if classes else element("td", MISSING),
        element("td", element("ul", *reasons, class_="plain") if reasons else MISSING),
    )


def sources_section(sources: Sequence[Document]) -> Markup:
    """Tell which of the clients' own metrics can be read."""
    rows = [
        element(
            "tr",
            element("td", each["name"], _found_by(each)),
            element("td", each["kind"]),
            element("td", badge("up" if each["up"] else "down"), " ", each["error"] or ""),
            number(each["clients"]),
            number(each["duration_seconds"], duration(each["duration_seconds"])),
            number(each["reads"]),
            number(each["errors"]),
            element("td", clock_time(each["last_success"]) or "never"),
        )
        for each in sources
    ]
    head = ("Source", "Kind", "State", "Clients", "Took", "Reads", "Errors", "Last good read")
    if not rows:
        words = "None is configured or declared: classes rest on what the kernel shows."
        return section("sources", "Sources", element("p", words, class_="quiet"))
    return section("sources", "Sources", table(head, rows))


def _found_by(source: Document) -> str:
    if source["found_by"] is None:
        return ""
    return element("div", f"found by the {source['found_by']}", class_="quiet")


def agent_section(agent: Document, processes: Sequence[Document]) -> Markup:
    """Tell what the agent is able to see here, and how it is doing."""
    rungs = ", ".join(f"{count} by {rung}" for rung, count in agent["owner_rungs"].items() if count)
    facts = (
        ("Reads sockets by", agent["read_method"]),
        ("Hears of closed connections", "yes" if agent["events_available"] else "no"),
        ("Owners known", rungs or "none"),
        ("Open files of clients", _open_files(processes)),
        ("Polls", f"{agent['polls']}, {agent['failed_polls']} failed"),
        ("Last poll took", duration(agent["poll_duration_seconds"])),
        ("Events lost", str(agent["events_lost"])),
        ("Closed before their owner was known", str(agent["unattributed_closed"])),
        ("Last error", agent["error"]),
    )
    pairs = [
        element("div", element("dt", name), element("dd", value)) for name, value in facts if value
    ]
    abilities = [element("li", line) for line in agent["capabilities"]]
    return section("agent", "The agent", element("ul", *abilities), element("dl", *pairs))


def _open_files(processes: Sequence[Document]) -> str:
    """Name the processes that are nearest to their limit."""
    nearest = sorted(processes, key=lambda each: each["open_fds"] / (each["max_fds"] or math.inf))
    return ", ".join(
        f"{each['process']} {each['open_fds']}"
        + (f" of {each['max_fds']}" if each["max_fds"] is not None else "")
        for each in nearest[: -_PROCESSES_SHOWN - 1 : -1]
    )
