"""Staged: the connections of an old Java consumer with `connections.max.idle.ms=-1`.

It asks each listed server for metadata on a connection of its own (node ids -1, -2, ...), then
connects to the same brokers again under their real ids and fetches there. The first connections
are never used again, and nothing closes them. Like a JVM with jmx_exporter it serves its byte
counts by node, which is how the agent identifies the roles exactly.
"""

from __future__ import annotations

__all__ = ["legacy_consumer", "metrics_page"]

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

from exporter.demo.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exporter.demo.child import Prepared

CLIENT_ID = "reports"
# The mock cluster does not always wait for records: this keeps two processors from being busy.
FETCH_PAUSE_SECONDS = 0.3
_LABELS = 'client_id="{client_id}",node_id="node-{node}"'
_PREFIX = "kafka_consumer_consumer_node_metrics"


def legacy_consumer() -> Prepared:
    """Return the port of the metrics page; then connect, and fetch for ever."""
    nodes: dict[int, Wire] = {}
    page = HTTPServer(("127.0.0.1", 0), _handler(nodes))

    def work(options: dict[str, Any]) -> None:
        threading.Thread(target=page.serve_forever, daemon=True).start()
        topic = options["topic"]
        for place, address in enumerate(options["bootstrap"], start=1):
            nodes[-place] = _greeted(address)
            brokers, leaders = nodes[-place].metadata(topic)
        fetchers = []
        for broker, address in brokers.items():
            nodes[broker] = _greeted(address)
            led = [leader.partition for leader in leaders if leader.broker == broker]
            if led:
                fetch = threading.Thread(target=_fetch, args=(nodes[broker], topic, led))
                fetchers.append(fetch)
        for fetch in fetchers:
            fetch.start()
        for fetch in fetchers:
            fetch.join()

    return {"page_port": page.server_address[1]}, work


def _greeted(address: str) -> Wire:
    wire = Wire(address, CLIENT_ID)
    wire.api_versions()
    return wire


def _fetch(wire: Wire, topic: str, partitions: list[int]) -> None:
    offsets = dict.fromkeys(partitions, 0)
    while True:
        offsets |= wire.fetch(topic, offsets)
        time.sleep(FETCH_PAUSE_SECONDS)


def metrics_page(nodes: Mapping[int, Wire]) -> str:
    """Return the byte counts of each node as jmx_exporter would spell them."""
    lines = []
    for figure, counts in (
        ("outgoing_byte", {node: wire.outgoing_bytes for node, wire in nodes.items()}),
        ("incoming_byte", {node: wire.incoming_bytes for node, wire in nodes.items()}),
    ):
        name = f"{_PREFIX}_{figure}_total"
        lines.append(f"# TYPE {name} untyped")
        for node, count in counts.items():
            labels = _LABELS.format(client_id=CLIENT_ID, node=node)
            lines.append(f"{name}{{{labels}}} {count}.0")
    return "\n".join(lines) + "\n"


def _handler(nodes: Mapping[int, Wire]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Serves the page; says nothing on standard error."""

        def do_GET(self) -> None:
            body = metrics_page(dict(nodes)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return Handler
