"""Fills thresholds and scope into PromQL expressions."""

from __future__ import annotations

__all__ = ["filled", "scoped"]

import re
from dataclasses import fields
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
_TARGET = ("job", "instance")


def scoped(expression: str, scope: Sequence[str]) -> str:
    """Put label matchers into every selector of an expression."""
    if not scope:
        return expression

    def with_scope(match: re.Match[str]) -> str:
        matchers = [match["matchers"]] if match["matchers"] else []
        return f"{match['name']}{{{','.join([*matchers, *scope])}}}"

    return _SELECTOR.sub(with_scope, expression)


def filled(expression: str, settings: RuleSettings) -> str:
    """Put thresholds, scope and the scrape's labels into an expression.

    A duration stands as `3m` under its own name and as a number under its name with `_seconds`.
    """
    values: dict[str, str] = {
        "fleet": ", ".join(settings.fleet_labels),
        "target": ", ".join(dict.fromkeys((*settings.service_labels, *_TARGET))),
    }
    for each in fields(settings.thresholds):
        value = getattr(settings.thresholds, each.name)
        if isinstance(value, float):
            values[each.name] = written_duration(value)
            values[f"{each.name}_seconds"] = f"{value:g}"
        elif value is not None:
            values[each.name] = str(value)
    # Scope last: a matcher may hold a dollar sign.
    return scoped(Template(expression).substitute(values), settings.scope)
