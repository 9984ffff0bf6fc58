"""The report's main charts as PNG files, for where a page cannot go."""

from __future__ import annotations

__all__ = ["draw"]

import io
import warnings
from datetime import timedelta
from math import nan
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from spark_rollups.report import charts, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from spark_rollups.report.digest import BrokerLoad, Digest

# Light values of the style sheet's colours.
_COLOURS: Final = {
    "accent": "#1f5fbf", "good": "#1e7d3c", "red": "#c62828", "orange": "#b25000",
    "amber": "#8a6500", "teal": "#0b7285", "violet": "#6d3fb5", "grey": "#667080",
    "line": "#dde2e9",
}  # fmt: skip
# Names are not formulas, whatever dollars they hold.
_STYLE: Final = {"text.parse_math": False, "axes.spines.top": False, "axes.spines.right": False}
_MOST_BROKERS: Final = 24
_LONGEST: Final = 36


def draw(digest: Digest) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each chart that has something to show, with its picture."""
    brokers = digest.brokers[:_MOST_BROKERS]
    fixes = [
        (words.fix_words(each.fix).title, each.connections)
        for each in digest.savings
        if round(each.connections, 1)
    ]
    services = [
        (words.service_words(each.namespace, each.service), each.waste)
        for each in digest.services_waste
    ]
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        if brokers:
            figure, axes = _axes("Connections to each broker", len(brokers))
            _loads(axes, brokers)
            yield "brokers", _png(figure)
        if fixes:
            figure, axes = _axes("Connections that each fix would save", len(fixes))
            _bars(axes, fixes, "good")
            yield "savings", _png(figure)
        if services:
            figure, axes = _axes("Wasted connections of each service", len(services))
            _bars(axes, services, "red")
            yield "wasters", _png(figure)
        if layers := charts.bands(digest):
            figure, axes = _axes("Connections over time", 9)
            _stack(axes, digest, layers)
            yield "held", _png(figure)


def _axes(title: str, rows: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.6, 0.9 + 0.34 * rows), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left")
    return figure, axes


def _bars(axes: Axes, rows: Sequence[tuple[str, float]], colour: str) -> None:
    places = range(len(rows))
    drawn = axes.barh(places, [value for _, value in rows], color=_COLOURS[colour])
    axes.bar_label(drawn, [words.amount(value) for _, value in rows], padding=3)
    axes.set_yticks(places, [words.printable(name, _LONGEST) for name, _ in rows])
    axes.invert_yaxis()


def _loads(axes: Axes, brokers: Sequence[BrokerLoad]) -> None:
    names = [words.broker_words(load.kafka_cluster, load.broker_id, 30) for load in brokers]
    _bars(axes, [(n, load.peak or 0) for n, load in zip(names, brokers, strict=True)], "accent")
    marks = (("forecast_peak", "orange", "if all restart"), ("max_connections", "red", "limit"))
    for figure, colour, label in marks:
        known = [(place, getattr(load, figure)) for place, load in enumerate(brokers)]
        known = [(place, value) for place, value in known if value is not None]
        if known:
            at = [place for place, _ in known]
            values = [value for _, value in known]
            axes.scatter(values, at, marker="|", s=200, color=_COLOURS[colour], label=label)


def _stack(axes: Axes, digest: Digest, layers: Sequence[charts.Band]) -> None:
    edges = [digest.begin + timedelta(hours=n) for n in range(digest.hours_in_period + 1)]
    for band, *stairs in charts.stacked(layers):
        lower, upper = ([nan if v is None else v for v in values] for values in stairs)
        axes.stairs(
            upper, edges, baseline=lower, fill=True,
            color=_COLOURS[band.colour], label=words.reason_words(band.name),
        )  # fmt: skip


def _png(figure: Figure) -> bytes:
    if figure.axes[0].get_legend_handles_labels()[0]:
        figure.legend(frameon=False, ncols=4, loc="outside lower left")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=160)
    return picture.getvalue()
