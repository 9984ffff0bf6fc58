"""How much of each limit is used, in percent: the same question on every dashboard."""

from __future__ import annotations

__all__ = ["of_addresses", "of_brokers", "of_files"]

from exporter.alerts.words import HELD
from tools.dashboards.queries import OF_CLUSTER, OF_PROCESS, Query, series

# As the alerts have it: what is left are the labels of the scrape, which are one address.
_OF_ONE_BROKER = "client_id, client_kind, process, broker_id, class"
_OPEN = series("kafka_client_connections", OF_CLUSTER, HELD)


def of_files(most: int = 3) -> Query:
    """Return the processes that are nearest to their limit of open files."""
    used = series("kafka_client_process_open_fds", OF_PROCESS)
    limit = series("kafka_client_process_max_fds", OF_PROCESS)
    return Query(
        f"topk({most}, 100 * max by (process) (\n  {used}\n  / {limit}\n))",
        "open files of {{process}}",
    )


def of_brokers(most: int = 3) -> Query:
    """Return the brokers whose `max.connections` is nearest to used up, by all that is watched."""
    limit = series("kafka_client_broker_max_connections", OF_CLUSTER)
    return Query(
        f"topk({most}, 100 * sum by (cluster, broker) ({_OPEN})\n"
        f"/ min by (cluster, broker) ({limit}))",
        "max.connections of {{broker}}",
    )


def of_addresses(most: int = 3) -> Query:
    """Return the brokers of whose `max.connections.per.ip` one address has used most."""
    limit = series("kafka_client_broker_max_connections_per_ip", OF_CLUSTER)
    return Query(
        f"topk({most}, 100 * max by (cluster, broker) (\n"
        f"  sum without ({_OF_ONE_BROKER}) ({_OPEN})\n  / {limit}\n))",
        "max.connections.per.ip of {{broker}}",
    )
