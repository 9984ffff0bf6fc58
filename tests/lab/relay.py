"""A load balancer in front of a cluster: clients bootstrap through it and go direct for data."""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from tests.lab.cluster import KafkaCluster

__all__ = ["BootstrapRelay"]

_CHUNK: Final = 65536


class BootstrapRelay:
    """Hands each connection on to the next broker, from an address that is no broker's.

    It relays inside the calling process, which therefore holds the connections to the brokers.
    """

    def __init__(self, cluster: KafkaCluster, listener: str = "PLAINTEXT") -> None:
        """Listen at once, on the port of the cluster's own listener."""
        targets = [address.rsplit(":", 1) for address in cluster.addresses(listener).values()]
        self._targets = itertools.cycle((host, int(port)) for host, port in targets)
        self._server = socket.create_server((cluster.relay_host, cluster.port(listener)))
        self._open: set[socket.socket] = set()
        self.address = f"{cluster.relay_host}:{cluster.port(listener)}"
        threading.Thread(target=self._accept, name="lab-relay", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and break every relayed connection."""
        for end in (self._server, *list(self._open)):
            with contextlib.suppress(OSError):  # not connected any more
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(client)
            try:
                broker = stack.enter_context(socket.create_connection(next(self._targets)))
            except OSError:  # the broker is down: as a load balancer, hang up
                return
            self._open |= {client, broker}
            stack.callback(self._open.difference_update, {client, broker})
            _pass_on(client, broker)


def _pass_on(client: socket.socket, broker: socket.socket) -> None:
    """Copy both ways until either side ends."""
    with selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, (client, broker))
        ready.register(broker, selectors.EVENT_READ, (broker, client))
        with contextlib.suppress(OSError):  # reset by either side
            while True:
                for key, _ in ready.select():
                    source, target = key.data
                    chunk = source.recv(_CHUNK)
                    if not chunk:
                        return
                    target.sendall(chunk)
