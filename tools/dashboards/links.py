"""Ways from one dashboard to another, and from a finding to its runbook."""

from __future__ import annotations

__all__ = ["PAGES", "RUNBOOK", "links_to_others", "of_row", "of_series"]

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models.dashboard import DashboardLinkType

from tools.dashboards.variables import RUNBOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = {
    "brokerwire-clients": "Client connections",
    "brokerwire-brokers": "Brokers",
    "brokerwire-agent": "Agent health",
    "brokerwire-fleet": "Fleet efficiency",
}
"""The dashboards by their uids, which the alerts' links name."""

RUNBOOK = ("Runbook", f"${{{RUNBOOKS}:raw}}${{__data.fields.finding}}.md")
"""From a row of a table with the column `finding`."""

# What every dashboard has; but in the fleet's the job would be that of the rollups.
_KEPT = ("datasource", "cluster", "namespace", "job")
_KEPT_OF_FLEET = _KEPT[:-1]


def links_to_others(uid: str) -> Iterator[DashboardLink]:
    """Yield links to all other dashboards, which keep time and variables."""
    for other, title in PAGES.items():
        if other != uid:
            yield (
                DashboardLink(title)
                .type(DashboardLinkType.LINK)
                .url(f"/d/{other}")
                .icon("dashboard")
                .include_vars(include_vars=True)
                .keep_time(keep_time=True)
            )


def of_row(uid: str, *labels: str) -> tuple[str, str]:
    """Return a link from a table's row to a dashboard about what the row is about."""
    return _link(uid, {label: f"${{__data.fields.{label}:percentencode}}" for label in labels})


def of_series(uid: str, *labels: str, of_fleet: bool = False) -> DashboardLink:
    """Return a link from a series to a dashboard about what the series is about."""
    chosen = {label: f"${{__field.labels.{label}:percentencode}}" for label in labels}
    title, url = _link(uid, chosen, _KEPT_OF_FLEET if of_fleet else _KEPT)
    return DashboardLink(title).url(url)


def _link(uid: str, chosen: dict[str, str], kept: tuple[str, ...] = _KEPT) -> tuple[str, str]:
    # A variable that stood there twice would have both values.
    variables = [f"${{{name}:queryparam}}" for name in kept if name not in chosen]
    variables += [f"var-{label}={value}" for label, value in chosen.items()]
    return PAGES[uid], f"/d/{uid}?${{__url_time_range}}&{'&'.join(variables)}"
