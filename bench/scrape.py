"""What does a scrape cost, beside prometheus_client's own rendering of the same series?

    python -m bench.scrape --clients 100 --brokers 50

The same snapshot, the same bytes (checked), measured in turns in one run: CPU of this process, the
median of the rounds. A typical pod has few series, so that size is measured as well.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import platform
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from exporter.settings import LimitSettings
from exporter.sinks.collector import BrokerwireCollector
from exporter.sinks.document import encode_connections
from exporter.sinks.exposition import Exposition, Format
from exporter.sinks.page import render_page
from tests.unit.snapshots import AT, fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.snapshot import Snapshot

UNLIMITED = LimitSettings(series=10_000_000)


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    clients: int
    brokers: int
    limits: str
    what: str
    series: int
    size: int
    milliseconds: float
    against: float | None


def cpu(function: Callable[[], bytes], rounds: int) -> tuple[float, bytes]:
    """Return the median CPU time of one call in milliseconds, and what it returned."""
    times = []
    body = b""
    for _ in range(rounds):
        begun = time.process_time()
        body = function()
        times.append(time.process_time() - begun)
    return 1000 * statistics.median(times), body


def scrapes(
    snap: Snapshot, limits: LimitSettings, rounds: int
) -> list[tuple[str, float, float, bytes]]:
    """Measure both formats, ours and theirs in turns."""
    found = []
    for fmt, generate in (
        (Format.TEXT, generate_latest),
        (Format.OPENMETRICS, generate_openmetrics),
    ):
        ours = Exposition(limits)
        ours._readings = ours._readings[:1]  # noqa: SLF001  (theirs has no process metrics either)
        registry = CollectorRegistry()
        registry.register(BrokerwireCollector(lambda: snap, limits, clock=lambda: AT))

        def render(ours: Exposition = ours, fmt: Format = fmt) -> bytes:
            ours._done.clear()  # noqa: SLF001  (else only the first would be rendered)
            return ours.render(snap, AT, fmt)

        render()
        mine, body = cpu(render, rounds)
        theirs, expected = cpu(lambda: generate(registry), max(rounds // 3, 1))  # noqa: B023
        assert body == expected
        found.append((fmt.name.lower(), mine, theirs, body))
    return found


def measure(clients: int, brokers: int, limits: LimitSettings, rounds: int) -> list[Result]:
    """Measure one size."""
    snap = fleet(clients, brokers)
    name = "none" if limits is UNLIMITED else "default"
    results = []
    for what, mine, theirs, body in scrapes(snap, limits, rounds):
        series = sum(not line.startswith(b"#") for line in body.splitlines())
        results.append(Result(clients, brokers, name, what, series, len(body), mine, theirs))
    count = len(snap.connections)
    for what, function in (
        ("json", lambda: encode_connections(snap)),
        ("page", lambda: render_page(snap, "/metrics")),
    ):
        milliseconds, body = cpu(function, max(rounds // 3, 1))
        results.append(Result(clients, brokers, name, what, count, len(body), milliseconds, None))
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    options = parser.parse_args()
    results = [
        *measure(1, 3, LimitSettings(), 300),
        *measure(10, 5, LimitSettings(), 60),
        *measure(options.clients, options.brokers, LimitSettings(), 9),
        *measure(options.clients, options.brokers, UNLIMITED, 5),
    ]
    if options.json:
        rows = [result.__dict__ for result in results]
        print(json.dumps({"python": platform.python_version(), "results": rows}))
        return
    print(
        "| clients | brokers | `limits` | | series | bytes | CPU ms | prometheus_client | times |"
    )
    print("| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for each in results:
        against = ["", ""]
        if each.against is not None:
            against = [f"{each.against:.1f}", f"{each.against / each.milliseconds:.1f}"]
        figures = [f"{each.series:,}", f"{each.size:,}", f"{each.milliseconds:.2f}", *against]
        cells = [str(each.clients), str(each.brokers), each.limits, each.what, *figures]
        print(f"| {' | '.join(cells)} |")
    print("\nOf `json` and `page` the column `series` counts connections.")


if __name__ == "__main__":
    main()
