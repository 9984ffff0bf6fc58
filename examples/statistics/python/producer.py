"""A producer whose connections brokerwire can name: `python producer.py localhost:9092 topic`."""

from __future__ import annotations

import sys

from confluent_kafka import Producer

# From the installed distribution `brokerwire`; or copy exporter/stats.py, which needs nothing else,
# beside this file and write `from stats import send_statistics`.
from exporter.stats import send_statistics


def main() -> int:
    """Send what comes in on standard input, a record a line."""
    bootstrap_servers, topic = sys.argv[1:3]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "example",
            "statistics.interval.ms": 5000,
            "stats_cb": send_statistics("unix:///run/brokerwire/statistics.sock"),
        }
    )
    for line in sys.stdin:
        producer.produce(topic, line.rstrip("\n"))
        # Statistics come out of poll, as delivery reports do: no poll, no statistics.
        producer.poll(0)
    return producer.flush(10)


if __name__ == "__main__":
    sys.exit(main())
