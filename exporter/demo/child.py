"""The life of a demo process: named, tied to its parent, started by a word on standard input.

It runs as `python -m exporter.demo.child PART PARENT`, writes one line of JSON when it is ready,
and begins its work with what a line of JSON on standard input tells it. When its parent ends,
however that happens, so does it.
"""

from __future__ import annotations

__all__ = ["become", "die_with_parent", "main"]

import ctypes
import importlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    # What to tell the parent, and what to do with what the parent tells.
    Prepared = tuple[dict[str, Any], Callable[[dict[str, Any]], None]]

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15

# Each part is looked up only in its own process: the staged ones need no Kafka library.
PARTS = {
    "mock-cluster": ("exporter.demo.cluster", "mock_cluster"),
    "front": ("exporter.demo.front", "front"),
    "good-producer": ("exporter.demo.real", "good_producer"),
    "good-consumer": ("exporter.demo.real", "good_consumer"),
    "many-producers": ("exporter.demo.real", "many_producers"),
    "per-request": ("exporter.demo.real", "producer_per_request"),
    "legacy-consumer": ("exporter.demo.legacy", "legacy_consumer"),
    "stuck-consumer": ("exporter.demo.staged", "stuck_consumer"),
    "leaky-client": ("exporter.demo.staged", "leaky_client"),
    "health-probe": ("exporter.demo.staged", "health_probe"),
}


def become(name: str, parent: int) -> None:
    """Take a name that the process table shows, and die with the parent.

    The kernel sends the signal also when the parent is killed -9. A parent that was gone before
    the request is told by its id.
    """
    die_with_parent(signal.SIGKILL)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for a signal when the parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def main(arguments: list[str]) -> None:
    """Play one part until the process is told to end."""
    name, parent = arguments
    become(name, int(parent))
    module, function = PARTS[name]
    part: Callable[[], Prepared] = getattr(importlib.import_module(module), function)
    told, work = part()
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    line = sys.stdin.readline()
    if line:
        work(json.loads(line))


if __name__ == "__main__":
    main(sys.argv[1:])
