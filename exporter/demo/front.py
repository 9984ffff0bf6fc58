"""A front before a broker: it relays, and where nothing goes over a connection it ends it.

The mock cluster cannot be told to close. So one port closes idle connections, as a broker does
after connections.max.idle.ms, and one resets them, as a load balancer or a firewall does that has
forgotten a flow. Staged: real ones take minutes.
"""

from __future__ import annotations

__all__ = ["front"]

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exporter.demo.child import Prepared

CHUNK = 1 << 16
_LINGER_ZERO = struct.pack("ii", 1, 0)


def front() -> Prepared:
    """Listen on two ports of 127.0.0.1 and report them; then relay to `broker`."""
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in ("closing", "resetting")}
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}

    async def serve(options: dict[str, Any]) -> None:
        host, _, port = options["broker"].rpartition(":")
        for name, listener in listeners.items():
            relay = _Relay(host, int(port), options["idle_seconds"], reset=name == "resetting")
            await asyncio.start_server(relay, sock=listener)
        await asyncio.Event().wait()

    return ports, lambda options: asyncio.run(serve(options))


@dataclass(frozen=True, slots=True)
class _Relay:
    """Carries bytes both ways; ends both connections when one ends or nothing goes over them."""

    host: str
    port: int
    idle_seconds: float
    reset: bool

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(self.host, self.port)
        pumps = [
            asyncio.create_task(self._pump(reader, behind_writer)),
            asyncio.create_task(self._pump(behind_reader, writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        if self.reset:
            # Closing with a linger time of 0 sends RST in place of FIN.
            end = writer.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        for each in (writer, behind_writer):
            each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Either direction may be the first to be silent for so long: a conversation has both.
        with contextlib.suppress(ConnectionError, TimeoutError):
            while data := await asyncio.wait_for(reader.read(CHUNK), self.idle_seconds):
                writer.write(data)
                await writer.drain()
