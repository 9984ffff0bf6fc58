"""Renders Prometheus rule files, with the reason for each number as a comment."""

from __future__ import annotations

__all__ = ["alerts_of", "alerts_text", "recording_text"]

import json
import re
from dataclasses import replace
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from exporter.alerts.catalogue import ALERTS
from exporter.alerts.expressions import filled, scoped
from exporter.alerts.links import OF_LABELS, dashboard_url, runbook_url
from exporter.alerts.recording import recording_rules
from exporter.alerts.settings import RuleSettings, Thresholds
from exporter.alerts.spec import Timing
from exporter.text import written_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.alerts.settings import AlertOverride
    from exporter.alerts.spec import AlertSpec, RecordingSpec

WIDTH = 100
_HEAD = """\
# Written by `brokerwire rules render`: change its settings, not this file (rules/README.md).
# Prometheus 2.42 or later (keep_firing_for).
groups:
"""
_DEFAULTS = Thresholds()


def alerts_text(settings: RuleSettings) -> str:
    """Return the file of alerts."""
    groups = groupby(alerts_of(settings), key=lambda spec: spec.group)
    return _HEAD + "".join(
        _group(name, (_alert_lines(spec, settings) for spec in specs)) for name, specs in groups
    )


def recording_text(settings: RuleSettings) -> str:
    """Return the file of recording rules."""
    rules = recording_rules(settings.service_labels, settings.fleet_labels)
    groups = groupby(rules, key=lambda spec: spec.group)
    return _HEAD + "".join(
        _group(name, (_recording_lines(spec, settings) for spec in specs)) for name, specs in groups
    )


def alerts_of(settings: RuleSettings) -> Iterator[AlertSpec]:
    """Yield the alerts that are to be, with the operator's severities and durations."""
    overrides = {override.name: override for override in settings.alerts}
    for spec in ALERTS:
        override = overrides.get(spec.name)
        if override is not None and not override.enabled:
            continue
        if spec.given and getattr(settings.thresholds, spec.given) is not None:
            spec = replace(spec, expression=spec.expression_if_given)  # noqa: PLW2901
        yield spec if override is None else _overridden(spec, override)


def _overridden(spec: AlertSpec, override: AlertOverride) -> AlertSpec:
    return replace(
        spec,
        severity=spec.severity if override.severity is None else override.severity,
        fire_after=_timing(spec.fire_after, override.fire_after),
        keep_firing_for=_timing(spec.keep_firing_for, override.keep_firing_for),
    )


def _timing(default: Timing, seconds: float | None) -> Timing:
    if seconds is None or seconds == default.seconds:
        return default
    return Timing(
        seconds, f"set here; {written_duration(default.seconds)} by default: {default.why}"
    )


def _group(name: str, rules: Iterator[Iterator[str]]) -> str:
    lines = [f"  - name: {name}", "    rules:"]
    for rule in rules:
        lines += rule
    return "\n".join(lines) + "\n"


def _alert_lines(spec: AlertSpec, settings: RuleSettings) -> Iterator[str]:
    yield f"      - alert: {spec.name}"
    for name, why in spec.reasons.items():
        if spec.given == name and getattr(settings.thresholds, name) is None:
            continue
        yield from _comment(_number(name, why, settings.thresholds))
    if spec.waits_for_each_pod:
        waited = written_duration(spec.fire_after.seconds)
        yield from _comment(f"{waited} (in place of `for`, of each pod): {spec.fire_after.why}")
    yield "        expr: |-"
    yield from _expression(filled(spec.expression, settings, spec.fire_after.seconds))
    timings = [("for", spec.fire_after), ("keep_firing_for", spec.keep_firing_for)]
    for key, timing in timings[1:] if spec.waits_for_each_pod else timings:
        if timing.seconds:
            yield from _comment(f"{written_duration(timing.seconds)}: {timing.why}")
            yield f"        {key}: {written_duration(timing.seconds)}"
    yield "        labels:"
    yield f"          severity: {spec.severity}"
    for name, value in settings.labels.items():
        yield f"          {name}: {json.dumps(value, ensure_ascii=False)}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(spec.summary)}"
    yield "          description: >-"
    yield from _wrapped(f"{spec.description} {spec.remedy}", "            ")
    runbook = runbook_url(spec, settings.links)
    yield f"          runbook_url: {json.dumps(runbook, ensure_ascii=False)}"
    dashboard = dashboard_url(spec, settings.links, OF_LABELS)
    yield f"          dashboard_url: {json.dumps(dashboard, ensure_ascii=False)}"


def _recording_lines(spec: RecordingSpec, settings: RuleSettings) -> Iterator[str]:
    yield f"      - record: {spec.name}"
    if spec.why:
        yield from _comment(spec.why)
    yield "        expr: |-"
    yield from _expression(scoped(spec.expression, settings.scope))


def _number(name: str, why: str, thresholds: Thresholds) -> str:
    """Describe a number in an expression: what it is, who set it and why."""
    if re.fullmatch(r"[0-9]+[a-z]+", name):
        return f"{name}: {why}"
    value, default = getattr(thresholds, name), getattr(_DEFAULTS, name)
    shown = written_duration(value) if isinstance(value, float) else str(value)
    if value == default or default is None:
        return f"{shown} ({name}): {why}"
    usual = written_duration(default) if isinstance(default, float) else str(default)
    return f"{shown} ({name}), set here; {usual} by default: {why}"


def _comment(text: str) -> Iterator[str]:
    return _wrapped(text, "        # ")


def _wrapped(text: str, indent: str) -> Iterator[str]:
    """Break lines at blanks only, where YAML folds them together again."""
    lines = wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    return (f"{indent}{line}" for line in lines)


def _expression(text: str) -> Iterator[str]:
    return (f"          {line}" for line in text.splitlines())
