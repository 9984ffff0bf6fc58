"""Recording rules: efficiency, waste and churn by client, service and fleet.

Each is a ratio of two sums, never a mean of ratios; the sums are recorded too, so that anybody can
add them up further. The longer windows add up the five-minute rates of both sides: a day costs a
few samples, and a pod that lived for an hour counts for an hour.
"""

from __future__ import annotations

__all__ = ["recording_rules"]

from typing import TYPE_CHECKING

from exporter.alerts.spec import RecordingSpec
from exporter.alerts.words import CLIENT
from exporter.model import WASTED_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_SECONDS = "kafka_client_connection_seconds"
_KNOWN = "kafka_client_connection_known_seconds"
_USEFUL = "kafka_client_connection_useful_seconds"
_WASTED = "kafka_client_connection_wasted_seconds"
_OPENED = "kafka_client_connections_opened"

# decisions/0006: clients beyond the limit and clients that are gone.
_LIVE = 'client_kind!="other"'

# What a sum is made of: its counter and what is chosen of it.
_SUMS = {
    _SECONDS: (
        f"{_SECONDS}_total",
        "{" + _LIVE + "}",
        "Without `other`, which jumps by a client's whole past when that client is gone.",
    ),
    _KNOWN: (
        f"{_SECONDS}_total",
        '{client_id!="",' + _LIVE + ',class!="unknown"}',
        "Of clients whose own metrics are known: unknown is neither useful nor waste.",
    ),
    _USEFUL: (f"{_USEFUL}_total", '{client_id!="",' + _LIVE + "}", ""),
    _WASTED: (
        f"{_SECONDS}_total",
        f'{{{_LIVE},class=~"{"|".join(WASTED_CLASSES)}"}}',
        "Classes without a second have no series: 0 then, so that no waste is 0 and not nothing.",
    ),
    _OPENED: (
        f"{_OPENED}_total",
        "{" + _LIVE + "}",
        "Probes and attempts that failed are openings as well.",
    ),
}

_RATIOS = {
    "kafka_client_connection_efficiency": (_USEFUL, _KNOWN, ""),
    "kafka_client_connection_waste": (_WASTED, _SECONDS, ""),
    "kafka_client_connection_churn": (
        _OPENED,
        _SECONDS,
        "Openings by connection-second; one divided by it is how long a connection lives.",
    ),
}

WINDOWS = ("5m", "1h", "1d")


def recording_rules(
    service_labels: Sequence[str], fleet_labels: Sequence[str]
) -> Iterator[RecordingSpec]:
    """Yield the rules of each level, sums before the ratios that need them."""
    yield from _level("client", (*service_labels, *CLIENT), "")
    yield from _level("service", service_labels, "client")
    yield from _level("fleet", fleet_labels, "client")


def _level(level: str, labels: Sequence[str], below: str) -> Iterator[RecordingSpec]:
    by = ", ".join(labels)
    for name, (counter, selector, why) in _SUMS.items():
        if below:
            expression = f"sum by ({by}) ({below}:{name}:rate5m)"
        else:
            expression = f"sum by ({by}) (rate({counter}{selector}[5m]))"
            if name == _WASTED:
                expression += f"\nor\n0 * {level}:{_SECONDS}:rate5m"
        yield _rule(level, f"{level}:{name}:rate5m", expression, "" if below else why)
    for name, (part, whole, why) in _RATIOS.items():
        for window in WINDOWS:
            yield _rule(
                level,
                f"{level}:{name}:ratio_rate{window}",
                _ratio(f"{level}:{part}:rate5m", f"{level}:{whole}:rate5m", window),
                why if not below and window == WINDOWS[0] else "",
            )


def _ratio(part: str, whole: str, window: str) -> str:
    if window == WINDOWS[0]:
        return f"{part}\n/\n({whole} > 0)"
    return f"sum_over_time({part}[{window}])\n/\n(sum_over_time({whole}[{window}]) > 0)"


def _rule(level: str, name: str, expression: str, why: str) -> RecordingSpec:
    return RecordingSpec(group=f"brokerwire.{level}", name=name, expression=expression, why=why)
