"""Findings about limits: the brokers' connection limits, and descriptors of a process.

Their value is how much of the limit is used, in percent. Where no limit is known there is none.
Pure.
"""

from __future__ import annotations

__all__ = ["find_near_limits", "held_by_broker"]

from collections import Counter
from typing import TYPE_CHECKING

from exporter.findings.findings import finding_of_alert
from exporter.model import NOT_AT_BROKER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.alerts.settings import Thresholds
    from exporter.model import ConnectionClass
    from exporter.snapshot import BrokerLimits, ClientBroker, Finding, OpenFiles


def held_by_broker(
    counts: Mapping[ClientBroker, Mapping[ConnectionClass, int]],
) -> Counter[str]:
    """Count the connections that each broker has, of all clients together."""
    held: Counter[str] = Counter()
    for pair, by_class in counts.items():
        for connection_class, count in by_class.items():
            if connection_class not in NOT_AT_BROKER:
                held[pair.broker] += count
    return held


def find_near_limits(
    counts: Mapping[ClientBroker, Mapping[ConnectionClass, int]],
    limits: BrokerLimits,
    open_files: Mapping[str, OpenFiles],
    thresholds: Thresholds,
) -> list[Finding]:
    """Return a finding for each broker and process that is near its limit.

    The agent sees the clients of one address: their sum is what max.connections.per.ip is about,
    and of max.connections it is the part that is known here.
    """
    findings = []
    # As in the rules: the operator's number stands in place of what the agent knows.
    for name, setting, limit in (
        (
            "KafkaClientBrokerNearMaxConnections",
            "max.connections",
            thresholds.max_connections or limits.max_connections,
        ),
        (
            "KafkaClientNearMaxConnectionsPerIp",
            "max.connections.per.ip",
            thresholds.max_connections_per_ip or limits.max_connections_per_ip,
        ),
    ):
        if limit is None:
            continue
        for broker, held in held_by_broker(counts).items():
            percent = 100 * held / limit
            if percent >= thresholds.near_limit_percent:
                text = (
                    f"The clients here hold {held} connections to {broker}; {setting} is {limit}."
                )
                findings.append(finding_of_alert(name, {"broker": broker}, text, percent))
    for process, files in open_files.items():
        percent = 100 * files.share
        if percent >= thresholds.descriptor_percent:
            text = f"{process} uses {files.used} of {files.limit} file descriptors."
            labels = {"process": process}
            findings.append(
                finding_of_alert("KafkaClientNearDescriptorLimit", labels, text, percent)
            )
    return findings
