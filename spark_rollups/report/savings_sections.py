"""The sections on what to change: the worst services, the fixes, versions, and what was found."""

from __future__ import annotations

__all__ = ["cohorts", "findings", "fixes_of", "savings", "updates", "wasters"]

import re
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from spark_rollups.report.canvas import draw
from spark_rollups.report.digest import HOUR_MS
from spark_rollups.report.markup import element
from spark_rollups.report.parts import Figure, Section, section, table
from spark_rollups.report.plots_of_bars import bar_heights, plot_bars
from spark_rollups.report.sparks import spark
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
    from collections.abc import Sequence

    from spark_rollups.report.digest import Cohort, Digest, Saving

_MOST_COHORTS = 12
_LEAST_GAIN = 0.1
"""Connections a client, on average over the day, that an update must save to be worth a word."""


def fixes_of(digest: Digest) -> list[Saving]:
    """Return the fixes, the one that saves most first."""
    return sorted(digest.savings, key=lambda each: (-each.connections, -each.opened, each.fix))


def savings(digest: Digest) -> Section | None:
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
    if not rows:
        return None
    if not bars:
        says = "No standing connections, but openings."
        return section("savings", "What each fix would save", says, behind)
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


def wasters(digest: Digest) -> Section | None:
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
        course = spark(waster.by_hour, "wasted connections of the service, hour by hour")
        rows.append(
            (who, wasted, element("td", course), amount(waster.connections),
             percent(waster.efficiency), percent(waster.share), reason_words(waster.reason))
        )  # fmt: skip
    if not rows:
        return None
    heads = (
        "service",
        "wasted#",
        "by hour#",
        "held#",
        "efficiency#",
        "of its cluster's waste#",
        "mostly",
    )
    return section(
        "wasters",
        "Who wastes most",
        f"Connections on average on {digest.day:%d %b %Y}; "
        f"{amount(digest.lengths.services)} services waste any."
        " A service has a row for each of its libraries and kinds of clients; its course by hour is"
        " that of the whole service.",
        table(heads, rows, "Top wasters"),
    )


def cohorts(digest: Digest) -> Section | None:
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
         f"{c.waste / c.clients:.2f}", f"{c.bootstrap_waste / c.clients:.2f}",
         percent(c.efficiency))
        for name, c in named
    ]  # fmt: skip
    if not rows:
        return None
    bars = [
        (name, c.waste / c.clients, f"{c.waste / c.clients:.2f}", "violet") for name, c in named
    ]
    svg, png = draw(
        "versions",
        partial(plot_bars, bars=bars),
        bar_heights(len(bars)),
        "Wasted connections for each client by library version",
    )
    heads = (
        *("version", "clients#", "held#", "wasted#", "wasted per client#"),
        *("of it unused bootstrap#", "efficiency#"),
    )
    return section(
        "versions",
        "Library versions",
        "Wasted connections per client. A version decides on its unused bootstrap connections;"
        " instances and idle timeouts are the application's."
        + updates(shown)
        + of_all(len(rows), digest.lengths.cohorts, "versions"),
        figure=Figure("versions", svg, png),
        behind=table(heads, rows, "Versions"),
    )


def updates(cohorts: Sequence[Cohort]) -> str:
    """Say which versions an update would help: those with more left open than the newest one."""
    by_library: dict[str, list[tuple[tuple[int, ...], Cohort]]] = defaultdict(list)
    for cohort in cohorts:
        if re.fullmatch(r"\d{1,6}(\.\d{1,6}){1,3}", cohort.library_version or ""):
            version = tuple(map(int, str(cohort.library_version).split(".")))
            by_library[str(cohort.library)].append((version, cohort))
    says = []
    for library, found in sorted(by_library.items()):
        newest = max(found, key=lambda each: each[0])
        best = max(each.bootstrap_waste / each.clients for v, each in found if v == newest[0])
        older = {
            str(each.library_version)
            for version, each in found
            if version < newest[0] and each.bootstrap_waste / each.clients > best + _LEAST_GAIN
        }
        if older:
            names = ", ".join(sorted(older))
            says.append(f" Update {printable(library, 30)} {names} to {newest[1].library_version}.")
    return "".join(says)


def findings(digest: Digest) -> Section | None:
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
        return None
    return section("findings", "Findings", says, table(heads, rows, "Findings of the agents"))
