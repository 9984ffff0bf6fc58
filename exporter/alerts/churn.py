"""Alerts on high connection churn and on too many clients."""

from __future__ import annotations

__all__ = [
    "BROKER_IDLE",
    "CAUSES",
    "CHURN",
    "METADATA",
    "PER_REQUEST",
    "PROBE",
    "UNCLEAR",
    "ChurnCause",
]

from typing import NamedTuple

from exporter.alerts.spec import AlertSpec, Timing
from exporter.alerts.words import BROKER, CLIENT_BROKER, COUNT, GAP, PROCESS, WHO, found_by_agent
from exporter.snapshot import Severity

_GROUP = "brokerwire.churn"
_DASHBOARD = "brokerwire-clients"


class ChurnCause(NamedTuple):
    """Why connections are opened and closed again and again.

    `name` is the value of the label `cause`; in `text` stands `{life}`, how long they live.
    """

    name: str
    text: str
    remedy: str


METADATA = ChurnCause(
    "metadata refresh",
    "the client closes them after {life} without use, and its next metadata refresh opens another",
    "set metadata.max.age.ms below connections.max.idle.ms: the refresh keeps one connection open.",
)
BROKER_IDLE = ChurnCause(
    "broker idle limit",
    "the broker closes them after {life} and the client connects again",
    "keep the broker's connections.max.idle.ms (10 minutes by default) above the client's (9).",
)
PER_REQUEST = ChurnCause(
    "client per request",
    "clients closed within {life}: probably one client per request or job",
    "create one client per process and share it: each new one connects and authenticates again.",
)
PROBE = ChurnCause(
    "probe",
    "connections without any Kafka request: a TCP health probe",
    "probe less often, or use an AdminClient that stays open: each connection counts against the"
    " broker's max.connection.creation.rate.",
)
UNCLEAR = ChurnCause(
    "unclear",
    "clients that are created again and again, or idle timeouts shorter than the metadata refresh;"
    " they live {life}",
    "configure the client's metrics endpoint to identify the cause; share one client per process,"
    " and set metadata.max.age.ms below connections.max.idle.ms.",
)
CAUSES = (METADATA, BROKER_IDLE, PER_REQUEST, PROBE, UNCLEAR)

CHURN = (
    AlertSpec(
        name="KafkaClientConnectionChurn",
        group=_GROUP,
        severity=Severity.INFO,
        expression=found_by_agent("KafkaClientConnectionChurn", ">= $churn_connections"),
        reasons={
            "churn_connections": "four of a kind make a pattern; the agent reports no fewer",
            "gap": GAP,
        },
        fire_after=Timing(900.0, "three metadata refreshes; a deployment takes less"),
        keep_firing_for=Timing(
            900.0, "a pattern of one in five minutes (metadata.max.age.ms) misses three times"
        ),
        labels=(*CLIENT_BROKER, "cause"),
        summary="High connection churn",
        description=f"{COUNT} connections "
        "{{ if $labels.broker }}to " + BROKER + "{{ else }}of " + WHO + "{{ end }}"
        " were opened and closed in the last 25 minutes; likely cause: {{ $labels.cause }}.",
        remedy="By cause: " + " ".join(f"{cause.name}: {cause.remedy}" for cause in CAUSES),
        dashboard=_DASHBOARD,
        least="churn_connections",
        reads_findings=True,
    ),
    AlertSpec(
        name="KafkaClientManyInstances",
        group=_GROUP,
        severity=Severity.INFO,
        expression=found_by_agent("KafkaClientManyInstances"),
        reasons={"gap": GAP},
        fire_after=Timing(900.0, "a burst of short jobs in one process takes less"),
        keep_firing_for=Timing(900.0, "their number goes up and down with the load"),
        labels=("client_kind", "process"),
        summary="Many client instances in one process",
        description=PROCESS + " runs many clients"
        '{{ if ne $labels.client_kind "unknown" }} of kind {{ $labels.client_kind }}{{ end }},'
        f" which hold {COUNT} connections.",
        remedy="Share one producer per process: it is thread-safe and batches better. Consumers"
        " need one per thread.",
        dashboard=_DASHBOARD,
        reads_findings=True,
    ),
)
