"""Links of an alert: its runbook, and its dashboard with the alert's labels selected."""

from __future__ import annotations

__all__ = ["OF_LABELS", "dashboard_url", "runbook_url"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exporter.alerts.settings import LinkSettings
    from exporter.alerts.spec import AlertSpec

# A template of Prometheus. A variable of a dashboard has the name of its label; Grafana does not
# mind names that no variable has. A label that is missing is not written: everything is chosen.
OF_LABELS = (
    '{{ range $name, $value := $labels }}{{ if ne $name "__name__" }}'
    "var-{{ $name }}={{ urlquery $value }}&{{ end }}{{ end }}"
)


def runbook_url(spec: AlertSpec, links: LinkSettings) -> str:
    """Return the address of an alert's runbook."""
    return links.runbooks.replace("{alert}", spec.runbook)


def dashboard_url(spec: AlertSpec, links: LinkSettings, variables: str) -> str:
    """Return the address of an alert's dashboard, with the variables that it is to have."""
    address = links.dashboards.replace("{dashboard}", spec.dashboard)
    return address.replace("{variables}", variables)
