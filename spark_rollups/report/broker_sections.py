"""The sections on brokers and moments: headroom, rolling restarts, surges, weeks."""

from __future__ import annotations

__all__ = ["brokers", "surges", "weeks"]

from functools import partial
from typing import TYPE_CHECKING

from spark_rollups.report.canvas import draw
from spark_rollups.report.markup import element
from spark_rollups.report.parts import Figure, Section, section, table
from spark_rollups.report.plots_of_bars import (
    bar_heights,
    plot_brokers,
    plot_changes,
    plot_surges,
)
from spark_rollups.report.sparks import spark
from spark_rollups.report.words import (
    amount,
    broker_number,
    broker_words,
    of_all,
    percent,
    printable,
    service_words,
    when,
)

if TYPE_CHECKING:
    from spark_rollups.report.digest import BrokerLoad, Digest, Opening, Surge, Week
    from spark_rollups.report.markup import Markup

_MOST_BROKERS = 24
_MOST_ROWS = 200
_MOST_SURGES = 10
_MOST_CHANGES = 12


def brokers(digest: Digest) -> Section | None:
    """Show how near each broker is to its limit, also if everything restarted."""
    ordered = sorted(
        digest.brokers,
        key=lambda load: (-(load.worst_share or 0), str(load.kafka_cluster), load.broker_id or 0),
    )
    rows = [
        (
            broker_words(load.kafka_cluster, load.broker_id),
            printable(load.broker),
            amount(load.connections),
            amount(load.peak),
            amount(load.forecast_peak),
            amount(load.max_connections),
            percent(load.worst_share),
            element("td", _course(load)),
        )
        for load in ordered[:_MOST_ROWS]
    ]
    if not rows:
        return None
    named = [
        (broker_words(load.kafka_cluster, load.broker_id, 30), load)
        for load in ordered[:_MOST_BROKERS]
    ]
    over = sum((load.worst_share or 0) > 1 for load in digest.brokers)
    unknown = sum(load.max_connections is None for load in digest.brokers)
    verdict = (
        f"{amount(over)} may exceed max.connections." if over else "None exceeds max.connections."
    )
    if unknown:
        verdict += f" The limit of {amount(unknown)} is unknown."
    verdict += of_all(len(named), len(ordered), "brokers")
    svg, png = draw(
        "brokers",
        partial(plot_brokers, brokers=named),
        bar_heights(len(named)),
        "For each broker its peak, the forecast for a restart of all clients, and its limit",
    )
    heads = (
        *("broker", "address", "now#", "peak#", "all restart#", "limit#", "of it, at worst#"),
        "by hour#",
    )
    return section(
        "brokers",
        "Headroom of the brokers",
        "Dark: the most in any minute of the period. Pale: the forecast for a restart of every"
        f" client, expected plus bootstrap. Vertical line: max.connections. {verdict}",
        table(
            heads,
            rows,
            "By hour: the most in any minute; the solid line is the limit, the dashed one the"
            f" forecast.{of_all(len(rows), len(ordered), 'brokers')}",
        ),
        figure=Figure("brokers", svg, png),
    )


def _course(load: BrokerLoad) -> Markup:
    """Draw what a broker held over the period, against its limit and its forecast."""
    marks = (("limit", load.max_connections), ("forecast", load.forecast_peak))
    return spark(load.by_hour, f"at most {amount(load.peak)} connections", marks=marks)


def surges(digest: Digest) -> Section | None:
    """Show restarts that needed far more connections, or handshakes, than the steady state."""
    bursts = _bursts(digest)
    ordered = sorted(digest.surges, key=lambda surge: surge.steady - surge.peak)[:_MOST_SURGES]
    if not ordered:
        says = "Nothing held more than usual; openings came in bursts."
        return section("surges", "Surges", says, *bursts) if bursts else None
    named = [
        (f"{_service(s)} → {broker_number(s.broker_id)}", s.steady, float(s.peak)) for s in ordered
    ]
    rows = [
        (
            *_place(s),
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
    heads = (
        *("hour (UTC)", "cluster", "service", "broker"),
        *("steady#", "peak#", "opened#", "agents started#"),
    )
    return section(
        "surges",
        "Surges",
        "From the steady state (green) to the peak of the hour (orange): what a restart needs."
        + of_all(len(rows), digest.lengths.surges, "surges"),
        *bursts,
        figure=Figure("surges", svg, png),
        behind=table(heads, rows, "Surges"),
    )


def _bursts(digest: Digest) -> list[Markup]:
    """Return a table of the hours with far more openings within a second than their mean."""
    if not digest.openings:
        return []
    rows = [
        (
            *_place(each),
            f"{each.mean:.2f}",
            amount(each.peak),
            amount(each.boots_started),
        )
        for each in digest.openings
    ]
    heads = (
        *("hour (UTC)", "cluster", "service", "broker"),
        *("opened a second, on average#", "within one, at most#", "agents started#"),
    )
    caption = "Openings far above their mean rate: each is a handshake for the broker." + of_all(
        len(rows), digest.lengths.openings, "such hours"
    )
    return [table(heads, rows, caption)]


def weeks(digest: Digest) -> Section | None:
    """Compare the last seven days with the seven before, service by service."""
    tally = digest.weeks
    in_all = tally.better + tally.worse
    moved = sorted(digest.moved, key=lambda week: -abs(week.efficiency - week.previous_efficiency))
    if not moved:
        return None
    shown = [
        (_service(week), week.previous_efficiency, week.efficiency)
        for week in moved[:_MOST_CHANGES]
    ]
    svg, png = draw(
        "weeks",
        partial(plot_changes, changes=shown),
        bar_heights(len(shown)),
        "Efficiency of services in the week before and in the last week",
    )
    rows = [
        (
            printable(week.cluster, 40),
            service_words(week.namespace, week.service),
            percent(week.previous_efficiency),
            percent(week.efficiency),
        )
        for week in moved
    ]
    caption = f"Week against week.{of_all(len(rows), in_all, 'services that changed')}"
    return section(
        "weeks",
        "Week against week",
        f"Efficiency by service: {amount(tally.better)} got better, {amount(tally.worse)} worse,"
        f" {amount(tally.stayed)} stayed." + of_all(len(shown), in_all, "services that changed"),
        figure=Figure("weeks", svg, png),
        behind=table(("cluster", "service", "week before#", "last week#"), rows, caption),
    )


def _service(of: Surge | Week) -> str:
    """Name a service beside a plot: two clusters have services of one name."""
    name = service_words(of.namespace, of.service)
    return name if of.cluster is None else f"{name} ({printable(of.cluster, 20)})"


def _place(of: Surge | Opening) -> tuple[str, ...]:
    """Return the first cells of a row: when, whose, and at which broker."""
    return (
        when(of.at),
        printable(of.cluster, 40),
        service_words(of.namespace, of.service),
        broker_words(of.kafka_cluster, of.broker_id),
    )
