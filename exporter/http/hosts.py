"""Which names the server answers to: a page that someone visits must not reach it by a name.

A page of `http://evil.example` may have its own name point to the agent (DNS rebinding); its
scripts may then read all that the agent says. The browser still sends that name as Host.
"""

from __future__ import annotations

__all__ = ["Hosts"]

import ipaddress
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Nobody can register names under these, nor names of one label: they are never a stranger's.
_PRIVATE = (".localhost", ".svc", ".local", ".internal", ".home.arpa")


class Hosts:
    """The names that are welcome: addresses, private names, this host's own, and the given ones."""

    def __init__(self, names: Iterable[str], listen_addresses: Iterable[str]) -> None:
        listening = (_name(address) for address in listen_addresses)
        self._names = frozenset(
            name.lower().removesuffix(".") for name in (socket.gethostname(), *names, *listening)
        )

    def welcomes(self, host: str | None) -> bool:
        """Return whether a request with this Host is for the agent; HTTP/1.0 may have none."""
        if host is None:
            return True
        name = _name(host).lower().removesuffix(".")
        if "." not in name and ":" not in name:
            return True
        return name in self._names or name.endswith(_PRIVATE) or _is_address(name)


def _name(host: str) -> str:
    """Return a Host, or an address that is listened on, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
