"""The flags that name a topic."""

from __future__ import annotations

__all__ = ["add_kafka_flags", "options_of"]

import argparse


def add_kafka_flags(parser: argparse.ArgumentParser) -> None:
    """Add the brokers, the topic and the Kafka client's own settings."""
    parser.add_argument("--kafka", metavar="HOST:PORT", help="bootstrap servers")
    parser.add_argument(
        "--topic",
        default="brokerwire-journal",
        help="the journals' topic (default: brokerwire-journal, as of the agents)",
    )
    parser.add_argument(
        "--kafka-option",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="a setting of the Kafka client, such as security.protocol=SSL; may be repeated",
    )


def _pair(text: str) -> str:
    key, equals, _ = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return text


def options_of(options: argparse.Namespace) -> dict[str, str]:
    """Return Spark's options for the topic of the command line."""
    from spark_rollups.jobs.sources import kafka_options

    return kafka_options(options.kafka, options.topic, options.kafka_option)
