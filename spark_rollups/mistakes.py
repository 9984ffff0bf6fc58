"""What Spark, Kafka and the file system say of a user's mistake, in one line that helps."""

from __future__ import annotations

__all__ = ["as_mistake", "without_secrets"]

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_rollups.errors import MissingPartError, RollupsError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

_PARTS: Final = frozenset({"delta", "jinja2", "matplotlib", "prometheus_client", "pyspark"})
_SECRET: Final = re.compile(
    r"passw|passphrase|secret|token|jaas|credential|private|\.key", re.IGNORECASE
)
_QUOTED: Final = re.compile(r"[\"']([^\"']+)[\"']")
_HIDDEN: Final = "[hidden]"


@dataclass(frozen=True, slots=True)
class _Mistake:
    """A sign in the text of an error, and what to say where it stands.

    `says` may name groups of the sign and options of the command line.
    """

    sign: str
    says: str
    kind: type[RollupsError] = UsageError


# The first that fits is told, so what is special stands before what is general.
_MISTAKES: Final = (
    _Mistake(
        r"PATH_NOT_FOUND\] Path does not exist: (?P<path>.+?)\.?(?: SQLSTATE|\n|$)",
        "nothing is at {path}: --input must name a folder, a file or a pattern that is there",
    ),
    _Mistake(
        r"(?:UnsupportedFileSystemException|No FileSystem for scheme)\D*?"
        r"\"?(?P<scheme>\w[\w+.-]*)\"",
        "Spark has no library for {scheme}:// here: give it the store's jars, such as"
        " spark-submit --packages org.apache.hadoop:hadoop-aws:3.4.2 for s3a",
    ),
    _Mistake(
        r"ClassNotFoundException: Class (?P<name>org\.apache\.hadoop\.fs\.\S+) not found",
        "Spark has no {name} here: give it the store's jars, such as"
        " spark-submit --packages org.apache.hadoop:hadoop-aws:3.4.2 for s3a",
    ),
    _Mistake(
        r"No resolvable bootstrap urls|Invalid url in bootstrap\.servers",
        "no address is known for --kafka {kafka}: check the host names and ports",
    ),
    _Mistake(
        r"SaslAuthenticationException|SslAuthenticationException|SSLHandshakeException",
        "the brokers at {kafka} refused us, or we them: check security.protocol, sasl.* and ssl.*"
        " among --kafka-option",
    ),
    _Mistake(
        r"(?:Topic|Cluster|Group)AuthorizationException",
        "the brokers at {kafka} do not let us read topic {topic}: it takes READ and DESCRIBE on it",
    ),
    _Mistake(
        r"UnknownTopicOrPartitionException|does not host this topic-partition",
        "no topic {topic} is at {kafka}: check --topic and the agents' journal.kafka.topic",
    ),
    _Mistake(
        r"UnsupportedVersionException|Timed out waiting for a node assignment"
        r"|errors\.TimeoutException",
        "no broker at --kafka {kafka} answered in time: check host, port, and security.protocol"
        " among --kafka-option",
    ),
    _Mistake(
        r"JAAS config|Login ?[mM]odule|No serviceName defined",
        "sasl.jaas.config among --kafka-option is not right: it is one line, as"
        ' org.apache.kafka...LoginModule required username="..." password="...";',
    ),
    _Mistake(
        r"ConfigException: [^\n]*?configuration (?P<key>[\w.]+)",
        "{key} among --kafka-option has a value that Kafka's client does not know",
    ),
    _Mistake(
        r"Kafka option '(?P<key>[\w.]+)' is not supported",
        "{key} cannot be set by --kafka-option: Spark sets it itself",
    ),
    _Mistake(
        r"Expected e\.g\. \{|must specify all TopicPartitions|startingOffsets contains",
        "--from-offsets and --to-offsets must name every partition of topic {topic},"
        ' as {{"{topic}": {{"0": 23, "1": -2}}}}',
    ),
    _Mistake(
        r"Could not parse Master URL: '?(?P<master>[^'\n]*)",
        "--master {master} is no master of Spark's: local[*], spark://HOST:7077 or yarn",
    ),
    _Mistake(
        r"DELTA_CANNOT_CREATE_LOG_PATH\] Cannot create (?P<path>\S+)",
        "cannot write {path}: --tables must be a folder that this user may make or write",
    ),
    _Mistake(
        r"FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]*? file (?P<path>\S+?)\.? File does not exist",
        "{path} went away while it was read: run it again, it goes on",
        RollupsError,
    ),
    _Mistake(
        r"OutOfMemoryError",
        "Spark's heap is too small for this: --memory, or --driver-memory of spark-submit",
    ),
    _Mistake(
        r"JAVA_GATEWAY_EXITED|Java gateway process exited",
        "Spark's JVM did not start; what it said stands above: is --memory as in 2g, and there?",
    ),
    _Mistake(
        r"Py4JNetworkError|Answer from Java side is empty",
        "Spark's JVM has gone: was it killed for want of memory? Run it again, it goes on",
        RollupsError,
    ),
    _Mistake(
        r"(?P<line>(?:Mkdirs failed to create|[^\n]*?(?:AccessControlException|AccessDenied\w*"
        r"|Permission denied|Read-only file system|No space left on device|Not a directory))"
        r"[^\n]*)",
        "cannot read or write: {line}",
    ),
)


def as_mistake(error: BaseException, options: argparse.Namespace) -> RollupsError | None:
    """Return what to tell the user of an error that is theirs to mend, None for a bug."""
    if isinstance(error, ModuleNotFoundError) and _root(error) in _PARTS:
        return MissingPartError(
            f"this needs the Python package {_root(error)} where the driver runs:"
            " pip install -e '.[spark]' in a checkout"
        )
    if isinstance(error, OSError) and error.filename is not None:
        return UsageError(f"cannot read or write {error.filename}: {error.strerror}")
    text = f"{type(error).__name__}: {error}"
    for mistake in _MISTAKES:
        found = re.search(mistake.sign, text)
        if found:
            words = mistake.says.format_map(_Words(vars(options) | found.groupdict()))
            return mistake.kind(without_secrets(words, options))
    return None


def without_secrets(text: str, options: argparse.Namespace) -> str:
    """Take out of a text what the Kafka options keep secret."""
    for pair in getattr(options, "kafka_option", None) or ():
        key, _, value = pair.partition("=")
        if _SECRET.search(key):
            for secret in (value, *_QUOTED.findall(value)):
                text = text.replace(secret, _HIDDEN) if secret else text
    return text


class _Words(dict[str, Any]):
    """Options by name; a command that does not have one has nothing to say of it."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__({name: value for name, value in known.items() if value is not None})

    def __missing__(self, name: str) -> str:
        return f"({name})"


def _root(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]
