"""The demo's director: starts everything, shows it, and leaves nothing behind.

The only file is the socket that takes the clients' statistics, in a folder of its own. It is
removed at the end, and by the mock cluster's process should this one be killed -9.
"""

from __future__ import annotations

__all__ = ["run_demo", "url_of"]

import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from exporter.agent import Agent
from exporter.demo.board import board, legend
from exporter.demo.children import Children
from exporter.demo.scene import IDLE_CLOSE_SECONDS, ROLES, client_options, demo_settings
from exporter.errors import ConfigError
from exporter.model import Endpoint
from exporter.web.server import WebServer

if TYPE_CHECKING:
    from rich.console import Console, Group

    from exporter.config.settings import Settings
    from exporter.demo.children import Child

LONGEST_FOLDER = 70
USUAL_ADDRESS = "127.0.0.1:10920"
ANY_ADDRESS = "127.0.0.1:0"
EVERY_ADDRESS = ("::", "0.0.0.0")  # noqa: S104
# On a terminal the table lives; elsewhere it is printed a few times.
LIVE_SECONDS = 0.5
LEAST_HEIGHT, LEAST_WIDTH = 40, 110
FIRST_TABLE_SECONDS = 6.0
TABLE_SECONDS = 15.0


class Stop(Protocol):
    """Tells when the demo is to end; a wait is over as soon as it is."""

    @property
    def told(self) -> bool: ...

    def wait(self, seconds: float | None = None) -> object: ...


def run_demo(
    console: Console,
    stop: Stop,
    *,
    listen: str | None = None,
    seconds: float | None = None,
    verbose: bool = False,
) -> None:
    """Play the demo for some seconds, or until it is told to stop.

    Raises:
        ConfigError: the address cannot be had.
        BrokerwireError: a part did not start.
    """
    console.print("Starting a mock cluster and its clients ...")
    with ExitStack() as stack:
        inlet = _inlet(stack)
        children = stack.enter_context(Children(verbose=verbose))
        names = ["mock-cluster", "front", *(part.process for part in ROLES)]
        cast = children.start(names, lambda: stop.told)
        if not cast:
            return
        cluster = cast["mock-cluster"].told
        brokers, topic = list(cluster["brokers"]), str(cluster["topic"])
        fronts = dict(cast["front"].told)
        ports = [int(broker.rpartition(":")[2]) for broker in brokers] + list(fronts.values())
        settings = demo_settings(ports, int(cast["legacy-consumer"].told["page_port"]), inlet)
        agent = Agent(settings)
        server = _serve(agent, settings, listen)
        stack.callback(server.stop)
        stack.callback(agent.stop)
        agent.start()
        page = url_of(Endpoint(*server.addresses[0]))
        cast["mock-cluster"].go({"sweep": str(Path(inlet).parent)})
        cast["front"].go({"broker": brokers[0], "idle_seconds": IDLE_CLOSE_SECONDS})
        for name, options in client_options(brokers, topic, fronts, inlet).items():
            cast[name].go(options)
        _show(console, stop, agent, cast, page, seconds)


def url_of(listening: Endpoint) -> str:
    """Return where a browser of this machine finds what listens there."""
    # One for all addresses listens on this one, too.
    here = listening._replace(address="127.0.0.1")
    return f"http://{here if listening.address in EVERY_ADDRESS else listening}"


def _inlet(stack: ExitStack) -> str:
    """Return a path for the socket: over the Unix socket the agent knows which process sends."""
    folder = tempfile.gettempdir()
    # A Unix socket's path has 107 bytes at most.
    where = folder if len(os.fsencode(folder)) <= LONGEST_FOLDER else "/tmp"  # noqa: S108
    place = tempfile.TemporaryDirectory(
        prefix="brokerwire-demo-", dir=where, ignore_cleanup_errors=True
    )
    return str(Path(stack.enter_context(place)) / "stats.sock")


def _serve(agent: Agent, settings: Settings, listen: str | None) -> WebServer:
    """Serve on the address that was asked for; else on the usual one, or on any that is free."""
    for address in [USUAL_ADDRESS, ANY_ADDRESS] if listen is None else [listen]:
        server = WebServer(
            replace(settings.web, listen_addresses=(address,)),
            agent.snapshot,
            agent.accept_statistics,
            statistics=settings.sources.librdkafka,
            limits=settings.limits,
            is_alive=agent.is_healthy,
        )
        try:
            server.start()
        except ConfigError:
            if address != USUAL_ADDRESS or listen is not None:
                raise
            continue
        return server
    raise AssertionError("the kernel always has a free port, or the error was raised")


def _show(
    console: Console,
    stop: Stop,
    agent: Agent,
    cast: dict[str, Child],
    page: str,
    seconds: float | None,
) -> None:
    from rich.live import Live

    end = None if seconds is None else time.monotonic() + seconds

    def left(pause: float) -> float:
        return pause if end is None else max(0.0, min(pause, end - time.monotonic()))

    is_small = console.is_terminal and (
        console.height < LEAST_HEIGHT or console.width < LEAST_WIDTH
    )

    def draw() -> Group:
        ended = [name for name, child in cast.items() if child.has_ended]
        return board(agent.snapshot(), page, ended, is_small=is_small)

    if console.is_terminal:
        if is_small:
            console.print(legend())
        with Live(console=console, auto_refresh=False, transient=False) as live:
            while not stop.told and (end is None or time.monotonic() < end):
                live.update(draw(), refresh=True)
                stop.wait(left(LIVE_SECONDS))
        return
    stop.wait(left(FIRST_TABLE_SECONDS))
    while not stop.told and left(1.0) > 0:
        console.print(draw())
        stop.wait(left(TABLE_SECONDS))
    console.print(draw())
