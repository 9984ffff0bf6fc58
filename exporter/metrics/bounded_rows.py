"""Rows whose labels are not those of a client and broker; their number is bounded here.

Beyond the room that `Labels` leaves they are summed as `other`, or the worst of them stands there.
"""

from __future__ import annotations

__all__ = [
    "client_info",
    "finding_connections",
    "findings",
    "limits_of_brokers",
    "open_files",
    "probes",
]

from collections import Counter
from typing import TYPE_CHECKING

from exporter.alerts.catalogue import ALERTS_BY_NAME
from exporter.metrics.catalogue import CLIENT, CLIENT_BROKER
from exporter.metrics.labels import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.metrics.families import Key, Reader, Rows
    from exporter.metrics.labels import Labels
    from exporter.snapshot import BrokerLimits, ClientLibrary, OpenFiles, Snapshot


def probes(snapshot: Snapshot, labels: Labels) -> Rows:
    """Return the probes of each broker."""
    kept: dict[Key, float] = {}
    for broker, count in sorted(snapshot.totals.probes.items()):
        name = labels.safe((broker,))
        if name not in kept and len(kept) >= labels.room:
            name = (OTHER,)
        kept[name] = kept.get(name, 0) + count
    return [(name, "", count) for name, count in kept.items()]


def client_info(snapshot: Snapshot, labels: Labels) -> Rows:
    """Return one row for each client by name, so that a query can join it to its other series.

    Several processes may run a client of the same name. A version that they do not share is empty;
    where not even the library is the same, there is no row.
    """
    found: dict[Key, set[ClientLibrary]] = {}
    for pair, libraries in snapshot.libraries.items():
        name = labels[pair]
        if name.client_id and name.client_kind != OTHER:
            found.setdefault(name[: len(CLIENT)], set()).update(libraries)
    for client, each in found.items():
        names = {library for library, _ in each}
        versions = {version for _, version in each if version is not None}
        if len(names) == 1:
            version = versions.pop() if len(versions) == 1 else ""
            yield (*client, *labels.safe((names.pop(), version))), "", 1


def open_files(get: Callable[[OpenFiles], float | None]) -> Reader:
    """Return the reader of one figure by process; the one nearest its limit is told as `other`."""

    def rows(snapshot: Snapshot, labels: Labels) -> Rows:
        kept: dict[Key, OpenFiles] = {}
        for process, files in sorted(snapshot.open_files.items()):
            name = labels.safe((process,))
            if name not in kept and len(kept) >= labels.room:
                name = (OTHER,)
            if name not in kept or files.share > kept[name].share:
                kept[name] = files
        values = [(name, get(files)) for name, files in kept.items()]
        return [(name, "", value) for name, value in values if value is not None]

    return rows


def limits_of_brokers(get: Callable[[BrokerLimits], int | None]) -> Reader:
    """Return the reader of one limit, for each broker with series: so rules can match the two."""

    def rows(snapshot: Snapshot, labels: Labels) -> Rows:
        limit = get(snapshot.broker_limits)
        if limit is None:
            return []
        brokers = sorted({labels[pair].broker for pair in snapshot.counts} - {OTHER})
        return [((broker,), "", limit) for broker in brokers]

    return rows


def findings(snapshot: Snapshot, labels: Labels) -> Rows:
    """Count the open findings by name and severity."""
    counted = Counter(labels.safe((each.name, each.severity)) for each in snapshot.findings)
    return [(name, "", count) for name, count in sorted(counted.items())]


def finding_connections(snapshot: Snapshot, labels: Labels) -> Rows:
    """Sum the findings about clients by their labels: the alert rules read them here.

    A finding may name a client without a broker, so that its labels are no pair's.
    """
    kept: dict[tuple[Key, str], float] = {}
    for each in snapshot.findings:
        if not ALERTS_BY_NAME[each.name].counts_connections:
            continue
        values = labels.safe(each.labels.get(label, "") for label in (*CLIENT_BROKER, "cause"))
        if (values, each.name) not in kept and len(kept) >= labels.room:
            values = (*(OTHER for _ in CLIENT_BROKER), values[-1])
        kept[values, each.name] = kept.get((values, each.name), 0) + each.value
    return [(values, name, value) for (values, name), value in kept.items()]
