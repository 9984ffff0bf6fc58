"""PromQL with an operator's numbers and scope put in."""

from __future__ import annotations

__all__ = ["duration_text", "filled", "scoped"]

import re
from dataclasses import fields
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.alerts.settings import RuleSettings

# The series that rules read. Recorded ones have a colon: their scope is in what they are made of.
_SELECTOR = re.compile(
    r"(?<![\w:\"])(?P<name>(?:kafka_client|brokerwire)_\w+|up)(?![\w:(])(?:\{(?P<matchers>[^}]*)\})?"
)
_TARGET = ("job", "instance")
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


def duration_text(seconds: float) -> str:
    """Return a duration as Prometheus writes it, in the greatest unit that it is whole in."""
    milliseconds = round(seconds * 1000)
    size, unit = next(each for each in _UNITS if milliseconds % each[0] == 0)
    return f"{milliseconds // size}{unit}"


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
            values[each.name] = duration_text(value)
            values[f"{each.name}_seconds"] = f"{value:g}"
        elif value is not None:
            values[each.name] = str(value)
    # Scope last: a matcher may hold a dollar sign.
    return scoped(Template(expression).substitute(values), settings.scope)
