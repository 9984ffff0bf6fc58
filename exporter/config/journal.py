"""The section `journal` of the configuration."""

from __future__ import annotations

__all__ = [
    "JOURNAL_LABELS",
    "JournalFileSettings",
    "JournalKafkaSettings",
    "JournalSettings",
]

import re
from dataclasses import dataclass, field

from exporter.config.secrets import check_client
from exporter.config.types import Size  # noqa: TC001  (read at run time, by `hints_of`)

JOURNAL_LABELS = ("cluster", "kafka_cluster", "namespace", "service", "pod", "node")
MINUTE_MS = 60_000
SHORTEST_INTERVAL_MS = 1000
LONGEST_ID = 256
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

# What the journal's promise rests on: in order, once, and never given up.
OWN_CLIENT_SETTINGS = (
    "bootstrap.servers",
    "client.id",
    "enable.idempotence",
    "acks",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "transactional.id",
    "statistics.interval.ms",
    "socket.receive.buffer.bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFileSettings:
    """Write the journal to files of JSON lines. No more than `max_files` times `max_bytes`."""

    path: str
    """The file that is written; full ones stay beside it under `NAME-TIME-SEQ.EXTENSION`."""
    max_bytes: Size = 64 * 1024 * 1024
    """Size at which a file is rotated."""
    max_files: int = 8
    """Number of files to keep, including the current one; the oldest are deleted."""

    def __post_init__(self) -> None:
        if self.path.endswith("/"):
            raise ValueError("`path` must name a file, not a folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalKafkaSettings:
    """Write the journal to a Kafka topic. The agent holds connections to brokers for this."""

    bootstrap_servers: str
    """Where to connect, as in a client: `broker-1:9092,broker-2:9092`."""
    spool_folder: str
    """Folder of this agent alone, where records wait until brokers have them."""
    topic: str = "brokerwire-journal"
    """The topic; its messages have `agent_id` as their key."""
    spool_max_bytes: Size = 64 * 1024 * 1024
    """Maximum size of the spool; beyond it the oldest records are dropped and counted."""
    flush_timeout: float = 5.0
    """How long SIGTERM waits for the brokers; what is not acknowledged stays in the spool."""
    client: dict[str, str] = field(default_factory=dict)
    """Settings of librdkafka, such as those of TLS and SASL; `file:/path` is read from a file."""

    def __post_init__(self) -> None:
        if not _TOPIC.fullmatch(self.topic):
            raise ValueError("`topic` must have only letters, digits, dot, underscore and minus")
        check_client(self.client)
        for name in self.client:
            if name in OWN_CLIENT_SETTINGS:
                raise ValueError(f"`client` must not set {name}: the journal has to")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Write counters each minute, for the rollups of a fleet (docs/fleet.md)."""

    interval: float = 60.0
    """Interval between batches; it must divide a minute."""
    agent_id: str | None = None
    """Name of this agent, stable across restarts; by default the pod's uid, or host and port."""
    labels: dict[str, str] = field(default_factory=dict)
    """Where this is: cluster, kafka_cluster, namespace, service, pod, node; `file:/path` works."""
    max_series: int = 2000
    """Series kept in memory and in the journal; the rest is summed as `other`."""
    file: JournalFileSettings | None = None
    """Write to files; off unless this section is there."""
    kafka: JournalKafkaSettings | None = None
    """Write to a Kafka topic; off unless this section is there."""

    def __post_init__(self) -> None:
        milliseconds = round(self.interval * 1000)
        if milliseconds < SHORTEST_INTERVAL_MS or MINUTE_MS % milliseconds:
            raise ValueError("`interval` must divide a minute and be 1s or more: 1m, 30s, 10s ...")
        if self.agent_id is not None and len(self.agent_id) > LONGEST_ID:
            raise ValueError(f"`agent_id` must not be longer than {LONGEST_ID} characters")
        for name in self.labels:
            if name not in JOURNAL_LABELS:
                raise ValueError(
                    f"`labels` must not have {name!r}; known here: {', '.join(JOURNAL_LABELS)}"
                )
        if self.file is None and self.kafka is None:
            raise ValueError("`file` or `kafka` is needed: somewhere it must be written to")
