"""A real Kafka cluster on loopback: one controller and up to three brokers, all processes."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.lab import topics
from tests.lab.addresses import Subnet
from tests.lab.broker import KafkaNode
from tests.lab.certificates import make_certificates
from tests.lab.errors import LabError
from tests.lab.listeners import LISTENERS, PASSWORD, USER, Mechanism
from tests.lab.settings import INTERNAL_PORT, PORTS, Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab.artifacts import Artifacts
    from tests.lab.certificates import CertificateShape
    from tests.lab.processes import ManagedProcess

__all__ = ["KafkaCluster"]

_CONTROLLER_ID: Final = 1000
_CONTROLLER_HOST: Final = 100
_RELAY_HOST: Final = 200
_START_SECONDS: Final = 120.0


class KafkaCluster:
    """Brokers 1 to N on addresses of their own, and one controller that no client talks to.

    Brokers talk to each other, and the lab to the brokers, over an INTERNAL listener: the
    ports of the other listeners carry nothing but the connections of the clients under test.
    """

    def __init__(
        self,
        artifacts: Artifacts,
        *,
        brokers: int = 3,
        listeners: Sequence[str] = ("PLAINTEXT",),
        broker_config: Mapping[str, object] | None = None,
        replication: int = 1,
        certificates: Mapping[int, CertificateShape] | None = None,
    ) -> None:
        """Describe the cluster; `start` makes it real.

        `replication` is that of the internal topics: with 1, a coordinator stays on its
        broker and is gone with it, with more it moves. Brokers share a certificate, but those
        in `certificates` have their own.
        """
        unknown = set(listeners) - set(LISTENERS)
        if unknown:
            raise LabError(f"no such listener: {sorted(unknown)}; there are {list(LISTENERS)}")
        self.listeners = [LISTENERS[name] for name in listeners]
        self.broker_ids = tuple(range(1, brokers + 1))
        self._artifacts = artifacts
        self._broker_config = {key: str(value) for key, value in (broker_config or {}).items()}
        self._folder = Path(tempfile.mkdtemp(prefix=f"brokerwire-lab-{os.getpid()}-"))
        self._subnet = Subnet()
        self._cluster_id = _cluster_id()
        self._hosts = {broker: self._subnet.host(broker) for broker in self.broker_ids}
        self._past_hosts: dict[str, int] = {}
        self._nodes: dict[int, KafkaNode] = {}
        self._processes: dict[int, ManagedProcess] = {}
        self._retired: list[ManagedProcess] = []
        controller = self._subnet.host(_CONTROLLER_HOST)
        self._base_port = self._subnet.free_base_port(
            [*self._hosts.values(), controller], count=PORTS
        )
        self._certificates = None
        if any(listener.uses_tls for listener in self.listeners):
            spare = [self._subnet.host(number) for number in range(1, 30)]
            shapes = {self._hosts[broker]: each for broker, each in (certificates or {}).items()}
            self._certificates = make_certificates(self._folder / "certificates", spare, shapes)
        self._layout = Layout(
            controller=f"{_CONTROLLER_ID}@{controller}:{self._base_port}",
            base_port=self._base_port,
            listeners=self.listeners,
            certificates=self._certificates,
            replication=replication,
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start all processes at once and wait until every broker serves."""
        try:
            controller = self._controller()
            scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
            format_with = ["--add-scram", scram] if self._uses_sasl() else ["--ignore-formatted"]
            self._launch(controller, format_with=format_with)
            for broker in self.broker_ids:
                self._launch(self._broker(broker, self._hosts[broker]))
            for node_id in (_CONTROLLER_ID, *self.broker_ids):
                self._wait_ready(node_id)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End every process and remove every file; safe to call twice."""
        for process in (*self._processes.values(), *self._retired):
            process.kill()
        self._processes.clear()
        self._retired.clear()
        self._subnet.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    # One broker -------------------------------------------------------------------------

    def stop(self, broker: int) -> None:
        """Shut the broker down in order, as a rolling restart does."""
        self._process(broker).terminate(timeout=60)

    def kill(self, broker: int) -> None:
        """End the broker's process at once; the kernel closes its sockets."""
        self._process(broker).kill()

    def freeze(self, broker: int) -> None:
        """Stop the broker's process: its kernel answers, it does not."""
        self._process(broker).freeze()

    def thaw(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self._process(broker).thaw()

    def restart(self, broker: int) -> None:
        """Stop the broker, if it runs, start it at the same address and wait for it."""
        process = self._process(broker)
        if process.running:
            process.terminate(timeout=60)
        self._launch(self._nodes[broker])
        self._wait_ready(broker)

    def move(self, broker: int, new_address: str | None = None) -> str:
        """Bring the broker up at another address while its old process hangs; return the address.

        The old process stays frozen, so that its connections stay: a restart in order would
        have closed them. The controller lets the new one in when the old one's session has
        ended, after `broker.session.timeout.ms`.
        """
        moves = sum(each == broker for each in self._past_hosts.values())
        host = new_address or self._subnet.host(broker + 10 * (moves + 1))
        old = self._process(broker)
        old.freeze()
        self._retired.append(old)
        self._past_hosts[self._hosts[broker]] = broker
        node = self._broker(broker, host, folder=f"broker-{broker}-at-{host}")
        node.copy_data_from(self._nodes[broker])
        self._hosts[broker] = host
        self._launch(node)
        self._wait_ready(broker)
        return host

    def kill_retired(self) -> None:
        """End the processes that `move` left behind: now their connections break."""
        for process in self._retired:
            process.kill()
        self._retired.clear()

    def pid(self, broker: int) -> int:
        """Return the process id of the broker."""
        return self._process(broker).pid

    def log_text(self, broker: int) -> str:
        """Return what the broker's process has written: warnings, and that it started."""
        return self._process(broker).log_text()

    @property
    def relay_host(self) -> str:
        """An address of the cluster's own net that belongs to no broker."""
        return self._subnet.host(_RELAY_HOST)

    # Addresses --------------------------------------------------------------------------

    def host(self, broker: int) -> str:
        """Return the address of the broker."""
        return self._hosts[broker]

    def port(self, listener: str = "PLAINTEXT") -> int:
        """Return the port of a listener, the same on every broker."""
        return self._base_port + LISTENERS[listener].offset

    def addresses(self, listener: str = "PLAINTEXT") -> dict[int, str]:
        """Return `ip:port` by broker id, as advertised now."""
        return {broker: f"{host}:{self.port(listener)}" for broker, host in self._hosts.items()}

    def bootstrap(self, listener: str = "PLAINTEXT", *, brokers: Sequence[int] = ()) -> str:
        """Return a value for bootstrap.servers: all brokers, or only those named."""
        addresses = self.addresses(listener)
        return ",".join(addresses[broker] for broker in brokers or self.broker_ids)

    def broker_of_address(self) -> dict[str, int]:
        """Return the broker id by `ip:port`, all listeners, past addresses included."""
        hosts = {**self._past_hosts, **{host: broker for broker, host in self._hosts.items()}}
        return {
            f"{host}:{self.port(listener.name)}": broker
            for host, broker in hosts.items()
            for listener in self.listeners
        }

    def java_properties(
        self, listener: str = "PLAINTEXT", *, mechanism: Mechanism = "PLAIN"
    ) -> dict[str, str]:
        """Return bootstrap.servers and the security settings for a Java client."""
        security = LISTENERS[listener].java_properties(self._certificates, mechanism)
        return {"bootstrap.servers": self.bootstrap(listener), **security}

    def librdkafka_properties(
        self, listener: str = "PLAINTEXT", *, mechanism: Mechanism = "PLAIN"
    ) -> dict[str, str]:
        """Return bootstrap.servers and the security settings for a librdkafka client."""
        security = LISTENERS[listener].librdkafka_properties(self._certificates, mechanism)
        return {"bootstrap.servers": self.bootstrap(listener), **security}

    def create_topic(
        self, name: str, partitions: int = 1, *, leaders: Sequence[int] | None = None
    ) -> None:
        """Create a topic without replicas; partition p is led by `leaders[p]`.

        Without `leaders` the brokers take turns, in order. Creating one that exists with
        the same shape is no error, so that tests can share a cluster.
        """
        turns = leaders or [self.broker_ids[p % len(self.broker_ids)] for p in range(partitions)]
        answering = [
            broker
            for broker in self.broker_ids
            if self._process(broker).running and not self._process(broker).frozen
        ]
        servers = ",".join(
            f"{self._hosts[broker]}:{self._base_port + INTERNAL_PORT}" for broker in answering
        )
        topics.create(servers, name, turns)

    # Inside -----------------------------------------------------------------------------

    def _uses_sasl(self) -> bool:
        return any(listener.uses_sasl for listener in self.listeners)

    def _process(self, broker: int) -> ManagedProcess:
        try:
            return self._processes[broker]
        except KeyError as error:
            raise LabError(f"there is no broker {broker}, or the cluster is closed") from error

    def _launch(self, node: KafkaNode, *, format_with: Sequence[str] = ()) -> None:
        self._nodes[node.node_id] = node
        self._processes[node.node_id] = node.start(self._artifacts, format_with=format_with)

    def _wait_ready(self, node_id: int) -> None:
        self._nodes[node_id].wait_ready(self._processes[node_id], timeout=_START_SECONDS)

    def _controller(self) -> KafkaNode:
        settings = {**self._layout.controller_settings(), **self._broker_config}
        return self._node(_CONTROLLER_ID, "controller", settings)

    def _broker(self, broker: int, host: str, *, folder: str = "") -> KafkaNode:
        settings = {**self._layout.broker_settings(host), **self._broker_config}
        return self._node(broker, folder or f"broker-{broker}", settings)

    def _node(self, node_id: int, folder: str, settings: Mapping[str, str]) -> KafkaNode:
        return KafkaNode(
            node_id=node_id,
            folder=self._folder / folder,
            settings=settings,
            cluster_id=self._cluster_id,
            name=folder,
        )


def _cluster_id() -> str:
    """Return a base64 UUID that does not begin with a dash, which the storage tool refuses."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
