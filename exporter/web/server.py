"""The agent's web server: one thread of its own, which formats the last snapshot."""

from __future__ import annotations

__all__ = ["WebServer"]

import asyncio
import contextlib
import errno
import logging
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from exporter.config.settings import LimitSettings, StatisticsSettings
from exporter.errors import ConfigError, ConfigProblem
from exporter.http.conversation import Bounds
from exporter.http.messages import Peer
from exporter.http.server import HttpServer
from exporter.web.application import Application, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from exporter.config.settings import WebSettings
    from exporter.metrics.families import Reading
    from exporter.snapshot import NetworkView, Snapshot
    from exporter.web.statistics_posts import StatisticsSink

_LOG = logging.getLogger("brokerwire.web")

# A full queue drops the next SYN, and a scraper that comes then waits a second to try again.
BACKLOG = 1024
_STOP_SECONDS = 1.0
_REMEDIES = {
    errno.EADDRINUSE: "another program listens there: stop it or choose another port",
    errno.EACCES: "ports below 1024 need a privilege: choose a higher one",
    errno.EADDRNOTAVAIL: "this host has no such address",
}


class WebServer:
    """Listens from `start` to `stop`.

    `snapshot_source` gives the last snapshot; `on_statistics` takes a posted document and its
    sender in a worker thread, and raises BrokerwireError where it is none (400) or
    SourceUnavailableError where there is no room for it now (503). `readings` are further suppliers
    of catalogued metrics; `is_alive` is asked by `/-/healthy`. `networks` is given in place of a
    snapshot where all network namespaces of a machine are watched.
    """

    def __init__(  # noqa: PLR0913  (all but two have defaults and a name)
        self,
        settings: WebSettings,
        snapshot_source: Callable[[], Snapshot | None],
        on_statistics: StatisticsSink | None = None,
        *,
        statistics: StatisticsSettings | None = None,
        limits: LimitSettings | None = None,
        is_alive: Callable[[], bool] = lambda: True,
        readings: Sequence[Callable[[], Iterable[Reading]]] = (),
        networks: Callable[[], Sequence[NetworkView] | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        bounds: Bounds | None = None,
        runbooks: str = "",
    ) -> None:
        self._settings = settings
        self._snapshot_source = snapshot_source
        self._on_statistics = on_statistics
        self._networks = networks
        self._options = Options(
            limits=limits or LimitSettings(),
            statistics=statistics or StatisticsSettings(),
            is_alive=is_alive,
            readings=(self._readings, *readings),
            clock=clock,
            bounds=bounds or Bounds(),
            runbooks=runbooks,
        )
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="web-worker")
        self._listeners: list[socket.socket] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._server: HttpServer | None = None

    @property
    def addresses(self) -> list[Peer]:
        """Where the server listens; port 0 is answered with the one that was found."""
        return [Peer(*listener.getsockname()[:2]) for listener in self._listeners]

    def start(self) -> None:
        """Read the web config file, take the addresses and serve.

        Raises:
            ConfigError: the file is not good, or an address cannot be had.
        """
        server = self._server = self._make_server()
        try:
            for address in self._settings.listen_addresses:
                self._listeners.append(_listen(address))
        except ConfigError:
            self._close()
            raise
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(server, started), name="brokerwire-web", daemon=True
        )
        self._thread.start()
        started.wait()
        for peer in self.addresses:
            _LOG.info("listening", extra={"address": peer.address, "port": peer.port})

    def stop(self) -> None:
        """End within a second; a response that is being written is cut off."""
        if self._loop is not None and self._main is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._main.cancel)
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._close()

    def _make_server(self) -> HttpServer:
        options = self._options
        if self._networks is None:
            app = Application(
                self._settings, self._snapshot_source, self._on_statistics, options, self._executor
            )
        else:
            from exporter.web.networks import NetworksApplication

            app = NetworksApplication(self._settings, self._networks, options, self._executor)
        return HttpServer(
            app,
            app.security,
            max_connections=self._settings.max_connections,
            body_bytes=options.statistics.max_bytes,
            bounds=options.bounds,
        )

    def _readings(self) -> list[Reading]:
        server = self._server
        if server is None:
            return []
        rejected = sorted(server.rejected.items())
        return [
            ("brokerwire_http_connections", (), server.connections),
            *(
                ("brokerwire_http_rejected_connections_total", (reason,), count)
                for reason, count in rejected
            ),
        ]

    def _run(self, server: HttpServer, started: threading.Event) -> None:
        try:
            asyncio.run(self._serve(server, started))
        except asyncio.CancelledError:
            pass  # by `stop`
        finally:
            started.set()

    async def _serve(self, server: HttpServer, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_tell)
        self._main = asyncio.current_task()
        started.set()
        await server.run(self._listeners)

    def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()


def _tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Keep peers that hung up out of the log; a bug must show there."""
    error = context.get("exception")
    if error is None or isinstance(error, OSError):
        _LOG.debug("asyncio: %s: %r", context.get("message"), error)
    else:
        _LOG.error("bug in the web server", exc_info=error)


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    last: OSError | None = None
    for family, name in _candidates(host):
        try:
            return _bound(family, name, int(port))
        except OSError as error:
            last = error
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                break
    raise _cannot_listen(address, last) from last


def _candidates(host: str) -> list[tuple[socket.AddressFamily, str]]:
    if not host:
        # One socket for both families; IPv4 alone where there is no IPv6.
        return [(socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")]  # noqa: S104
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [(family, str(place[0])) for family, _, _, _, place in found]


def _bound(family: socket.AddressFamily, name: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # A restart must not wait for the TIME_WAITs of the last run.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, name != "::")
        listener.bind((name, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _cannot_listen(address: str, error: OSError | None) -> ConfigError:
    number = error.errno if error is not None else None
    what = os.strerror(number) if number else "the name has no address"
    remedy = _REMEDIES.get(number or 0, "choose another address")
    message = f"cannot listen on {address}: {what} (errno {number}); {remedy}"
    return ConfigError((ConfigProblem("web.listen_addresses", None, "", message),))
