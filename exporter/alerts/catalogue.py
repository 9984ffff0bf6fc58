"""All alerts, in the order of the rule file."""

from __future__ import annotations

__all__ = ["ALERTS", "ALERTS_BY_NAME"]

from typing import TYPE_CHECKING

from exporter.alerts.agent import AGENT
from exporter.alerts.brokers import BROKERS
from exporter.alerts.churn import CHURN
from exporter.alerts.waste import WASTE

if TYPE_CHECKING:
    from exporter.alerts.spec import AlertSpec

ALERTS: tuple[AlertSpec, ...] = (*WASTE, *BROKERS, *CHURN, *AGENT)
ALERTS_BY_NAME: dict[str, AlertSpec] = {alert.name: alert for alert in ALERTS}
