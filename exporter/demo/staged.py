"""Staged clients: they do on bare sockets what takes a real client an accident or ten minutes.

The connections, their states and the bytes on them are real; the clients behind are not.
"""

from __future__ import annotations

__all__ = ["health_probe", "leaky_client", "stuck_consumer"]

import contextlib
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

from exporter.demo.wire import TIMEOUT_SECONDS, Wire

if TYPE_CHECKING:
    from exporter.demo.child import Prepared

PROBE_SECONDS = 0.5


def stuck_consumer() -> Prepared:
    """Be a consumer whose application does not poll: the broker closes, and it never notices."""

    def work(options: dict[str, Any]) -> None:
        wires = _greeted(options, "stuck-consumer")
        while wires:
            signal.pause()

    return {}, work


def leaky_client() -> Prepared:
    """Be a client that forgets to close what was reset: descriptors without sockets."""

    def work(options: dict[str, Any]) -> None:
        wires = _greeted(options, "leaky-client")
        while wires:
            signal.pause()

    return {}, work


def _greeted(options: dict[str, Any], client_id: str) -> list[Wire]:
    """Open connections and say on each what a client says first; then say nothing more."""
    wires = []
    for _ in range(options["connections"]):
        wire = Wire(options["address"], client_id)
        wire.api_versions()
        wire.metadata(options["topic"])
        wires.append(wire)
    return wires


def health_probe() -> Prepared:
    """Be a TCP health check: connect and close, twice a second. This one is as real as any."""

    def work(options: dict[str, Any]) -> None:
        host, _, port = options["address"].rpartition(":")
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host, int(port)), TIMEOUT_SECONDS),
            ):
                pass
            time.sleep(PROBE_SECONDS)

    return {}, work
