"""What greater fleets would cost, from what one of known size did: agents, records, cores, disk."""

from __future__ import annotations

__all__ = ["Measured", "table"]

from typing import NamedTuple

CLIENTS = (10_000, 1_000_000, 100_000_000)
DAY = 86_400
BUSY = 0.5
"""A core that has nothing in reserve never catches up."""
RUNS_A_DAY = 24
KEPT_DAYS = 30


class Measured(NamedTuple):
    """What the small fleet was and cost."""

    agents: int
    clients: float
    """In an hour, on average."""
    hours: int
    records: int
    json_bytes: int
    table_bytes: int
    """Of all tables, compressed."""
    run_cpu: float
    """What `batch` takes when there is nothing new."""
    records_cpu: float
    """What it took beyond that."""


def table(one: Measured) -> str:
    """Return the table, with what it was made from."""
    per_client = one.records / one.hours / one.clients
    basis = (
        f"On paper, from the figures above: {one.clients / one.agents:.1f} clients an agent,"
        f" {per_client:.0f} records a client and hour,"
        f" {1e6 * one.records_cpu / one.records:.0f} CPU microseconds a record,"
        f" {one.run_cpu:.0f} CPU seconds more for each of {RUNS_A_DAY} runs a day, cores that are"
        f" busy {BUSY:.0%} of the time. Storage is that of all tables; the JSON may go when it"
        " has been read.\n"
    )
    head = (
        "| clients | agents | records a day | JSON a day, GB | CPU hours a day | cores"
        f" | tables a day, GB | tables of {KEPT_DAYS} days, GB |"
    )
    lines = [basis, head, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for clients in CLIENTS:
        records = clients * per_client * 24
        cpu = records * one.records_cpu / one.records + RUNS_A_DAY * one.run_cpu
        stored = records * one.table_bytes / one.records / 1e9
        lines.append(
            f"| {clients:,} | {clients * one.agents / one.clients:,.0f} | {records:,.0f}"
            f" | {records * one.json_bytes / one.records / 1e9:,.1f} | {cpu / 3600:,.1f}"
            f" | {cpu / DAY / BUSY:,.1f} | {stored:,.2f} | {KEPT_DAYS * stored:,.1f} |"
        )
    return "\n".join(lines)
