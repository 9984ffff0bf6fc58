"""Alerts on brokerwire itself."""

from __future__ import annotations

__all__ = ["AGENT"]

from exporter.alerts.spec import AlertSpec, Timing
from exporter.alerts.words import GAP
from exporter.snapshot import Severity

_GROUP = "brokerwire.agent"
_DASHBOARD = "brokerwire-agent"

AGENT = (
    AlertSpec(
        name="BrokerwireAgentDown",
        group=_GROUP,
        severity=Severity.WARNING,
        expression="""\
up == 0
and on ($target)
group by ($target) (last_over_time(brokerwire_build_info[1d]))""",
        reasons={
            "1d": "which targets are agents is known from what they said of themselves within a"
            " day, not from the name of a job",
        },
        fire_after=Timing(300.0, "a pod that restarts or moves is back within five minutes"),
        keep_firing_for=Timing(300.0, "an agent in a crash loop is up now and then"),
        counts_connections=False,
        labels=(),
        summary="Agent is down",
        description="{{ $labels.job }} at {{ $labels.instance }} does not answer"
        " (up is {{ $value }}).",
        remedy="Check the container's state and log, and run brokerwire config check on its file.",
        dashboard=_DASHBOARD,
    ),
    AlertSpec(
        name="BrokerwireSourceDown",
        group=_GROUP,
        severity=Severity.WARNING,
        expression="""\
last_over_time(brokerwire_source_errors_total[$gap]) > 0
and
last_over_time(brokerwire_source_up[$gap]) == 0""",
        reasons={"gap": GAP},
        fire_after=Timing(
            300.0, "a client that restarts serves its metrics again within that time"
        ),
        keep_firing_for=Timing(300.0, "a source that fails now and then is one trouble"),
        labels=("source", "kind"),
        summary="Source cannot be read",
        description="{{ $labels.source }} ({{ $labels.kind }}) cannot be read;"
        ' {{ printf "%.0f" $value }} reads have failed since the agent started.',
        remedy="Follow the error message on the agent's page or in its log. Until then connections"
        " are classified without this source.",
        counts_connections=False,
        dashboard=_DASHBOARD,
    ),
    AlertSpec(
        name="BrokerwirePollTooOld",
        group=_GROUP,
        severity=Severity.WARNING,
        expression="""\
time() - max_over_time(brokerwire_last_poll_timestamp_seconds[$gap]) > $poll_age_seconds""",
        reasons={
            "poll_age": "polls come every second; longer than `gap`, so that missed scrapes do not"
            " look like an old poll",
            "gap": GAP,
        },
        fire_after=Timing(60.0, "the age itself has waited for five minutes"),
        keep_firing_for=Timing(300.0, "a poll that gets through now and then is no recovery"),
        labels=(),
        summary="Agent data is stale",
        description="{{ $labels.instance }} last read the socket table"
        " {{ $value | humanizeDuration }} ago.",
        remedy="Check the agent's log (permission denied, no sock_diag in the kernel, no CPU time)"
        " and the clocks of the agent and of Prometheus.",
        counts_connections=False,
        dashboard=_DASHBOARD,
    ),
)
