"""Where a colour changes: the numbers of the rules, so that a panel is red when its alert is."""

from __future__ import annotations

__all__ = ["THRESHOLDS", "above", "below", "plain"]

from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
from grafana_foundation_sdk.models.dashboard import Threshold, ThresholdsMode

from exporter.alerts.settings import Thresholds
from tools.dashboards.palette import HUES

THRESHOLDS = Thresholds()
"""What the checked-in rules are rendered from."""

_FULL = 100


def plain() -> ThresholdsConfig:
    """Return one colour for every value."""
    return _steps((None, HUES["blue"]))


def above(value: float, *, full: float | None = None) -> ThresholdsConfig:
    """Return green below a value, orange from it on, and red from `full` on."""
    steps = [(None, HUES["green"]), (value, HUES["orange"])]
    return _steps(*steps, *([] if full is None else [(full, HUES["red"])]))


def below(value: float) -> ThresholdsConfig:
    """Return orange below a value and green from it on."""
    return _steps((None, HUES["orange"]), (value, HUES["green"]))


def _steps(*steps: tuple[float | None, str]) -> ThresholdsConfig:
    return (
        ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([Threshold(value=value, color=colour) for value, colour in steps])
    )
