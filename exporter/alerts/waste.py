"""Alerts on wasted connections."""

from __future__ import annotations

__all__ = ["WASTE"]

from exporter.alerts.spec import AlertSpec, Timing
from exporter.alerts.words import (
    BROKER,
    CLIENT,
    CLIENT_BROKER,
    COUNT,
    GAP,
    HELD,
    KNOWN,
    MORE_THAN_A_SCRAPE,
    OF_KNOWN,
    PROCESS,
    PROCESS_ONLY,
    WHO,
    found_by_agent,
    held,
)
from exporter.model import ConnectionClass
from exporter.snapshot import Severity

_GROUP = "brokerwire.waste"
_DASHBOARD = "brokerwire-clients"
# Useful connections, and all whose use is known, of each client.
_USEFUL = f"""\
  rate(kafka_client_connection_useful_seconds_total{{{OF_KNOWN}}}[$efficiency_window])"""
_KNOWN = f"""\
  sum without (class) (
    rate(kafka_client_connection_seconds_total{{{KNOWN}}}[$efficiency_window])
  )"""


def _by_process(series: str, *more: str) -> str:
    """Return the sum over all clients of a process; `more` are further labels of the series."""
    summed = [label for label in CLIENT_BROKER if label not in PROCESS_ONLY]
    return f"sum without ({', '.join((*summed, *more))}) (\n  last_over_time({series}[$gap])\n)"


_UNUSED = _by_process("kafka_client_connections_unused")
_ESTABLISHED = _by_process(f"kafka_client_connections{{{HELD}}}", "class")
_ONE = "the class is given with evidence only: one is real"

