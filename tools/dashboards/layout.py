"""A dashboard as a whole: its head, its rows, and a number for each panel."""

from __future__ import annotations

__all__ = ["Page", "Row", "in_thirds", "laid_out"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from tools.dashboards.links import PAGES, links_to_others
from tools.dashboards.variables import data_source, label_variables, runbooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.cog.builder import Builder


# Grafana's columns.
_WIDTH = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one heading; a folded row asks nothing of Prometheus until it is opened."""

    title: str
    panels: Sequence[Builder[model.Panel]]
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a dashboard shows; `labels` are its variables, from the widest to the narrowest."""

    uid: str
    text: str
    labels: tuple[str, ...]
    rows: Sequence[Row]
    since: str = "now-1h"
    refresh: str = "1m"
    of_fleet: bool = False


def in_thirds(*panels: Any, height: int = 8) -> list[Builder[model.Panel]]:
    """Return three panels beside each other; what all builders can is not in their common type."""
    return [panel.span(_WIDTH // 3).height(height) for panel in panels]


def laid_out(page: Page) -> model.Dashboard:
    """Put a dashboard together."""
    chosen = label_variables(page.labels, of_fleet=page.of_fleet)
    made = (
        build.Dashboard(PAGES[page.uid])
        .uid(page.uid)
        .description(page.text)
        .tags(["brokerwire", "kafka"])
        .time(page.since, "now")
        .refresh(page.refresh)
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .editable()
        .links(list(links_to_others(page.uid)))
        .variables([data_source(), *chosen, runbooks()])
    )
    for row in page.rows:
        _add(made, row)
    dashboard = made.build()
    _number(dashboard)
    return dashboard


def _add(made: build.Dashboard, row: Row) -> None:
    head = build.Row(row.title).collapsed(row.folded)
    if row.folded:
        for panel in row.panels:
            head.with_panel(panel)
    made.with_row(head)
    if not row.folded:
        for panel in row.panels:
            made.with_panel(panel)


def _number(dashboard: model.Dashboard) -> None:
    """Give each panel an id: links to a panel stay good as long as the order does."""
    number = 0
    for panel in dashboard.panels or ():
        within = panel.panels if isinstance(panel, model.RowPanel) else []
        for each in (panel, *within):
            number += 1
            each.id_val = number
