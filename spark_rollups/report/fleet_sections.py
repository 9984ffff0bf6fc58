"""The sections on the fleet as a whole: headline, what it held, how well, what was seen."""

from __future__ import annotations

__all__ = ["headline", "held", "seen"]

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from spark_rollups.report.canvas import draw
from spark_rollups.report.digest import HOUR_MS, OTHER
from spark_rollups.report.markup import Markup, element
from spark_rollups.report.parts import Figure, Section, section, table
from spark_rollups.report.plots_of_time import plot_held
from spark_rollups.report.savings_sections import fixes_of
from spark_rollups.report.words import (
    FIXES,
    amount,
    broker_words,
    fewer,
    of_all,
    percent,
    printable,
    reason_words,
    when,
)

if TYPE_CHECKING:
    from spark_rollups.report.digest import Digest

_FULL = 0.999
_IN_OTHER = f"reasons; the rest is added up in {OTHER!r}"


def headline(digest: Digest) -> Section:
    """Say in one sentence and five figures how the fleet is."""
    wasted = f"{amount(digest.wasted)} of {amount(digest.connections)}"
    cards = [
        _card("Efficiency", percent(digest.efficiency), "of connection time is useful"),
        _card("Wasted", amount(digest.wasted), f"of {amount(digest.connections)} connections held"),
    ]
    fixes = fixes_of(digest)
    if fixes:
        best = fixes[0]
        title = FIXES[best.fix].title if best.fix in FIXES else printable(best.fix)
        cards.append(_card("Best fix", fewer(best.connections), f"connections: {title.lower()}"))
    loads = [load for load in digest.brokers if load.worst_share is not None]
    if loads:
        worst = max(loads, key=lambda load: load.worst_share or 0)
        who = broker_words(worst.kafka_cluster, worst.broker_id, 30)
        text = f"of its limit at worst: broker {who}"
        bad = (worst.worst_share or 0) > 1
        cards.append(_card("Fullest broker", percent(worst.worst_share), text, bad=bad))
    cover = digest.coverage
    text = f"of the minutes of {digest.hours_in_period} hours"
    cards.append(_card("Seen", percent(cover), text, bad=cover is None or cover < _FULL))
    says = (
        f"On average {wasted} connections are wasted"
        f" ({amount(digest.services)} services, {amount(digest.clients)} clients)."
    )
    html = element(
        "section",
        element("p", says, class_="lead"),
        element("div", *cards, class_="cards"),
        id="headline",
        aria_label="Headline",
    )
    return Section(html, "")


def held(digest: Digest) -> Section:
    """Show what was held over time."""
    svg, png = draw(
        "held",
        partial(plot_held, digest=digest),
        (3.2, 2.8),
        "Connections over time: useful ones, and waste by reason stacked on them",
    )
    rows = [
        (
            when(hour.at),
            amount(hour.connection_ms / HOUR_MS),
            amount(hour.useful_ms / HOUR_MS),
            amount(hour.waste_ms / HOUR_MS),
            amount(hour.unknown_ms / HOUR_MS),
            percent(_share(hour.useful_ms, hour.useful_ms + hour.waste_ms)),
            amount(hour.opened),
            percent(_share(hour.minutes_seen, hour.minutes_expected)),
        )
        for hour in digest.hours
    ]
    heads = (
        *("hour (UTC)", "held#", "useful#", "wasted#", "unknown#", "efficiency#", "opened#"),
        "seen#",
    )
    return section(
        "held",
        "What the fleet held",
        "Connections on average in each hour. Everything above the green is waste, by reason.",
        _reasons(digest),
        figure=Figure("held", svg, png),
        behind=table(heads, rows, "Connections by hour"),
    )


def _reasons(digest: Digest) -> Markup:
    """Show why connections are waste."""
    totals: dict[str, int] = defaultdict(int)
    for waste in digest.waste:
        totals[waste.reason] += waste.waste_ms
    hours, whole = HOUR_MS * max(1, len(digest.hours)), sum(totals.values())
    rows = [
        (reason_words(reason), amount(spent / hours), percent(_share(spent, whole)))
        for reason, spent in sorted(totals.items(), key=lambda item: (-item[1], item[0]))
        if spent
    ]
    if not rows:
        return Markup("")
    more = of_all(len(totals.keys() - {OTHER}), digest.lengths.reasons, _IN_OTHER)
    return table(("reason", "wasted#", "of all waste#"), rows, f"Waste by reason.{more}")


def seen(digest: Digest) -> Section:
    """Be honest about what was not seen, and what could not be read."""
    parts = []
    known = {hour.at for hour in digest.hours}
    missing = digest.hours_in_period - len(known)
    partly = [
        hour for hour in digest.hours if hour.minutes_seen < _FULL * max(1, hour.minutes_expected)
    ]
    says = (
        f"{percent(digest.coverage)} of the minutes were seen. "
        f"{amount(missing)} of {amount(digest.hours_in_period)} hours have no data, "
        f"{amount(len(partly))} only in part. What was not seen is in no figure of this page."
    )
    if not digest.whole:
        says += " No hour is whole yet: its averages are too low, as they are over all of it."
    if partly:
        rows = [
            (
                when(hour.at),
                amount(hour.agents),
                amount(hour.minutes_seen),
                amount(hour.minutes_expected),
                percent(_share(hour.minutes_seen, hour.minutes_expected)),
            )
            for hour in partly
        ]
        heads = ("hour (UTC)", "agents#", "minutes seen#", "minutes expected#", "coverage#")
        parts.append(table(heads, rows, "Hours that were seen only in part"))
    if digest.quarantine:
        set_aside = [
            (printable(each.reason), amount(each.texts), amount(each.size))
            for each in digest.quarantine
        ]
        named = sum(each.reason != OTHER for each in digest.quarantine)
        caption = "Set aside: texts that are no records."
        caption += of_all(named, digest.lengths.quarantine, _IN_OTHER)
        parts.append(table(("reason", "texts#", "bytes#"), set_aside, caption))
    else:
        parts.append(element("p", "Every text could be read: nothing was set aside."))
    return section("seen", "Coverage", says, *parts)


def _card(name: str, value: str, text: str, *, bad: bool = False) -> Markup:
    return element(
        "div",
        element("span", name, class_="name"),
        element("b", value, class_="bad" if bad else None),
        element("span", text, class_="quiet"),
        class_="card",
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
