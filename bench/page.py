"""What do the page and its reader cost: frame time, bytes a minute, memory of the history?

    python -m bench.page

Chromium looks at the page of an agent with 1, 500 and 5,000 connections, a tenth of which move each
second. A frame is one drawing of the whole page after an event. The bytes are those of the event
stream, counted by a second reader.
"""

from __future__ import annotations

__all__ = ["main"]

import http.client
import statistics
import time
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from exporter.config.settings import WebSettings
from exporter.totals.recorder import Recorder
from exporter.web.server import WebServer
from tests.unit.snapshots import fleet

if TYPE_CHECKING:
    from exporter.snapshot import Snapshot

SIZES = ((1, 1), (25, 10), (50, 50))
MOVING = 10
WATCHED_SECONDS = 30
HOURS = 6


class Moving:
    """A tenth of the connections moves each second."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._begun = time.monotonic()
        self._second = -1
        self._snapshot = replace(snapshot, at=self._begun)
        self._recorder = Recorder()

    def __call__(self) -> Snapshot:
        second = int(time.monotonic() - self._begun)
        if second != self._second:
            self._second = second
            before = self._snapshot
            at = self._begun + second
            connections = tuple(
                replace(each, outgoing_bytes=(each.outgoing_bytes or 0) + 100, idle_seconds=0.0)
                if place % MOVING == second % MOVING
                else each
                for place, each in enumerate(before.connections)
            )
            history = self._recorder.take(
                at, before.counts, before.expected, before.totals, before.findings
            )
            self._snapshot = replace(
                before,
                at=at,
                wall_time=time.time(),
                connections=connections,
                history=history,
            )
        return self._snapshot


def bytes_a_minute(port: int) -> float:
    """Count what the stream brings after its first event."""
    client = http.client.HTTPConnection("127.0.0.1", port)
    client.request("GET", "/api/v1/stream")
    response = client.getresponse()
    while not response.readline().startswith(b"event: changes"):
        pass
    begun, count = time.monotonic(), 0
    while time.monotonic() - begun < WATCHED_SECONDS:
        count += len(response.readline())
    client.close()
    return 60 * count / (time.monotonic() - begun)


def history_kib() -> float:
    """Return what six hours of one client with ten brokers take, and the copy in a snapshot."""
    snapshot = fleet(1, 10)
    tracemalloc.start()
    recorder = Recorder()
    for second in range(0, HOURS * 3600, 5):
        # Two findings that come and go fill the list of marks.
        findings = snapshot.findings * (second // 5 % 2)
        kept = recorder.take(
            float(second), snapshot.counts, snapshot.expected, snapshot.totals, findings
        )
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept.marks) > 0
    return used / 1024


def main() -> None:
    print(f"history of {HOURS} hours, one client, ten brokers: {history_kib():.0f} KiB\n")
    print("| connections | first paint s | frame ms, median and most | stream KiB a minute |")
    print("| ---: | ---: | ---: | ---: |")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for clients, brokers in SIZES:
            source = Moving(fleet(clients, brokers))
            server = WebServer(WebSettings(listen_addresses=("127.0.0.1:0",)), source)
            server.start()
            port = server.addresses[0].port
            page = browser.new_page()
            begun = time.monotonic()
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_selector("[data-line]")
            painted = time.monotonic() - begun
            page.keyboard.press("j")
            page.keyboard.press("Enter")
            page.evaluate(
                "new MutationObserver(() => (window.frames_seen ??= [])"
                ".push(Number(document.getElementById('app').dataset.frame)))"
                ".observe(document.getElementById('app'),"
                " {attributes: true, attributeFilter: ['data-frame']})"
            )
            kib = bytes_a_minute(port) / 1024
            frames = page.evaluate("window.frames_seen")
            print(
                f"| {2 * clients * brokers} | {painted:.2f}"
                f" | {statistics.median(frames):.1f}, {max(frames):.1f} | {kib:.0f} |"
            )
            page.close()
            server.stop()
        browser.close()


if __name__ == "__main__":
    main()
