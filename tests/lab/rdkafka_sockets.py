"""Which sockets a librdkafka process holds, and for what, told by the process itself.

Two logs are read side by side. The preloaded shim tells which descriptor has which addresses
and when it was closed; librdkafka's own log tells, just before each connect, which broker the
descriptor is for, under the name that its statistics use too. (The name of the thread is not
enough: librdkafka calls the threads of coordinators as it calls those of bootstrap brokers.)
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.lab.errors import LabError
from tests.lab.truth import TruthConnection, endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.lab.truth import ClientKind, Role

__all__ = ["RdkafkaSockets", "role_of_broker_name"]

_CONNECTING: Final = re.compile(
    r"\|CONNECT\|[^|]*\| \[thrd:(?P<name>.+?)\]: .*: Connecting to .* with socket (?P<fd>\d+)$"
)
_THREADS: Final = "rdk:"


@dataclass(frozen=True, slots=True)
class _Opened:
    tag: int
    local: str
    remote: str
    broker: str


class _Tail:
    """The complete lines that a file has gained."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> Iterator[str]:
        with self._path.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        yield from complete.decode(errors="replace").splitlines()


class RdkafkaSockets:
    """Both logs so far, folded into the sockets that are open now."""

    def __init__(self, *, shim_log: Path, library_log: Path) -> None:
        """Read the two files as they grow; librdkafka must log with `debug=broker`."""
        self._shim = _Tail(shim_log)
        self._library = _Tail(library_log)
        self._open: dict[int, _Opened] = {}
        # The broker of the n-th connect of a descriptor: descriptors are used again.
        self._brokers: defaultdict[int, list[str]] = defaultdict(list)
        self._connects: defaultdict[int, int] = defaultdict(int)

    def connections(
        self, owners: Mapping[int, Mapping[str, Any]], *, pid: int, brokers: Mapping[str, int]
    ) -> list[TruthConnection]:
        """Return the open sockets of librdkafka's own threads; `owners` are clients by tag."""
        self._read()
        found = []
        for opened in self._open.values():
            owner = owners[opened.tag]
            found.append(
                TruthConnection(
                    local=opened.local,
                    remote=opened.remote,
                    role=role_of_broker_name(opened.broker, owner["kind"]),
                    client_id=owner["client_id"],
                    client_kind=owner["kind"],
                    broker_id=brokers.get(opened.remote),
                    node_id=opened.broker,
                    pid=pid,
                    name=owner["name"],
                    instance=owner["instance"],
                )
            )
        return found

    def _read(self) -> None:
        # The shim's log first: what librdkafka says of its connects was written before them.
        events = [line.split(" ", 5) for line in self._shim.lines()]
        for line in self._library.lines():
            connecting = _CONNECTING.search(line)
            if connecting is not None:
                self._brokers[int(connecting["fd"])].append(connecting["name"])
        for event, *rest in events:
            if event == "shut":
                self._open.pop(int(rest[0]), None)
            elif rest[-1].startswith(_THREADS):  # else the program's own, a POST for instance
                self._opened(*rest)

    def _opened(self, tag: str, fd: str, local: str, remote: str, _thread: str) -> None:
        descriptor = int(fd)
        told = self._brokers[descriptor]
        position = self._connects[descriptor]
        if position >= len(told):
            raise LabError(f"librdkafka did not say what its socket {fd} to {remote} is for")
        self._connects[descriptor] = position + 1
        self._open[descriptor] = _Opened(
            int(tag), endpoint(local), endpoint(remote), told[position]
        )


def role_of_broker_name(name: str, kind: ClientKind) -> Role:
    """Return what librdkafka opened a connection for, by its name for the broker."""
    if name == "GroupCoordinator":
        return "coordinator"
    if name == "TxnCoordinator":
        return "transaction"
    if name.endswith("/bootstrap"):
        return "bootstrap"
    if re.search(r"/\d+$", name):
        return "admin" if kind == "admin" else "data"
    raise ValueError(f"librdkafka has a broker of an unknown kind: {name!r}")
