"""Alerts on connections that come and go for no good."""

from __future__ import annotations

__all__ = ["CHURN"]

from exporter.alerts.spec import AlertSpec, Timing
from exporter.alerts.words import BROKER, CLIENT_BROKER, COUNT, GAP, WHO, told
from exporter.snapshot import Severity

_GROUP = "brokerwire.churn"
_DASHBOARD = "brokerwire-clients"

CHURN = (
    AlertSpec(
        name="KafkaClientConnectionChurn",
        group=_GROUP,
        severity=Severity.INFO,
        expression=told("KafkaClientConnectionChurn", ">= $churn_connections"),
        reasons={
            "churn_connections": "four of a kind make a pattern; the agent tells of no fewer",
            "gap": GAP,
        },
        fire_after=Timing(900.0, "three metadata refreshes; a deployment is over by then"),
        keep_firing_for=Timing(
            900.0, "a pattern of one in five minutes (metadata.max.age.ms) misses three times"
        ),
        labels=(*CLIENT_BROKER, "cause"),
        summary="Connections come and go",
        description=f"{COUNT} connections "
        "{{ if $labels.broker }}to " + BROKER + "{{ else }}of " + WHO + "{{ end }}"
        " came and went in the last 25 minutes; the likely cause: {{ $labels.cause }}.",
        remedy="metadata refresh: set metadata.max.age.ms below connections.max.idle.ms. broker"
        " idle limit: keep the broker's connections.max.idle.ms above the client's. client per"
        " request: share one client per process. probe: probe less often, or keep an AdminClient"
        " open.",
        dashboard=_DASHBOARD,
    ),
    AlertSpec(
        name="KafkaClientManyInstances",
        group=_GROUP,
        severity=Severity.INFO,
        expression=told("KafkaClientManyInstances"),
        reasons={"gap": GAP},
        fire_after=Timing(900.0, "a burst of short jobs in one process is over by then"),
        keep_firing_for=Timing(900.0, "their number goes up and down with the load"),
        labels=("client_kind", "process"),
        summary="Many clients in one process, each with connections of its own",
        description="{{ $labels.process }} runs many clients of kind {{ $labels.client_kind }},"
        f" which hold {COUNT} connections.",
        remedy="Share one producer: it is thread-safe and batches better; consumers need one each.",
        dashboard=_DASHBOARD,
    ),
)
