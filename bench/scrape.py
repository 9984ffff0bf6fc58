"""What does a scrape cost, and the page and the API of the same snapshot?

    python -m bench.scrape --clients 68 --brokers 50

CPU of this process, the median of the rounds; `of a core` is the share of one scrape in 15 s.
A typical pod has few series, so that size is measured as well.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import itertools
import json
import platform
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.config.settings import LimitSettings
from exporter.metrics.collector import BrokerwireCollector
from exporter.metrics.exposition import KEPT_SECONDS, Exposition, Format
from exporter.web.document import encode_connections
from exporter.web.page import render_page
from tests.unit.snapshots import AT, fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.snapshot import Snapshot

UNLIMITED = LimitSettings(series=10_000_000)
SCRAPE_SECONDS = 15


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


def cpu(function: Callable[[], bytes], rounds: int) -> tuple[float, bytes]:
    """Return the median CPU time of one call in milliseconds, and what it returned."""
    times = []
    body = b""
    for _ in range(rounds):
        begun = time.process_time()
        body = function()
        times.append(time.process_time() - begun)
    return 1000 * statistics.median(times), body


def scrapes(snap: Snapshot, limits: LimitSettings, rounds: int) -> list[tuple[str, float, bytes]]:
    """Measure both formats; each call is later than a page is kept."""
    clock = itertools.count(AT, KEPT_SECONDS)
    found = []
    for fmt in Format:
        collector = BrokerwireCollector(lambda: [({}, snap)], limits, clock=lambda: AT)
        exposition = Exposition(collector, clock=lambda: next(clock))
        exposition.page(fmt)
        milliseconds, body = cpu(lambda: exposition.page(fmt).body, rounds)  # noqa: B023
        found.append((fmt.name.lower(), milliseconds, body))
    return found


def measure(clients: int, brokers: int, limits: LimitSettings, rounds: int) -> list[Result]:
    """Measure one size."""
    snap = fleet(clients, brokers)
    name = "none" if limits is UNLIMITED else "default"
    results = []
    for what, milliseconds, body in scrapes(snap, limits, rounds):
        series = sum(not line.startswith(b"#") for line in body.splitlines())
        results.append(Result(clients, brokers, name, what, series, len(body), milliseconds))
    count = len(snap.connections)
    for what, function in (
        ("json", lambda: encode_connections(snap)),
        ("page", lambda: render_page(snap, "/metrics")),
    ):
        milliseconds, body = cpu(function, max(rounds // 3, 1))
        results.append(Result(clients, brokers, name, what, count, len(body), milliseconds))
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    # With 50 brokers some 25,000 series, where there is no limit.
    parser.add_argument("--clients", type=int, default=68)
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
    print("| clients | brokers | `limits` | | series | bytes | CPU ms | of a core |")
    print("| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: |")
    for each in results:
        share = ""
        if each.what in ("text", "openmetrics"):
            share = f"{each.milliseconds / 10 / SCRAPE_SECONDS:.2f}%"
        figures = [f"{each.series:,}", f"{each.size:,}", f"{each.milliseconds:.2f}", share]
        cells = [str(each.clients), str(each.brokers), each.limits, each.what, *figures]
        print(f"| {' | '.join(cells)} |")
    print("\nOf `json` and `page` the column `series` counts connections.")


if __name__ == "__main__":
    main()
