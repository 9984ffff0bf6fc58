"""What the decoders make of the recorded pages: `python -m tests.golden.metrics.expected`.

Look at the difference before you commit it: a test only compares.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from exporter.clients.java import clients_from_prometheus
from exporter.clients.jolokia import clients_from_jolokia
from exporter.clients.librdkafka import client_from_statistics

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"


def pages():
    return sorted(page for page in HERE.iterdir() if page.suffix in (".prom", ".json"))


def decoded(page):
    if page.suffix == ".prom":
        clients = clients_from_prometheus(page.read_text())
    elif page.name.startswith("jolokia"):
        clients = clients_from_jolokia(page.read_bytes())
    else:
        clients = (client_from_statistics(page.read_bytes()).client,)
    return [_told(asdict(client)) for client in clients]


def expected_file(page):
    return EXPECTED / f"{page.name}.json"


def write_expected():
    EXPECTED.mkdir(exist_ok=True)
    for page in pages():
        expected_file(page).write_text(json.dumps(decoded(page), indent=1) + "\n")


def _told(value):
    """Leave out what is None or empty: a line of the file is something that the page told."""
    if isinstance(value, dict):
        return {key: _told(one) for key, one in value.items() if one is not None and one != ()}
    if isinstance(value, list | tuple):
        return [_told(one) for one in value]
    return value


if __name__ == "__main__":
    write_expected()
