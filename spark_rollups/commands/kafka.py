"""The flags that name a topic, and where the secrets of its client are."""

from __future__ import annotations

__all__ = ["add_kafka_flags", "options_of", "with_files"]

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_rollups.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE: Final = "file:"


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
        help="a setting of the Kafka client, such as security.protocol=SSL; a VALUE file:/path is"
        " what stands in that file, for secrets; may be repeated",
    )


def _pair(text: str) -> str:
    key, equals, _ = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return text


def options_of(options: argparse.Namespace) -> dict[str, str]:
    """Return Spark's options for the topic of the command line."""
    from spark_rollups.jobs.sources import kafka_options

    # Kept in their place: what is told of an error is looked through for these values.
    options.kafka_option = with_files(options.kafka_option)
    return kafka_options(options.kafka, options.topic, options.kafka_option)


def with_files(pairs: Iterable[str]) -> list[str]:
    """Return `key=value` pairs, those of the form `key=file:/path` with what stands in the file.

    Arguments can be read by whoever may list processes or pods: no place for a password.

    Raises:
        UsageError: a file cannot be read, or has nothing in it.

    """
    return [_with_file(*pair.split("=", 1)) for pair in pairs]


def _with_file(key: str, value: str) -> str:
    if not value.startswith(_FILE):
        return f"{key}={value}"
    path = value.removeprefix(_FILE)
    try:
        found = Path(path).read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise UsageError(f"--kafka-option {key}: cannot read {path!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--kafka-option {key}: {path!r} is no text: for a keystore give its path as"
            " ssl.keystore.location, without file:"
        ) from error
    if not found:
        raise UsageError(f"--kafka-option {key}: {path!r} is empty")
    return f"{key}={found}"
