"""The sections on what to change: the worst services, the fixes, versions, and what was found."""

from __future__ import annotations

__all__ = ["cohorts", "findings", "fixes_of", "savings", "wasters"]

from functools import partial
from typing import TYPE_CHECKING

from spark_rollups.report.canvas import draw
from spark_rollups.report.digest import HOUR_MS
from spark_rollups.report.markup import element
from spark_rollups.report.parts import Figure, Section, section, table
from spark_rollups.report.plots_of_bars import bar_heights, plot_bars
from spark_rollups.report.words import (
    FIXES,
    amount,
    broker_words,
    fewer,
    of_all,
    percent,
    printable,
    reason_words,
    service_words,
)

if TYPE_CHECKING:
    from spark_rollups.report.digest import Digest, Saving

_MOST_COHORTS = 12


def fixes_of(digest: Digest) -> list[Saving]:
    """Return the fixes, the one that saves most first."""
    return sorted(digest.savings, key=lambda each: (-each.connections, -each.opened, each.fix))


def savings(digest: Digest) -> Section:
    """Say what each fix would save."""
    rows, bars = [], []
    for each in fixes_of(digest):
        title, advice = FIXES.get(each.fix, (printable(each.fix), ""))
        where = broker_words(each.kafka_cluster, each.broker_id, 30)
        share = percent(each.share)
        what = element("td", element("b", title), element("small", advice))
        rows.append(
            (
                what,
                amount(each.connections),
                amount(each.opened),
                share if each.share is None else f"{share} at {where}",
            )
        )
        if round(each.connections, 1):
            bars.append((title, each.connections, fewer(each.connections), "good"))
    heads = ("fix", "connections saved#", "openings saved an hour#", "most of a broker's limit")
    behind = table(heads, rows, "What each fix would save")
    if not bars:
        return section("savings", "What each fix would save", "Nothing to save.", behind)
    svg, png = draw(
        "savings",
        partial(plot_bars, bars=bars),
        bar_heights(len(bars)),
        "Connections that each fix would save",
    )
    return section(
        "savings",
        "What each fix would save",
        f"Standing connections less, on the brokers of the whole fleet, on {digest.day:%d %b %Y}.",
        behind,
        figure=Figure("savings", svg, png),
    )


def wasters(digest: Digest) -> Section:
    """Name the services that waste most."""
    shown = sorted(digest.wasters, key=lambda waster: -waster.waste)
    most = max((waster.waste for waster in shown), default=0) or 1
    rows = []
    for waster in shown:
        kind = " ".join(
            printable(part, 40)
            for part in (waster.library, waster.library_version, waster.client_kind)
            if part
        )
        who = element(
            "td",
            element("b", service_words(waster.namespace, waster.service)),
            element("small", f"{printable(waster.cluster, 40)} · {kind}" if kind else ""),
        )
        bar = element("span", class_="bar", style=f"width: {6 * waster.waste / most:.2f}rem")
        wasted = element("td", amount(waster.waste), bar, class_="n")
        rows.append(
            (who, wasted, amount(waster.connections), percent(waster.efficiency),
             percent(waster.share), reason_words(waster.reason))
        )  # fmt: skip
    heads = ("service", "wasted#", "held#", "efficiency#", "of its cluster's waste#", "mostly")
    return section(
        "wasters",
        "Who wastes most",
        f"Connections on average on {digest.day:%d %b %Y}; "
        f"{amount(digest.lengths.services)} services waste any."
        " A service has a row for each of its libraries and kinds of clients.",
        table(heads, rows, "Top wasters"),
    )


def cohorts(digest: Digest) -> Section:
    """Compare versions of libraries by waste for each client."""
    shown = [cohort for cohort in digest.cohorts if cohort.clients and cohort.library]
    shown.sort(key=lambda cohort: -cohort.waste / cohort.clients)
    named = [
        (
            " ".join(
                printable(part, 30)
                for part in (cohort.library, cohort.library_version, cohort.client_kind)
                if part
            ),
            cohort,
        )
        for cohort in shown[:_MOST_COHORTS]
    ]
    rows = [
        (name, amount(c.clients), amount(c.connections), amount(c.waste),
         f"{c.waste / c.clients:.2f}", percent(c.efficiency))
        for name, c in named
    ]  # fmt: skip
    if not rows:
        return section("versions", "Library versions", "No library version is known.")
    bars = [
        (name, c.waste / c.clients, f"{c.waste / c.clients:.2f}", "violet") for name, c in named
    ]
    svg, png = draw(
        "versions",
        partial(plot_bars, bars=bars),
        bar_heights(len(bars)),
        "Wasted connections for each client by library version",
    )
    heads = ("version", "clients#", "held#", "wasted#", "wasted a client#", "efficiency#")
    return section(
        "versions",
        "Library versions",
        "Wasted connections for each client. Where an old version stands out, update it."
        + of_all(len(rows), digest.lengths.cohorts, "versions"),
        figure=Figure("versions", svg, png),
        behind=table(heads, rows, "Versions"),
    )


def findings(digest: Digest) -> Section:
    """List what the agents found, and for how long it was true."""
    rows = [
        (
            printable(found.finding),
            printable(found.cause),
            printable(found.severity),
            amount(found.services),
            amount(found.active_ms / HOUR_MS),
            amount(found.begun),
        )
        for found in sorted(digest.findings, key=lambda found: -found.active_ms)
    ]
    heads = ("finding", "cause", "severity", "services#", "hours true#", "times begun#")
    says = "What the agents themselves call wrong; each has a runbook of the same name." + of_all(
        len(rows), digest.lengths.findings, "findings"
    )
    if not rows:
        return section("findings", "Findings", "The agents found nothing.")
    return section("findings", "Findings", says, table(heads, rows, "Findings of the agents"))
