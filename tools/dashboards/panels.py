"""The kinds of panels that all dashboards are made of, each with a question and an explanation."""

from __future__ import annotations

__all__ = [
    "bars",
    "coloured",
    "dashed",
    "heatmap",
    "in_words",
    "limited",
    "lines",
    "numbers",
    "stacked",
    "with_unit",
]

from typing import TYPE_CHECKING, TypeVar

from grafana_foundation_sdk.builders import common, prometheus
from grafana_foundation_sdk.builders.bargauge import Panel as BarGauge
from grafana_foundation_sdk.builders.dashboard import FieldColor
from grafana_foundation_sdk.builders.heatmap import HeatmapColorOptions, YAxisConfig
from grafana_foundation_sdk.builders.heatmap import Panel as Heatmap
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as Timeseries
from grafana_foundation_sdk.models import common as values
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, FieldColorModeId
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from exporter.web.words import CLASS_WORDS
from tools.dashboards.palette import CLASS_COLOURS
from tools.dashboards.thresholds import plain
from tools.dashboards.variables import DATASOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig

    from tools.dashboards.queries import Query

_LETTERS = "ABCDEFGH"
_Series = TypeVar("_Series", Timeseries, BarGauge)


def numbers(title: str, text: str, *queries: Query) -> Stat:
    """Return a few figures as of now, each under its name."""
    return (
        Stat()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets(list(_targets(queries, now=True)))
        .color_mode(values.BigValueColorMode.VALUE)
        .graph_mode(values.BigValueGraphMode.NONE)
        .text_mode(values.BigValueTextMode.VALUE_AND_NAME)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(plain())
        .unit("short")
        .no_value("unknown")
    )


def bars(title: str, text: str, *queries: Query) -> BarGauge:
    """Return a bar for each series as of now."""
    return (
        BarGauge()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets(list(_targets(queries, now=True)))
        .orientation(values.VizOrientation.HORIZONTAL)
        .display_mode(values.BarGaugeDisplayMode.BASIC)
        .value_mode(values.BarGaugeValueMode.TEXT)
        .name_placement(values.BarGaugeNamePlacement.TOP)
        .show_unfilled(show_unfilled=True)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(plain())
        .unit("short")
        .min(0)
    )


def lines(title: str, text: str, *queries: Query) -> Timeseries:
    """Return lines over time; what the thresholds say is a dashed line."""
    return (
        Timeseries()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets(list(_targets(queries)))
        .draw_style(values.GraphDrawStyle.LINE)
        .line_width(2)
        .fill_opacity(0)
        .show_points(values.VisibilityMode.NEVER)
        .color_scheme(FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
        .legend(
            common.VizLegendOptions()
            .display_mode(values.LegendDisplayMode.TABLE)
            .placement(values.LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(values.TooltipDisplayMode.MULTI)
            .sort(values.SortOrder.DESCENDING)
        )
        .unit("short")
        .min(0)
    )


def stacked(title: str, text: str, *queries: Query) -> Timeseries:
    """Return areas over time that stand on each other: their sum means something."""
    return (
        lines(title, text, *queries)
        .line_width(1)
        .fill_opacity(70)
        .stacking(common.StackingConfig().mode(values.StackingMode.NORMAL))
    )


def dashed(panel: Timeseries, name: str) -> Timeseries:
    """Draw one series as what should be: a dashed line, on no stack."""
    return panel.override_by_name(
        name,
        [
            _fixed("text"),
            DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 6]}),
            DynamicConfigValue(id_val="custom.lineWidth", value=2),
            DynamicConfigValue(id_val="custom.fillOpacity", value=0),
            DynamicConfigValue(id_val="custom.stacking", value={"mode": "none", "group": "A"}),
        ],
    )


def limited(panel: Timeseries, steps: ThresholdsConfig) -> Timeseries:
    """Draw a dashed line where the thresholds change."""
    style = common.GraphThresholdsStyleConfig().mode(values.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(steps).thresholds_style(style)


def coloured(panel: _Series) -> _Series:
    """Give each series that is named as a connection class that class's colour."""
    for name, colour in CLASS_COLOURS.items():
        panel.override_by_name(name, [_fixed(colour)])
    return panel


def in_words(panel: BarGauge) -> BarGauge:
    """Name each class with what it means, in its colour."""
    for name, colour in CLASS_COLOURS.items():
        told = DynamicConfigValue(id_val="displayName", value=f"{name}: {CLASS_WORDS[name]}")
        panel.override_by_name(name, [_fixed(colour), told])
    return panel


def with_unit(panel: Stat, name: str, unit: str, steps: ThresholdsConfig) -> Stat:
    """Give one figure of several a unit and thresholds of its own."""
    return panel.override_by_name(
        name,
        [
            DynamicConfigValue(id_val="unit", value=unit),
            DynamicConfigValue(id_val="thresholds", value=steps.build()),
        ],
    )


def heatmap(title: str, text: str, query: Query) -> Heatmap:
    """Return how the buckets of a histogram filled over time."""
    return (
        Heatmap()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets([_target(query, "A").format(PromQueryFormat.HEATMAP)])
        .calculate(calculate=False)
        .unit("short")
        .y_axis(YAxisConfig().unit("s"))
        .color(HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(32))
        .show_legend()
    )


def _fixed(colour: str) -> DynamicConfigValue:
    return DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})


def _targets(queries: tuple[Query, ...], *, now: bool = False) -> Iterator[prometheus.Dataquery]:
    for letter, query in zip(_LETTERS, queries, strict=False):
        target = _target(query, letter)
        yield target.instant() if now else target.range()


def _target(query: Query, letter: str) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(query.expression)
        .legend_format(query.legend or "__auto")
        .ref_id(letter)
    )
