"""What a test can do with a process that hosts Kafka clients, whichever library they are of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from tests.lab.errors import LabError
from tests.lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab.cluster import KafkaCluster
    from tests.lab.control import Control
    from tests.lab.listeners import Mechanism
    from tests.lab.processes import ManagedProcess
    from tests.lab.truth import TruthConnection

__all__ = ["ClientProcess"]

Properties: TypeAlias = "Mapping[str, object]"


class ClientProcess(ABC):
    """A process with any number of clients, each under a name of the lab's own.

    The client.id is the name unless `properties` say otherwise.
    """

    def __init__(self, cluster: KafkaCluster, process: ManagedProcess, control: Control) -> None:
        """Take over a process that is ready for commands."""
        self.cluster = cluster
        self.process = process
        self._control = control

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def version(self) -> str:
        """The version that the client library gives itself."""
        version: str = self._control.greeting["version"]
        return version

    def end(self) -> None:
        """Kill the process; safe to call twice."""
        self.process.kill()

    # Clients ----------------------------------------------------------------------------

    def producer(
        self,
        name: str,
        *,
        listener: str | None = None,
        mechanism: Mechanism = "PLAIN",
        properties: Properties | None = None,
        init_transactions: bool = True,
    ) -> None:
        """Create a producer; with `transactional.id` among the properties, initialise it too."""
        made = self._properties(name, listener, mechanism, properties)
        self._control.call("create", kind="producer", name=name, p=made)
        if init_transactions and "transactional.id" in made:
            self._control.call("init", name=name)

    def init_transactions(self, name: str) -> None:
        """Initialise a transactional producer that was created without that."""
        self._control.call("init", name=name)

    def consumer(
        self,
        name: str,
        *,
        topics: Sequence[str] = (),
        group: str | None = None,
        assign: Sequence[str] = (),
        poll: bool = True,
        listener: str | None = None,
        mechanism: Mechanism = "PLAIN",
        properties: Properties | None = None,
    ) -> None:
        """Create a consumer that subscribes to `topics`, or is assigned `topic:partition`s."""
        given = {"auto.offset.reset": "earliest", **(properties or {})}
        if group is not None:
            given["group.id"] = group
        made = self._properties(name, listener, mechanism, given)
        self._control.call(
            "create", kind="consumer", name=name, topics=topics, assign=assign, poll=poll, p=made
        )

    def admin(
        self,
        name: str,
        *,
        listener: str | None = None,
        mechanism: Mechanism = "PLAIN",
        properties: Properties | None = None,
    ) -> None:
        """Create an admin client."""
        made = self._properties(name, listener, mechanism, properties)
        self._control.call("create", kind="admin", name=name, p=made)

    def producer_per_request(
        self,
        name: str,
        topic: str,
        *,
        partitions: Sequence[int] = (0,),
        requests: int = -1,
        interval: float = 1.0,
        leak: bool = False,
        listener: str | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Make a new producer for every request, in the background; `leak` never closes them."""
        self._control.call(
            "create", kind="requests", name=name, topic=topic, partitions=partitions,
            requests=requests, interval_ms=_millis(interval), leak=leak,
            p=self._properties(name, listener, "PLAIN", properties),
        )  # fmt: skip

    def leak(self, name: str, count: int = 1) -> None:
        """Make `count` more producers like this one, client.id included, that nobody closes."""
        self._control.call("leak", name=name, count=count)

    # What they do -----------------------------------------------------------------------

    def send(
        self,
        name: str,
        topic: str,
        *,
        partitions: Sequence[int] = (0,),
        rounds: int = 1,
        interval: float = 0.0,
        size: int = 10,
        wait: bool = True,
        timeout: float = 120.0,
    ) -> dict[str, Any]:
        """Send `rounds` times one record to each partition, a transaction a round if it can.

        With `wait=False` the sending goes on in the background, `rounds=-1` until `stop`.
        """
        status: dict[str, Any] = self._control.call(
            "send", timeout=timeout, name=name, topic=topic, partitions=partitions,
            rounds=rounds, interval_ms=_millis(interval), size=size, wait=wait,
        )  # fmt: skip
        if wait and status["failed"]:
            raise LabError(f"{name} could not send: {status}")
        return status

    def poll(self, name: str, *, on: bool) -> None:
        """Let a consumer poll, or stop polling without being closed."""
        self._control.call("poll", name=name, on=on)

    def ask(self, name: str, what: str = "cluster", *, brokers: Sequence[int] = ()) -> list[str]:
        """Let an admin client ask for `cluster`, `topics`, or the `configs` of each broker."""
        answer: list[str] = self._control.call("ask", name=name, what=what, brokers=brokers)
        return answer

    def stop(self, name: str) -> None:
        """End a client's background work; it stays open."""
        self._control.call("stop", name=name)

    def close(self, name: str, *, timeout: float = 5.0) -> None:
        """Close a client in order."""
        self._control.call("close", name=name, timeout_ms=_millis(timeout), timeout=timeout + 30)

    def status(self, name: str) -> dict[str, Any]:
        """Return a client's counters, its assignment and its last error."""
        status: dict[str, Any] = self._control.call("status", name=name)
        return status

    def wait_assignment(self, name: str, *, partitions: int, timeout: float = 60.0) -> None:
        """Wait until a group consumer has this many partitions."""
        wait_until(
            f"{name} to have {partitions} partitions",
            lambda: len(self.status(name)["assignment"]) == partitions,
            timeout=timeout,
        )

    @abstractmethod
    def truth(self) -> list[TruthConnection]:
        """Return every open connection of every client here, as the clients know them."""

    @abstractmethod
    def _base_properties(self, listener: str, mechanism: Mechanism) -> dict[str, str]:
        """Return the library's own settings for a listener."""

    def _properties(
        self,
        name: str,
        listener: str | None,
        mechanism: Mechanism,
        properties: Properties | None,
    ) -> dict[str, object]:
        chosen = listener or self.cluster.listeners[0].name
        return {
            "client.id": name,
            **self._base_properties(chosen, mechanism),
            **(properties or {}),
        }


def _millis(seconds: float) -> int:
    return round(seconds * 1000)
