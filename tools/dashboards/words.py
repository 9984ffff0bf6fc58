"""What each finding is and what to change, in the words of its alert."""

from __future__ import annotations

__all__ = ["REMEDIES", "SUMMARIES"]

from exporter.alerts.catalogue import ALERTS

SUMMARIES = {alert.name: alert.summary for alert in ALERTS}
REMEDIES = {alert.name: alert.remedy for alert in ALERTS}