WASTE = (
    AlertSpec(
        name="KafkaClientZombieConnections",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=held("zombie", "zombie_connections"),
        reasons={"zombie_connections": _ONE, "gap": GAP},
        fire_after=Timing(
            300.0,
            f"{MORE_THAN_A_SCRAPE}; the class has waited for ten silent minutes already"
            " (classes.zombie_after)",
        ),
        keep_firing_for=Timing(
            900.0, "an agent that restarts needs its ten minutes to call it a zombie again"
        ),
        labels=CLIENT_BROKER,
        summary="Zombie connections: unused, and nothing closes them",
        description=f"{WHO} holds {COUNT} zombie connections to {BROKER}.",
        remedy="Set connections.max.idle.ms below the broker's (Java's default is 540000); list one"
        " or two servers in bootstrap.servers; librdkafka: use 2.10 or later.",
        dashboard=_DASHBOARD,
        connection_class=ConnectionClass.ZOMBIE,
        least="zombie_connections",
    ),
    AlertSpec(
        name="KafkaClientIdleClosingOff",
        group=_GROUP,
        severity=Severity.INFO,
        expression=found_by_agent("KafkaClientIdleClosingOff"),
        reasons={"gap": GAP},
        fire_after=Timing(
            600.0, "it is a setting: it does not change by itself, and a test run is shorter"
        ),
        keep_firing_for=Timing(
            900.0, "a client's restart with the same setting is not an end of it"
        ),
        labels=CLIENT,
        summary="Idle timeout disabled (connections.max.idle.ms=-1)",
        description=f"{WHO} holds {COUNT} connections and never closes an idle one.",
        remedy="Remove connections.max.idle.ms=-1 from the client's configuration.",
        dashboard=_DASHBOARD,
        reads_findings=True,
    ),
    AlertSpec(
        name="KafkaClientExcessConnections",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=f"""\
{_by_process('kafka_client_connections{class="excess"}', "class")} >= $excess_connections""",
        reasons={
            "excess_connections": "only connections of whole clients that are too many are of this"
            " class: one is real",
            "gap": GAP,
        },
        fire_after=Timing(
            600.0,
            "in a rolling deployment an old and a new client overlap for some minutes at most",
        ),
        keep_firing_for=Timing(
            600.0, "an agent that restarts needs a few reads of the client's metrics to be sure"
        ),
        labels=PROCESS_ONLY,
        summary="More clients and connections than this process needs",
        description=f"{PROCESS} holds {COUNT} connections of clients that it does not need.",
        remedy="Share one producer per process (it is thread-safe), close clients that are no"
        " longer used, and give each client its own client.id so that its metrics are visible.",
        dashboard=_DASHBOARD,
        connection_class=ConnectionClass.EXCESS,
        least="excess_connections",
    ),
    AlertSpec(
        name="KafkaClientUnusedConnections",
        group=_GROUP,
        severity=Severity.INFO,
        expression=f"""\
({_UNUSED} >= $unused_connections)
>=
{_ESTABLISHED} * $unused_percent / 100""",
        reasons={
            "unused_connections": "a Java client from 2.3 on has one or two, the bootstrap"
            " connections that it replaced",
            "unused_percent": "a client that uses two brokers or more has more connections in use"
            " than bootstrap connections",
            "gap": GAP,
        },
        fire_after=Timing(
            900.0,
            "a Java client closes what it does not use after nine minutes"
            " (connections.max.idle.ms), an idle one a little later",
        ),
        keep_firing_for=Timing(900.0, "what was closed may be opened again by the next client"),
        labels=PROCESS_ONLY,
        summary="Connections unused since they were opened",
        description=f"{PROCESS} holds {COUNT} connections that have carried nothing since the"
        " seconds of their opening.",
        remedy="List one or two servers in bootstrap.servers, keep connections.max.idle.ms enabled,"
        " and share one client per process: each opens bootstrap connections of its own.",
        dashboard=_DASHBOARD,
        least="unused_connections",
    ),
    AlertSpec(
        name="KafkaClientHalfClosedConnections",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=held("half_closed", "half_closed_connections"),
        reasons={
            "half_closed_connections": "a client that polls follows the broker's close within half"
            " a second (measured)",
            "gap": GAP,
        },
        fire_after=Timing(
            600.0,
            "twice max.poll.interval.ms (5 minutes): an application may process one batch for that"
            " long, and all are gone with its next poll",
        ),
        keep_firing_for=Timing(300.0, "poll, pause, poll again is one trouble and not three"),
        labels=CLIENT_BROKER,
        summary="Half-closed connections (CLOSE_WAIT)",
        description=f"{WHO} holds {COUNT} connections that {BROKER} has closed.",
        remedy="Keep calling poll(), or close the client: a consumer that does not poll does not"
        " notice that the broker closed. Look for an application thread that is stuck or paused.",
        dashboard=_DASHBOARD,
        connection_class=ConnectionClass.HALF_CLOSED,
        least="half_closed_connections",
    ),
    AlertSpec(
        name="KafkaClientGhostDescriptors",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=held("ghost", "ghost_descriptors"),
        reasons={"ghost_descriptors": _ONE, "gap": GAP},
        fire_after=Timing(
            600.0,
            "a client that meets the error closes the descriptor at once, and a finaliser with the"
            " next garbage collections",
        ),
        keep_firing_for=Timing(
            900.0, "a leak ends with the process only; its restart shows within a few polls"
        ),
        labels=CLIENT_BROKER,
        summary="Leaked descriptors of dead sockets (not shown by ss or netstat)",
        description=f"{WHO} holds {COUNT} descriptors whose sockets to {BROKER} are gone.",
        remedy="Find the code that does not close a connection after an error (update the client"
        " library first); restart the process to free the descriptors.",
        dashboard=_DASHBOARD,
        connection_class=ConnectionClass.GHOST,
        least="ghost_descriptors",
    ),
    AlertSpec(
        name="KafkaClientNearDescriptorLimit",
        group=_GROUP,
        severity=Severity.WARNING,
        expression="""\
100
* last_over_time(kafka_client_process_open_fds[$gap])
/ last_over_time(kafka_client_process_max_fds[$gap])
>= $descriptor_percent""",
        reasons={
            "descriptor_percent": "a fifth of the usual 1024 is room for what a client opens again"
            " when all its brokers have restarted",
            "gap": GAP,
        },
        fire_after=Timing(300.0, f"{MORE_THAN_A_SCRAPE}; a burst of files or requests is shorter"),
        keep_firing_for=Timing(
            600.0, "garbage collection frees some of what leaked, and it comes back"
        ),
        labels=PROCESS_ONLY,
        summary="Process is close to its open file limit",
        description=f"{{{{ $labels.process }}}} uses {COUNT}% of its file descriptors: at the limit"
        " no connection can be opened.",
        remedy="Find what holds them (ls -l /proc/PID/fd): connections of class ghost, excess or"
        " half_closed, a client per request, files; then increase the limit (ulimit -n,"
        " LimitNOFILE).",
        dashboard=_DASHBOARD,
        least="descriptor_percent",
        counts_connections=False,
    ),
    AlertSpec(
        name="KafkaClientLowEfficiency",
        group=_GROUP,
        severity=Severity.INFO,
        expression=f"""\
100 *
{_USEFUL}
/
  (
{_KNOWN}
  > 0)
< $efficiency_percent
and
{_KNOWN}
  -
{_USEFUL}
>= $wasted_connections""",
        reasons={
            "efficiency_percent": "a client with three brokers and two bootstrap connections is at"
            " 60 % in its first nine minutes and at 100 % from then on",
            "wasted_connections": "one connection wasted all the time: what a short job leaves"
            " behind stays far below",
            "efficiency_window": "six times the nine minutes for which a bootstrap connection may"
            " stay",
        },
        fire_after=Timing(1800.0, "a morning's deployment moves the hour's ratio for so long"),
        keep_firing_for=Timing(1800.0, "an hour's ratio crosses a line slowly, and back"),
        labels=CLIENT,
        summary="Low connection efficiency",
        description=f"{WHO} recently used {COUNT}% of its connection-seconds.",
        remedy="Check which class the other connections have (zombie, excess, half_closed,"
        " bootstrap) and follow the runbook of that class.",
        dashboard=_DASHBOARD,
        least="wasted_connections",
    ),
)
