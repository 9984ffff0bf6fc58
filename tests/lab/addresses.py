"""Loopback addresses of its own for each cluster, as in a network where brokers are hosts."""

from __future__ import annotations

import os
import socket
from typing import Final

from tests.lab.errors import LabError

__all__ = ["Subnet", "free_port"]

_NETS: Final = range(1, 255)
_LOCK_PORT: Final = 17777


class Subnet:
    """The addresses 127.77.N.1 to .254, held by one cluster until it is released.

    The hold is a bound socket: it ends with the process that has it, so nothing stale
    has to be cleaned up. It never listens and so is in no list of connections.
    """

    def __init__(self) -> None:
        # Start elsewhere in each process: fewer collisions with the addresses of a run that
        # has just ended, whose TIME_WAIT sockets would be mistaken for the new cluster's.
        first = os.getpid() % len(_NETS)
        for step in range(len(_NETS)):
            net = _NETS[(first + step) % len(_NETS)]
            hold = socket.socket()
            try:
                hold.bind((f"127.77.{net}.254", _LOCK_PORT))
            except OSError:
                hold.close()
                continue
            self._hold = hold
            self._net = net
            return
        raise LabError("all addresses 127.77.x.y are taken by other clusters")

    def host(self, number: int) -> str:
        """Return the address with this last part."""
        return f"127.77.{self._net}.{number}"

    def free_base_port(self, hosts: list[str], *, count: int) -> int:
        """Return a port from which `count` ports are free on every one of `hosts`.

        Brokers share a port number, as they do in a real cluster. It lies below the
        ephemeral ports, so that no client's own port can be taken for a broker's.
        """
        for base in range(19000, 32000, 100):
            if all(_is_free(host, base + i) for host in hosts for i in range(count)):
                return base
        raise LabError(f"no {count} free ports on {hosts}")

    def release(self) -> None:
        """Give the addresses back."""
        self._hold.close()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
