"""The sections on brokers and moments: headroom, rolling restarts, surges, weeks."""

from __future__ import annotations

__all__ = ["brokers", "surges", "weeks"]

from functools import partial
from typing import TYPE_CHECKING

from spark_rollups.report.canvas import draw
from spark_rollups.report.parts import Figure, Section, section, table
from spark_rollups.report.plots_of_bars import (
    bar_heights,
    plot_brokers,
    plot_changes,
    plot_surges,
)
from spark_rollups.report.words import amount, percent, printable, service_words, when

if TYPE_CHECKING:
    from spark_rollups.report.digest import Digest

_MOST_BROKERS = 24
_MOST_SURGES = 10
_MOST_CHANGES = 12
# A service whose efficiency moved by less did not change.
_LEAST_CHANGE = 0.02


def brokers(digest: Digest) -> Section:
    """Show how near each broker is to its limit, also if everything restarted."""
    ordered = sorted(
        digest.brokers,
        key=lambda load: (-(load.worst_share or 0), str(load.kafka_cluster), load.broker_id or 0),
    )
    rows = [
        (
            f"{printable(load.kafka_cluster)} {load.broker_id}",
            printable(load.broker),
            amount(load.connections),
            amount(load.peak),
            amount(load.forecast_peak),
            amount(load.max_connections),
            percent(load.worst_share),
        )
        for load in ordered
    ]
    if not rows:
        return section("brokers", "Headroom of the brokers", "No broker is known.")
    named = [
        (f"{printable(load.kafka_cluster, 30)} {load.broker_id}", load)
        for load in ordered[:_MOST_BROKERS]
    ]
    over = sum((load.worst_share or 0) > 1 for load in digest.brokers)
    unknown = sum(load.max_connections is None for load in digest.brokers)
    verdict = (
        f"{amount(over)} may get over max.connections."
        if over
        else "None gets over max.connections."
    )
    if unknown:
        verdict += f" Of {amount(unknown)} nobody told the limit."
    svg, png = draw(
        "brokers",
        partial(plot_brokers, brokers=named),
        bar_heights(len(named)),
        "For each broker its peak, the forecast for a restart of all clients, and its limit",
    )
    heads = ("broker", "address", "now#", "peak#", "rolling restart#", "limit#", "of it, at worst#")
    return section(
        "brokers",
        "Headroom of the brokers",
        "Dark: the peak of the period (never more). Pale: the forecast for a rolling restart of"
        f" every client, expected plus bootstrap. Upright line: max.connections. {verdict}",
        figure=Figure("brokers", svg, png),
        behind=table(heads, rows, "Brokers"),
    )


def surges(digest: Digest) -> Section:
    """Show restarts that needed far more connections than the steady state."""
    ordered = sorted(digest.surges, key=lambda surge: surge.steady - surge.peak)[:_MOST_SURGES]
    if not ordered:
        return section("surges", "Surges", "Nothing held more than usual.")
    named = [
        (f"{service_words(s.namespace, s.service)} → {s.broker_id}", s.steady, float(s.peak))
        for s in ordered
    ]
    rows = [
        (
            when(s.at),
            service_words(s.namespace, s.service),
            f"{printable(s.kafka_cluster)} {s.broker_id}",
            amount(s.steady),
            amount(s.peak),
            amount(s.opened),
            amount(s.boots_started),
        )
        for s in ordered
    ]
    svg, png = draw(
        "surges",
        partial(plot_surges, surges=named),
        bar_heights(len(named)),
        "Steady connections and the peak of the hour, by service and broker",
    )
    heads = ("hour (UTC)", "service", "broker", "steady#", "peak#", "opened#", "agents started#")
    return section(
        "surges",
        "Surges",
        "From the steady state (green) to the peak of the hour (orange): what a restart needs.",
        figure=Figure("surges", svg, png),
        behind=table(heads, rows, "Surges"),
    )


def weeks(digest: Digest) -> Section:
    """Compare the last seven days with the seven before, service by service."""
    changed = [
        (service_words(week.namespace, week.service), week.previous_efficiency, week.efficiency)
        for week in digest.weeks
        if week.efficiency is not None and week.previous_efficiency is not None
    ]
    moved = [
        (name, before, now)
        for name, before, now in changed
        if before is not None and now is not None and abs(now - before) >= _LEAST_CHANGE
    ]
    moved.sort(key=lambda each: -abs(each[2] - each[1]))
    if not changed:
        return section("weeks", "Week against week", "There is no week before to compare with.")
    if not moved:
        return section("weeks", "Week against week", "No service changed its efficiency.")
    better = sum(now > before for _, before, now in moved)
    shown = moved[:_MOST_CHANGES]
    svg, png = draw(
        "weeks",
        partial(plot_changes, changes=shown),
        bar_heights(len(shown)),
        "Efficiency of services in the week before and in the last week",
    )
    rows = [(name, percent(before), percent(now)) for name, before, now in moved]
    return section(
        "weeks",
        "Week against week",
        f"Efficiency by service: {amount(better)} got better, {amount(len(moved) - better)} worse,"
        f" {amount(len(changed) - len(moved))} stayed.",
        figure=Figure("weeks", svg, png),
        behind=table(("service", "week before#", "last week#"), rows, "Week against week"),
    )
