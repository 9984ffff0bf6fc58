"""PromQL with Grafana's variables in it, of nothing but what the catalogue has."""

from __future__ import annotations

__all__ = [
    "LIVE",
    "NOT_NEEDED",
    "OF_AGENT",
    "OF_BROKER",
    "OF_CLIENT",
    "OF_CLUSTER",
    "OF_FINDING",
    "OF_PAIR",
    "OF_PROCESS",
    "TARGET_LABELS",
    "WASTED",
    "WASTED_AT_BROKER",
    "Query",
    "or_none",
    "ratio",
    "series",
]

from dataclasses import dataclass

from exporter.metrics.catalogue import SPECS, Kind
from exporter.model import NOT_AT_BROKER, WASTED_CLASSES
from spark_rollups.report.openmetrics import METRICS

TARGET_LABELS = ("cluster", "namespace", "job", "pod", "instance")
"""What the scrape adds; which of them there are depends on how it is set up."""

# Each scope names the variables that narrow it down; a variable has the name of its label.
_SERVICE = ("cluster", "namespace", "job", "pod")
OF_CLIENT = (*_SERVICE, "process", "client_id")
OF_PAIR = (*OF_CLIENT, "broker")
OF_PROCESS = (*_SERVICE, "process")
# A finding about a client as a whole has no broker.
OF_FINDING = (*OF_CLIENT, "broker|")
OF_BROKER = ("cluster", "namespace", "job", "broker")
# A broker's limit is used up by the clients of all namespaces together.
OF_CLUSTER = ("cluster", "broker")
OF_AGENT = ("cluster", "namespace", "job", "instance")

WASTED = f'class=~"{"|".join(WASTED_CLASSES)}"'
WASTED_AT_BROKER = (
    f'class=~"{"|".join(each for each in WASTED_CLASSES if each not in NOT_AT_BROKER)}"'
)
NOT_NEEDED = f'class=~"{"|".join((*WASTED_CLASSES, "bootstrap"))}"'
# decisions/0006: `other` jumps by a client's whole past when that client is gone.
LIVE = 'client_kind!="other"'

_OF_FLEET = {metric.name: metric.labels for metric in METRICS}
_PARTS = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel; `legend` names its series, in Grafana's template language."""

    expression: str
    legend: str = ""


def series(name: str, scope: tuple[str, ...] = (), *matchers: str) -> str:
    """Return a selector of one metric, narrowed down by the variables of a scope.

    `broker|` in a scope is the variable `broker`, or no broker at all.

    Raises:
        ValueError: the catalogue has no such metric, or the metric no such label.
    """
    missing = {label.rstrip("|") for label in scope} - {*_labels_of(name), *TARGET_LABELS}
    if missing:
        raise ValueError(f"{name} has no label {', '.join(sorted(missing))}")
    narrowed = [f'{label.rstrip("|")}=~"${label}"' for label in scope]
    return f"{name}{{{','.join([*narrowed, *matchers])}}}"


def _labels_of(name: str) -> tuple[str, ...]:
    if name in _OF_FLEET:
        return _OF_FLEET[name]
    spec = SPECS.get(name) or SPECS.get(name.rpartition("_")[0])
    if spec is None or name not in {spec.name, *(spec.name + p for p in _PARTS.get(spec.kind, ()))}:
        raise ValueError(f"the catalogue has no {name}")
    return spec.labels


def ratio(part: str, whole: str, *, by: str = "") -> str:
    """Return a percentage of two sums; where there is no whole there is no answer, not 0."""
    grouped = f" by ({by})" if by else ""
    return f"100 * sum{grouped} ({part})\n/\n(sum{grouped} ({whole}) > 0)"


def or_none(part: str, whole: str, *, by: str = "") -> str:
    """Return a sum that is 0 where there is a whole and no part: a class that never was."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} ({part})\nor\n0 * sum{grouped} ({whole})"
