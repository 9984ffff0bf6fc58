"""Alerts on connections that cost something and serve nobody."""

from __future__ import annotations

__all__ = ["WASTE"]

from exporter.alerts.spec import AlertSpec, Timing
from exporter.alerts.words import (
    BROKER,
    CLIENT,
    CLIENT_BROKER,
    COUNT,
    GAP,
    KNOWN,
    MORE_THAN_A_SCRAPE,
    OF_KNOWN,
    WHO,
    held,
    told,
)
from exporter.snapshot import Severity

_GROUP = "brokerwire.waste"
_DASHBOARD = "brokerwire-clients"
# Connections that were of use, and all those of which it is known, of each client.
_USEFUL = f"""\
  rate(kafka_client_connection_useful_seconds_total{{{OF_KNOWN}}}[$efficiency_window])"""
_KNOWN = f"""\
  sum without (class) (
    rate(kafka_client_connection_seconds_total{{{KNOWN}}}[$efficiency_window])
  )"""
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
        summary="Connections that nothing will use or close any more",
        description=f"{WHO} holds {COUNT} zombie connections to {BROKER}.",
        remedy="Set connections.max.idle.ms below the broker's (Java's default is 540000); list one"
        " or two servers in bootstrap.servers; librdkafka: use 2.10 or later.",
        dashboard=_DASHBOARD,
    ),
    AlertSpec(
        name="KafkaClientIdleClosingOff",
        group=_GROUP,
        severity=Severity.INFO,
        expression=told("KafkaClientIdleClosingOff"),
        reasons={"gap": GAP},
        fire_after=Timing(
            600.0, "it is a setting: it does not change by itself, and a test run is over by then"
        ),
        keep_firing_for=Timing(
            900.0, "a client's restart with the same setting is not an end of it"
        ),
        labels=CLIENT,
        summary="Idle closing is off: zombies will come",
        description=f"{WHO} never closes an idle connection by itself and holds {COUNT}.",
        remedy="Remove connections.max.idle.ms=-1 from the client's configuration.",
        dashboard=_DASHBOARD,
    ),
    AlertSpec(
        name="KafkaClientExcessConnections",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=held("excess", "excess_connections"),
        reasons={
            "excess_connections": "expected connections are counted by the rules of the library,"
            " and what needs more by design is never of this class",
            "gap": GAP,
        },
        fire_after=Timing(
            600.0,
            "in a rolling deployment an old and a new client overlap for some minutes at most",
        ),
        keep_firing_for=Timing(
            600.0, "an agent that restarts needs a few reads of the client's metrics to be sure"
        ),
        labels=CLIENT_BROKER,
        summary="More connections than this client needs",
        description=f"{WHO} holds {COUNT} connections to {BROKER} beyond what it needs.",
        remedy="Share one producer per process (it is thread-safe), close clients that are done,"
        " and give every client a client.id of its own so that its metrics show.",
        dashboard=_DASHBOARD,
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
            "twice max.poll.interval.ms (5 minutes): an application may work on one batch so long"
            " before it polls again and all are gone",
        ),
        keep_firing_for=Timing(300.0, "poll, pause, poll again is one trouble and not three"),
        labels=CLIENT_BROKER,
        summary="The broker has closed, the client has not",
        description=f"{WHO} holds {COUNT} connections that {BROKER} has closed.",
        remedy="Keep calling poll(), or close the client: a consumer that does not poll never sees"
        " the broker's close. Look for an application thread that is stuck or paused.",
        dashboard=_DASHBOARD,
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
        summary="Open descriptors whose sockets are dead: ss and netstat do not show them",
        description=f"{WHO} holds {COUNT} descriptors whose sockets to {BROKER} are gone.",
        remedy="Find the code that keeps a connection after an error without closing it (update the"
        " client library first); restart the process to free the descriptors.",
        dashboard=_DASHBOARD,
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
            "descriptor_percent": "a fifth of the usual 1024 is room for what a client opens anew"
            " when all its brokers have restarted, and for time to look",
            "gap": GAP,
        },
        fire_after=Timing(
            300.0, f"{MORE_THAN_A_SCRAPE}; a burst of files or requests is over by then"
        ),
        keep_firing_for=Timing(
            600.0, "garbage collection frees some of what leaked, and it comes back"
        ),
        labels=("process",),
        summary="A client's process has nearly used up its limit of open files",
        description=f"{{{{ $labels.process }}}} has opened {COUNT} % of the descriptors that it may"
        " have: beyond the limit no connection opens.",
        remedy="Find what holds them (ls -l /proc/PID/fd): connections of class ghost, excess or"
        " half_closed, a client for each request, files; then raise the limit (ulimit -n,"
        " LimitNOFILE).",
        dashboard=_DASHBOARD,
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
        summary="A client uses less than half of what its connections cost",
        description=f"{WHO} had use for {COUNT} % of its connection-seconds of late.",
        remedy="See which class the others are (zombie, excess, half_closed, bootstrap) and follow"
        " that one's runbook.",
        dashboard=_DASHBOARD,
    ),
)
