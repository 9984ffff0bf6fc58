"""Fills thresholds and scope into PromQL expressions."""

from __future__ import annotations

__all__ = ["filled", "scoped"]

import re
from dataclasses import fields
from math import ceil
from string import Template
from typing import TYPE_CHECKING

from exporter.text import written_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.alerts.settings import RuleSettings

# The series that rules read. Recorded ones have a colon: their scope is in what they are made of.
_SELECTOR = re.compile(
    r"(?<![\w:\"])(?P<name>(?:kafka_client|brokerwire)_\w+|up)(?![\w:(])(?:\{(?P<matchers>[^}]*)\})?"
)
_MINUTE = 60.0
_MOST_STEPS = 60
_TARGET = ("job", "instance")


def scoped(expression: str, scope: Sequence[str]) -> str:
    """Put label matchers into every selector of an expression."""
    if not scope:
        return expression

    def with_scope(match: re.Match[str]) -> str:
        matchers = [match["matchers"]] if match["matchers"] else []
        return f"{match['name']}{{{','.join([*matchers, *scope])}}}"

    return _SELECTOR.sub(with_scope, expression)


def _steps(seconds: float) -> dict[str, str]:
    """Return the points at which something must be true to have been so for some time.

    A step is a minute, as the usual interval of rules and scrapes; more where there would be too
    many of them, and a fifth of a time that is shorter than a minute.
    """
    if seconds < 1.0:
        return {"watched": "1s", "step": "1s", "steps": "1"}
    count = min(ceil(seconds / _MINUTE), _MOST_STEPS) if seconds >= _MINUTE else 5
    step = ceil(1000.0 * seconds / count) / 1000.0
    return {
        "watched": written_duration((count + 1) * step),
        "step": written_duration(step),
        "steps": str(count + 1),
    }


def filled(expression: str, settings: RuleSettings, fire_after: float = 0.0) -> str:
    """Put thresholds, scope and the scrape's labels into an expression.

    A duration stands as `3m` under its own name and as a number under its name with `_seconds`.
    An expression may itself wait for `fire_after`: `$steps` points of `$watched`, each a `$step`
    after the other.
    """
    values: dict[str, str] = {
        "fleet": ", ".join(settings.fleet_labels),
        "target": ", ".join(dict.fromkeys((*settings.service_labels, *_TARGET))),
    }
    values.update(_steps(fire_after))
    for each in fields(settings.thresholds):
        value = getattr(settings.thresholds, each.name)
        if isinstance(value, float):
            values[each.name] = written_duration(value)
            values[f"{each.name}_seconds"] = f"{value:g}"
        elif value is not None:
            values[each.name] = str(value)
    # Scope last: a matcher may hold a dollar sign.
    return scoped(Template(expression).substitute(values), settings.scope)
