"""The server settings of a lab cluster: small, quick to start, and otherwise Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.certificates import Certificates
    from tests.lab.listeners import Listener

__all__ = ["INTERNAL_PORT", "PORTS", "Layout"]

# Distances from a cluster's base port; the controller has the base port itself, and each kind
# of client listener says its own.
INTERNAL_PORT: Final = 1
PORTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What all nodes of a cluster share."""

    controller: str
    """`id@host:port`."""
    base_port: int
    listeners: Sequence[Listener]
    certificates: Certificates | None
    replication: int

    def controller_settings(self) -> dict[str, str]:
        """Return the settings of the controller."""
        return {
            **self._shared(),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{self.controller.partition('@')[2]}",
        }

    def broker_settings(self, host: str) -> dict[str, str]:
        """Return the settings of a broker at this address."""
        listeners = [f"INTERNAL://{host}:{self.base_port + INTERNAL_PORT}"]
        secured: dict[str, str] = {}
        for listener in self.listeners:
            listeners.append(f"{listener.name}://{host}:{self.base_port + listener.offset}")
            secured |= listener.broker_properties(self.certificates, host)
        return {
            **self._shared(),
            "process.roles": "broker",
            "listeners": ",".join(listeners),
            "inter.broker.listener.name": "INTERNAL",
            **secured,
        }

    def _shared(self) -> dict[str, str]:
        protocols = {listener.name: listener.protocol for listener in self.listeners}
        protocols |= {"CONTROLLER": "PLAINTEXT", "INTERNAL": "PLAINTEXT"}
        replication = str(self.replication)
        return {
            "controller.quorum.voters": self.controller,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "num.network.threads": "1",
            "num.io.threads": "2",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": replication,
            "share.coordinator.state.topic.min.isr": "1",
        }
