"""Who plays in the demo: each client, what is wrong with it, and what one would change."""

from __future__ import annotations

__all__ = ["ROLES", "Part", "client_options", "demo_settings"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exporter.config.settings import (
    BrokerSettings,
    ClassSettings,
    ClientRule,
    ClientSettings,
    JavaSourceSettings,
    PollSettings,
    PortRange,
    ProcessRule,
    Settings,
    SourceSettings,
    StatisticsSettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Soon enough to be seen in a demo; in real life minutes.
SETTLE_SECONDS = 3.0
ZOMBIE_SECONDS = 12.0
IDLE_CLOSE_SECONDS = 4.0
WORKERS = 6


@dataclass(frozen=True, slots=True)
class Part:
    """One client of the demo. `change` is "" for those that behave."""

    process: str
    is_staged: bool
    what: str
    change: str = ""


ROLES = (
    Part(
        "good-producer",
        is_staged=False,
        what="One producer, made once and shared: one connection to each broker it writes to.",
    ),
    Part(
        "good-consumer",
        is_staged=False,
        what="A group's consumer that polls: its data, and one more to the group's coordinator.",
    ),
    Part(
        "legacy-consumer",
        is_staged=True,
        what="Asked every listed server for metadata, then connected to the same brokers again."
        " Idle timeout disabled: the first connections stay open.",
        change="Remove connections.max.idle.ms=-1; list two servers in bootstrap.servers.",
    ),
    Part(
        "stuck-consumer",
        is_staged=True,
        what="Its application does not poll: the broker closed idle connections,"
        " and it has not noticed.",
        change="Keep calling poll(), or close the consumer.",
    ),
    Part(
        "leaky-client",
        is_staged=True,
        what="Reset by the network, never closed: descriptors that ss and netstat do not show.",
        change="Close on error; update the library; a restart frees the descriptors.",
    ),
    Part(
        "many-producers",
        is_staged=False,
        what=f"{WORKERS} producers in one process, where the configuration allows one.",
        change="Share one producer: it is thread-safe, and batches better.",
    ),
    Part(
        "per-request",
        is_staged=False,
        what="A producer for each request: connects, asks for metadata, sends one record, closes.",
        change="Make one producer when the service starts.",
    ),
    Part(
        "health-probe",
        is_staged=False,
        what="A TCP health check twice a second: over before any poll,"
        " but each one costs the broker.",
        change="Probe less often, or ask an AdminClient that is kept open.",
    ),
)


def client_options(
    brokers: Sequence[str], topic: str, front: Mapping[str, int], inlet: str
) -> dict[str, dict[str, Any]]:
    """Return what each client is to know; `inlet` is the socket that takes statistics."""
    real = {"bootstrap": list(brokers), "topic": topic, "statistics_socket": inlet}
    closing, resetting = (f"127.0.0.1:{front[name]}" for name in ("closing", "resetting"))
    return {
        "good-producer": real,
        "good-consumer": real,
        "legacy-consumer": {"bootstrap": list(brokers), "topic": topic},
        "stuck-consumer": {"address": closing, "topic": topic, "connections": 2},
        "leaky-client": {"address": resetting, "topic": topic, "connections": 2},
        "many-producers": {**real, "count": WORKERS, "bootstrap": list(brokers[:1])},
        "per-request": {**real, "bootstrap": list(brokers[:1])},
        "health-probe": {"address": brokers[0]},
    }


def demo_settings(ports: Sequence[int], page_port: int, inlet: str) -> Settings:
    """Return the agent's settings: the same agent as in production, with shorter times."""
    return Settings(
        poll=PollSettings(interval=0.5),
        brokers=BrokerSettings(ports=tuple(PortRange(port, port) for port in sorted(ports))),
        clients=ClientSettings(
            # The cluster's and the front's own connections are no clients.
            processes=tuple(ProcessRule(name=f"^{part.process}$") for part in ROLES),
            rules=(
                ClientRule(client_id="reports", connections_max_idle=0.0),
                ClientRule(process="many-producers", instances=1),
            ),
        ),
        sources=SourceSettings(
            java=(
                JavaSourceSettings(
                    name="reports", url=f"http://127.0.0.1:{page_port}/metrics", interval=2.0
                ),
            ),
            librdkafka=StatisticsSettings(unix_socket=inlet),
        ),
        classes=ClassSettings(
            settle_after=SETTLE_SECONDS, zombie_after=ZOMBIE_SECONDS, excess_after=SETTLE_SECONDS
        ),
    )
