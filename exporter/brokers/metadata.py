"""The cluster's list of brokers, by one metadata request on a connection that is then closed.

Off unless configured: a tool against wasted connections holds none. The client library is imported
by the first call, so an agent that never asks does not pay for it.
"""

from __future__ import annotations

__all__ = ["brokers_by_metadata"]

from typing import TYPE_CHECKING

from exporter.config.settings import KnownBroker
from exporter.config.values_in_files import read_value
from exporter.errors import SourceUnavailableError

if TYPE_CHECKING:
    from exporter.config.settings import MetadataCallSettings

# One question, no statistics, no pushed telemetry, no group joined: ask, and be gone.
_OWN_SETTINGS = {
    "client.id": "brokerwire-metadata",
    "group.id": "brokerwire-metadata",
    "allow.auto.create.topics": False,
    "enable.metrics.push": False,
    "log_level": 0,
}

# Not all topics, which may be thousands: one that is not there. Asked for by a consumer that must
# not create topics; a producer or an AdminClient would.
_NO_TOPIC = "__brokerwire_no_topic"


def brokers_by_metadata(settings: MetadataCallSettings) -> tuple[KnownBroker, ...]:
    """Ask the cluster once who its brokers are; blocks for `settings.timeout` at most.

    Raises:
        SourceUnavailableError: no answer, or the client's settings are wrong.
    """
    from confluent_kafka import Consumer, KafkaException

    servers = settings.bootstrap_servers
    try:
        wanted = {name: read_value(name, value) for name, value in settings.client.items()}
    except ValueError as error:
        raise SourceUnavailableError(f"brokers.metadata.client: {error}") from error
    try:
        client = Consumer(wanted | _OWN_SETTINGS | {"bootstrap.servers": servers})
    except (KafkaException, ValueError, TypeError) as error:
        # The library's text may quote a value: only the kind of the mistake is shown.
        raise SourceUnavailableError(
            f"brokers.metadata.client: the client library refuses these settings"
            f" ({type(error).__name__}); check the names against librdkafka's CONFIGURATION.md"
        ) from None
    try:
        answer = client.list_topics(topic=_NO_TOPIC, timeout=settings.timeout)
    except KafkaException as error:
        raise SourceUnavailableError(
            f"no broker list from {servers!r} within {settings.timeout:g} s: {error.args[0].str()}"
        ) from error
    finally:
        client.close()
    return tuple(
        KnownBroker(id=broker.id, host=broker.host, port=broker.port)
        for broker in answer.brokers.values()
    )
