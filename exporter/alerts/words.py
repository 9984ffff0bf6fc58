"""Common parts of the alerts' texts and expressions."""

from __future__ import annotations

__all__ = [
    "BROKER",
    "BROKER_ONLY",
    "CLIENT",
    "CLIENT_BROKER",
    "COUNT",
    "GAP",
    "HELD",
    "KNOWN",
    "MORE_THAN_A_SCRAPE",
    "OF_KNOWN",
    "PODS",
    "PROCESS",
    "PROCESS_ONLY",
    "WHO",
    "count_of_pods",
    "found_by_agent",
    "held",
]

from textwrap import indent

from exporter.model import NOT_AT_BROKER, UNDECIDED

CLIENT = ("client_id", "client_kind", "process")
CLIENT_BROKER = (*CLIENT, "broker_id", "broker")
BROKER_ONLY = ("broker",)
PROCESS_ONLY = ("process",)

# What a broker counts as its connections.
HELD = f'class!~"{"|".join(NOT_AT_BROKER)}"'
# Of clients whose own metrics are known; `other` jumps by a client's whole past when that client is
# gone (decisions/0006). Unknown is neither useful nor waste.
OF_KNOWN = 'client_kind!="other"'
KNOWN = f'{OF_KNOWN},class!~"{"|".join(UNDECIDED)}"'

# Templates of Prometheus: a label that is missing reads as "".
WHO = (
    "{{ if $labels.client_id }}{{ $labels.client_kind }} {{ $labels.client_id }} in {{ end }}"
    '{{ or $labels.process "unknown process" }}'
)
PROCESS = '{{ or $labels.process "unknown process" }}'
BROKER = (
    "{{ if $labels.broker_id }}broker {{ $labels.broker_id }} ({{ $labels.broker }})"
    "{{ else }}{{ $labels.broker }}{{ end }}"
)
PODS = '(pods or hosts affected: {{ printf "%.0f" $value }})'
COUNT = '{{ printf "%.0f" $value }}'

GAP = "two scrapes may fail at the usual minute between them, and the alert neither ends nor starts"
MORE_THAN_A_SCRAPE = "longer than `gap`, so that one odd scrape is never enough"


def held(connection_class: str, threshold: str) -> str:
    """Return the expression for connections of a class, by client and broker.

    The last value in the gap, not the greatest: a scrape that shows none ends it at once.
    """
    return (
        "sum without (class) (\n"
        f'  last_over_time(kafka_client_connections{{class="{connection_class}"}}[$gap])\n'
        f") >= ${threshold}"
    )


def count_of_pods(expression: str) -> str:
    """Return how many pods see what has its cause at a broker: one alert, however many they are.

    Each pod must have seen it for the whole of the alert's `for`. A `for` of the count itself would
    be filled by pods that see it for a minute each, as in a rolling deployment.
    """
    return (
        "count by ($fleet, broker) (\n"
        f"  count_over_time((\n{indent(expression, '    ')}\n  )[$watched:$step]) >= $steps\n"
        ")"
    )


def found_by_agent(alert: str, more: str = "> 0", *, without: str = "finding") -> str:
    """Return the expression for what the agent itself has found, by the labels of its finding.

    The sum drops the labels `without`: `finding` says no more than the alert's name.
    """
    return (
        f"sum without ({without}) (\n"
        f'  last_over_time(kafka_client_finding_connections{{finding="{alert}"}}[$gap])\n'
        f") {more}"
    )
