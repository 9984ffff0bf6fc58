"""A producer that sends its statistics to brokerwire: `python producer.py localhost:9092 topic`."""

from __future__ import annotations

import sys

from brokerwire_client import send_statistics
from confluent_kafka import Producer


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
        # librdkafka delivers statistics from poll(), as it does delivery reports.
        producer.poll(0)
    return producer.flush(10)


if __name__ == "__main__":
    sys.exit(main())
