"""Writes down what a pod's clients do, connection by connection, in the terms of `events`."""

from __future__ import annotations

__all__ = ["Diary", "Step", "Traffic"]

from typing import TYPE_CHECKING, NamedTuple

from fleet_simulator.events import (
    MINUTE_MS,
    Client,
    Expectation,
    Failure,
    Finding,
    Phase,
)

if TYPE_CHECKING:
    from random import Random

    from fleet_simulator.events import Pod

# Metadata comes within this time of a bootstrap connection's opening.
_LEARNED_MS = 350
# Where the agent does not know that idle closing is off it waits so long (DESIGN section 5).
ZOMBIE_AFTER_MS = 10 * MINUTE_MS


class Traffic(NamedTuple):
    """Bytes a second, out and in."""

    sent: int
    received: int


class Step(NamedTuple):
    """A class that a connection has for a while, and why it is waste then."""

    connection_class: str
    begin: int
    end: int
    cause: str = ""


# The first requests on a connection, measured on Java 3.9: KAFKA_CLIENTS section 3.
_HELLO = Traffic(51, 866)
_LEARNING = (Traffic(80, 969), Traffic(0, 0))
_IN_USE = frozenset({"data", "coordinator", "transaction", "admin", "bootstrap"})


class Diary:
    """The diary of one pod."""

    def __init__(self, pod: Pod, random: Random, outages: tuple[tuple[int, int], ...]) -> None:
        self.pod = pod
        self.random = random
        self._outages = outages

    def client(self, process: str | None, client_id: str | None, kind: str | None) -> int:
        """Add a client; return its number."""
        service = self.pod.service
        made = Client(process, client_id, kind, service.library or None, service.version or None)
        self.pod.clients.append(made)
        return len(self.pod.clients) - 1

    def bootstrap(
        self, client: int, broker: int, begin: int, end: int, closed_by: str = "client"
    ) -> None:
        """Open a connection to learn the brokers: dead weight as soon as they are known."""
        learned = min(begin + _LEARNED_MS, end)
        steps = [
            Step("bootstrap", begin, learned),
            Step("bootstrap", learned, end, "superseded_bootstrap"),
        ]
        self._connection(client, broker, "bootstrap", steps, closed_by, _LEARNING)

    def zombie(self, client: int, broker: int, begin: int, end: int) -> None:
        """Open one to learn the brokers that nothing will ever close."""
        learned = min(begin + _LEARNED_MS, end)
        condemned = min(begin + ZOMBIE_AFTER_MS, end)
        steps = [
            Step("bootstrap", begin, learned),
            Step("bootstrap", learned, condemned, "superseded_bootstrap"),
            Step("zombie", condemned, end, "idle_closing_off"),
        ]
        self._connection(client, broker, "bootstrap", steps, "client", _LEARNING)

    def hold(
        self,
        client: int,
        broker: int,
        role: str,
        span: tuple[int, int],
        traffic: Traffic,
        *,
        excess: bool = False,
    ) -> None:
        """Keep a connection over a span; where its broker restarts, close it and open it anew."""
        begin, end = span
        name, cause = ("excess", "excess_instances") if excess else (role, "")
        for lost_broker, at in self._outages:
            if lost_broker != broker or not begin < at < end:
                continue
            step = Step(name, begin, at, cause)
            self._connection(client, broker, role, [step], "broker", (_HELLO, traffic))
            for attempt in range(self.random.randrange(3)):
                self.pod.failures.append(Failure(client, broker, at + 40 + 50 * attempt))
            begin = min(at + self.random.randrange(200, 1200), end)
        step = Step(name, begin, end, cause)
        self._connection(client, broker, role, [step], "client", (_HELLO, traffic))

    def go_quiet(
        self,
        client: int,
        broker: int,
        role: str,
        steps: list[Step],
        closed_by: str,
        traffic: Traffic,
    ) -> None:
        """Record a connection that is in use in its first step and silent from then on.

        Where its broker restarts during the first step it is opened anew.
        """
        first = steps[0]
        for lost_broker, at in self._outages:
            if lost_broker == broker and first.begin < at < first.end:
                before = first._replace(end=at)
                self._connection(client, broker, role, [before], "broker", (_HELLO, traffic))
                first = first._replace(begin=min(at + 300, first.end))
        steps = [first, *steps[1:]]
        self._connection(client, broker, role, steps, closed_by, (_HELLO, traffic))

    def expect(
        self, client: int, broker: int, connection_class: str, span: tuple[int, int]
    ) -> None:
        """Record that the client needs one connection of this class."""
        begin, end = span
        if begin < end:
            self.pod.expectations.append(
                Expectation(client, broker, connection_class, begin, end, 1)
            )

    def find(
        self,
        client: int,
        broker: int | None,
        what: tuple[str, str, str],
        span: tuple[int, int],
        held: int,
    ) -> None:
        """Record what the agent finds wrong; `what` is its name, cause and severity."""
        begin, end = span
        if begin < end:
            self.pod.findings.append(Finding(client, broker, *what, begin, end, held))

    def _connection(
        self,
        client: int,
        broker: int,
        role: str,
        steps: list[Step],
        closed_by: str,
        bytes_of: tuple[Traffic, Traffic],
    ) -> None:
        begin, quiet = steps[0].begin, steps[0].end
        lost = min((at for to, at in self._outages if to == broker and at > begin), default=0)
        if lost and lost < steps[-1].end:
            steps = [step._replace(end=min(step.end, lost)) for step in steps]
            closed_by = "broker"
        steps = [step for step in steps if step.begin < step.end]
        hello, traffic = bytes_of
        for number, step in enumerate(steps):
            self.pod.phases.append(
                Phase(
                    client=client,
                    broker=broker,
                    connection_class=step.connection_class,
                    role=role,
                    cause=step.cause,
                    begin=step.begin,
                    end=step.end,
                    useful=step.connection_class in _IN_USE and not step.cause,
                    rate_out=0 if number else traffic.sent,
                    rate_in=0 if number else traffic.received,
                    first_out=0 if number else hello.sent,
                    first_in=0 if number else hello.received,
                    quiet_since=quiet if number else None,
                    opens=not number,
                    born=begin,
                    closed_by=closed_by if number == len(steps) - 1 else "",
                )
            )
