"""The agent's own CPU, memory and descriptors, under the names of every Prometheus library.

Read here and not by prometheus_client's ProcessCollector: importing that costs some 5 MiB, and it
raises where `/proc/self/limits` lacks a line, which would fail the whole page.
"""

from __future__ import annotations

__all__ = ["process_readings"]

import os
import resource
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exporter.sinks.families import Reading


def process_readings(proc: str = "/proc") -> list[Reading]:
    """Read what can be read of this process; what cannot is left out."""
    return [*_from_stat(proc), *_from_descriptors(proc)]


def _from_stat(proc: str) -> list[Reading]:
    try:
        # The command, in brackets, may hold anything, brackets as well.
        fields = Path(proc, "self/stat").read_bytes().rpartition(b")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        cpu = (int(fields[11]) / ticks) + (int(fields[12]) / ticks)
        started = int(fields[19]) / ticks + _boot_time(proc)
        memory, resident = int(fields[20]), int(fields[21]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        # No /proc, or hidden by the runtime's policy.
        return []
    return [
        ("process_cpu_seconds_total", (), cpu),
        ("process_resident_memory_bytes", (), resident),
        ("process_virtual_memory_bytes", (), memory),
        ("process_start_time_seconds", (), started),
    ]


@cache
def _boot_time(proc: str) -> float:
    for line in Path(proc, "stat").read_bytes().splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    raise ValueError("no btime in /proc/stat")


def _from_descriptors(proc: str) -> list[Reading]:
    try:
        count = sum(1 for _ in Path(proc, "self/fd").iterdir())
    except OSError:
        return []
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = float("inf") if soft == resource.RLIM_INFINITY else soft
    return [("process_open_fds", (), count), ("process_max_fds", (), limit)]
