"""Alerts on unreachable brokers and on their connection limits."""

from __future__ import annotations

__all__ = ["BROKERS"]

from exporter.alerts.spec import AlertSpec, Timing
from exporter.alerts.words import (
    BROKER,
    BROKER_ONLY,
    CLIENT_BROKER,
    COUNT,
    GAP,
    HELD,
    MORE_THAN_A_SCRAPE,
    PODS,
    WHO,
    count_of_pods,
    found_by_agent,
    held,
)
from exporter.model import ConnectionClass
from exporter.snapshot import Severity

_GROUP = "brokerwire.brokers"
_DASHBOARD = "brokerwire-brokers"
_OF_ONE_BROKER = "client_id, client_kind, process, broker_id, class"
_OF_ONE_FINDING = "client_id, client_kind, process, broker_id, cause, finding"
_DROPPED = 'client_kind!="other",closed_by=~"broker|abort"'
_HELD = f"last_over_time(kafka_client_connections{{{HELD}}}[$gap])"
_HELD_BY_ALL = f"sum by ($fleet, broker) (\n  {_HELD}\n)"
_HELD_BY_ONE = f"sum without ({_OF_ONE_BROKER}) (\n  {_HELD}\n)"
_WINDOW = "five samples at the usual minute between scrapes"

BROKERS = (
    AlertSpec(
        name="KafkaClientStaleEndpoint",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=held("stale", "stale_connections"),
        reasons={
            "stale_connections": "a normal move closes every one: what is left is real (measured)",
            "gap": GAP,
        },
        fire_after=Timing(
            300.0,
            f"{MORE_THAN_A_SCRAPE}; request.timeout.ms (30 s) ends one whose old address is silent",
        ),
        keep_firing_for=Timing(600.0, "an agent that restarts has to learn the brokers again"),
        labels=CLIENT_BROKER,
        summary="Connections to an address that no longer belongs to the broker",
        description=f"{WHO} holds {COUNT} connections to {BROKER}, which has moved.",
        remedy="Reduce request.timeout.ms and metadata.max.age.ms, or restart the client; check"
        " that nothing answers on the old address.",
        dashboard=_DASHBOARD,
        connection_class=ConnectionClass.STALE,
        least="stale_connections",
    ),
    AlertSpec(
        name="KafkaClientBrokerUnreachable",
        group=_GROUP,
        severity=Severity.CRITICAL,
        expression=count_of_pods(f"""\
sum without ({_OF_ONE_BROKER}) (
  last_over_time(kafka_client_connections{{class="connecting"}}[$gap])
) >= $connecting_connections
or
(
  sum without ({_OF_ONE_BROKER}) (
    increase(kafka_client_connect_failures_total[$gap])
  ) >= $failed_connects
  unless
  sum without ({_OF_ONE_BROKER}) (
    kafka_client_connections{{class!~"connecting|half_closed|ghost|stale"}}
  ) > 0
)"""),
        reasons={
            "connecting_connections": "a TCP handshake takes milliseconds",
            "failed_connects": "a client that needs the broker tries every second (Java) or every"
            " ten (librdkafka); one that gave up stays below",
            "gap": GAP,
        },
        fire_after=Timing(
            480.0,
            "a broker may take five minutes to restart; the last failures count for three more",
        ),
        keep_firing_for=Timing(
            300.0, "a network that comes and goes is one outage until it has held for so long"
        ),
        labels=BROKER_ONLY,
        summary="Broker unreachable",
        description=f"{{{{ $labels.broker }}}} does not accept connections {PODS}: attempts are in"
        " progress or failed in the last minutes, none succeeded.",
        remedy="Check that the broker runs and listens on this address, that network policies and"
        " security groups allow its port, and that its advertised.listeners are reachable from the"
        " client.",
        dashboard=_DASHBOARD,
        connection_class=ConnectionClass.CONNECTING,
        least="connecting_connections",
    ),
    AlertSpec(
        name="KafkaClientFrozenPeer",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=count_of_pods(found_by_agent("KafkaClientFrozenPeer", without=_OF_ONE_FINDING)),
        reasons={"gap": GAP},
        fire_after=Timing(
            300.0,
            f"{MORE_THAN_A_SCRAPE}; garbage collection and live migration take less",
        ),
        keep_firing_for=Timing(
            600.0,
            "the client gives up after request.timeout.ms and connects again, which looks like"
            " health for 15 s each time",
        ),
        labels=BROKER_ONLY,
        summary="Broker not responding to requests",
        description=f"{{{{ $labels.broker }}}} does not answer requests {PODS}.",
        remedy="Check the broker's process: stopped, in a long garbage collection, or out of disk"
        " space. The client gives up after request.timeout.ms.",
        dashboard=_DASHBOARD,
        reads_findings=True,
    ),
    AlertSpec(
        name="KafkaClientReconnectStorm",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=f"""\
(
  sum by ($fleet, broker) (
    increase(
      kafka_client_connections_closed_total{{{_DROPPED}}}[$storm_window]
    )
  )
  > $storm_rounds
  * sum by ($fleet, broker) (
    max_over_time(kafka_client_connections{{{HELD}}}[$storm_window])
  )
)
>= $storm_connections""",
        reasons={
            "storm_rounds": "a restart costs every connection once, a second restart twice",
            "storm_connections": "fewer are no storm, whatever their ratio",
            "storm_window": _WINDOW,
        },
        fire_after=Timing(
            180.0, "the forty clients of a restarted broker were all back in 1.2 s (measured)"
        ),
        keep_firing_for=Timing(600.0, "storms come in waves, as far apart as the clients' backoff"),
        labels=BROKER_ONLY,
        summary="Reconnect storm: a broker keeps dropping its clients' connections",
        description=f"{{{{ $labels.broker }}}} ended {COUNT} connections within a few minutes,"
        " several times as many as it ever held.",
        remedy="Check the broker for a crash loop, max.connections or failing authentication."
        " Increase reconnect.backoff.max.ms of the clients so that it can recover.",
        dashboard=_DASHBOARD,
        least="storm_connections",
    ),
    AlertSpec(
        name="KafkaClientBrokerNearMaxConnections",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=f"""\
{_HELD_BY_ALL} >= min by ($fleet, broker) (
  last_over_time(kafka_client_broker_max_connections[$gap])
) * $near_limit_percent / 100""",
        reasons={
            "max_connections": "the brokers' own setting, in place of what the agents know",
            "near_limit_percent": "a broker that restarts hands its share to the others: with five"
            " of them each gets a quarter more",
            "gap": GAP,
        },
        fire_after=Timing(
            600.0, "in a rolling deployment old and new pods are counted together for some minutes"
        ),
        keep_firing_for=Timing(600.0, "a number of connections goes up and down with every job"),
        labels=BROKER_ONLY,
        summary="Broker is close to max.connections",
        description=f"The monitored clients hold {COUNT} connections to {{{{ $labels.broker }}}}.",
        remedy="Remove wasted connections first (classes zombie, excess, half_closed); then"
        " increase max.connections or add brokers.",
        dashboard=_DASHBOARD,
        least="near_limit_percent",
        counts_connections=False,
        given="max_connections",
        expression_if_given=f"{_HELD_BY_ALL} >= $max_connections * $near_limit_percent / 100",
    ),
    AlertSpec(
        name="KafkaClientNearMaxConnectionsPerIp",
        group=_GROUP,
        severity=Severity.WARNING,
        expression=f"""\
{_HELD_BY_ONE} >= (
  last_over_time(kafka_client_broker_max_connections_per_ip[$gap])
) * $near_limit_percent / 100""",
        reasons={
            "max_connections_per_ip": "the brokers' own setting, in place of what the agents know",
            "near_limit_percent": "room for one more client before the broker refuses",
            "gap": GAP,
        },
        fire_after=Timing(600.0, "old and new clients of one address overlap for some minutes"),
        keep_firing_for=Timing(600.0, "a number of connections goes up and down with every job"),
        labels=BROKER_ONLY,
        summary="Client address is close to max.connections.per.ip",
        description=f"One address holds {COUNT} connections to {{{{ $labels.broker }}}}.",
        remedy="Share clients within the process; then increase max.connections.per.ip, or"
        " max.connections.per.ip.overrides for this address.",
        dashboard=_DASHBOARD,
        least="near_limit_percent",
        counts_connections=False,
        given="max_connections_per_ip",
        expression_if_given=(
            f"{_HELD_BY_ONE} >= $max_connections_per_ip * $near_limit_percent / 100"
        ),
    ),
)
