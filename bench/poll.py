"""What does a whole poll cost?

    python -m bench.poll --sockets 10000 --share 0.01

The contenders of `bench.dump`, and beside them the agent: dump, ownership, classes, counters.
"""

from __future__ import annotations

__all__ = ["main"]

import itertools
import time
from typing import TYPE_CHECKING

from bench import dump
from exporter.agent import Agent
from exporter.config.settings import BrokerSettings, LimitSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Callable


def _agent() -> Agent:
    """An agent whose clock goes on by its interval, 1 s, with the three looks at it of each poll.

    So the polls are as far apart as in service, and what is done each few seconds has its share.
    """
    seconds = itertools.count(time.monotonic(), 1 / 3)
    return Agent(
        Settings(
            brokers=BrokerSettings(ports=dump.BROKER_RANGES),
            limits=LimitSettings(connections=50_000),
        ),
        clock=lambda: next(seconds),
    )


def _contender(name: str, touch: Callable[[], None] | None = None) -> dump.Contender:
    """An agent that polls; before each measured poll one that is not, to have seen all before."""
    agent = _agent()
    looks = iter(range(10**9))

    def prepare() -> None:
        agent.poll_once()
        if touch is not None:
            touch()

    def look() -> dump.Counts | None:
        snapshot = agent.poll_once()
        assert snapshot is not None
        if next(looks) == 0:
            return dump.by_port([connection.remote.port for connection in snapshot.connections])
        return None

    return dump.Contender(name, look, prepare)


def _extra(table: dump.Table) -> list[dump.Contender]:
    touch = table.touch()
    return [
        _contender("one poll, nothing happened"),
        _contender("one poll, 10 % were active", touch),
    ]


def main() -> None:
    """Measure and print."""
    dump.main(_extra, "bench.poll")


if __name__ == "__main__":
    main()
