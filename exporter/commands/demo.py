"""`brokerwire demo`: a cluster, clients that behave and clients that do not, all on this host."""

from __future__ import annotations

__all__ = ["add_parser"]

from typing import TYPE_CHECKING, Literal

from exporter.commands.arguments import Commands, duration
from exporter.commands.output import console

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  brokerwire demo
  brokerwire demo --for 20s
  brokerwire demo --listen 127.0.0.1:0        any free port for the page

It needs nothing but this package: the brokers are librdkafka's mock cluster, on
loopback. Ctrl-C ends it; nothing is left behind."""


def add_parser(commands: Commands) -> None:
    """Add `demo`."""
    parser = commands.add_parser(
        "demo",
        help="see it work, with a cluster and clients of its own",
        description="Start a small Kafka cluster and clients, good and bad, and show them.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--for", dest="seconds", type=duration, metavar="TIME", help="end after this time"
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="address of the page (default 127.0.0.1:10920, or any free port where it is taken)",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show the log, and what the parts complain of"
    )
    parser.set_defaults(execute=_execute)


def _execute(options: argparse.Namespace) -> int:
    from exporter.commands.stopping import StopSignals
    from exporter.config.settings import LogSettings
    from exporter.demo.show import run_demo
    from exporter.logs import set_up_logging

    level: Literal["info", "error"] = "info" if options.verbose else "error"
    handler = set_up_logging(LogSettings(level=level))
    with StopSignals() as signals:
        run_demo(
            console(),
            signals,
            listen=options.listen,
            seconds=options.seconds,
            verbose=options.verbose,
        )
    handler.close()
    return 0
