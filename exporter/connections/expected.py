"""How many connections a client should hold to each broker, by rule, each with its reason.

Read in the clients' sources and measured; KAFKA_CLIENTS section 5 has where. The rules are for one
client instance that shows its metrics: without them nobody knows how many clients a process has.
Pure.
"""

from __future__ import annotations

__all__ = ["RULES", "ClientUse", "default_idle_limit", "expected_by_broker"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.model import ClientKind, Library, Role
from exporter.snapshot import Expectation

if TYPE_CHECKING:
    from collections.abc import Mapping

RULES: Mapping[str, str] = {
    "java.bootstrap": "a Java client needs one connection to a listed server until it has the list"
    " of brokers; it never uses it again",
    "java.data": "a Java client holds one connection to each broker it produces to or fetches from",
    "java.coordinator": "a Java consumer holds one more to its group's coordinator, also where it"
    " fetches from that broker",
    "java.admin": "a Java AdminClient holds one connection to each broker it asks",
    "librdkafka.bootstrap": "librdkafka needs one connection to a listed server until it has the"
    " list of brokers; from 2.10 on it closes it within two seconds",
    "librdkafka.data": "librdkafka holds one connection to each broker it uses",
    "librdkafka.coordinator": "librdkafka holds one more to its group's coordinator",
    "librdkafka.transaction": "librdkafka holds one more to its transaction coordinator; a Java"
    " producer shares its data connection",
    "client.data": "a Kafka client needs one connection to each broker it uses",
    "configured": "the configuration says so (clients.rules)",
}

_DEFAULT_IDLE_LIMITS = {
    ClientKind.PRODUCER: 540.0,
    ClientKind.CONSUMER: 540.0,
    ClientKind.CONNECT: 540.0,
    ClientKind.ADMIN: 300.0,
}


@dataclass(frozen=True, slots=True)
class ClientUse:
    """What one client does with one broker: the roles it has there, and whether it has learned."""

    library: Library
    kind: ClientKind
    roles: frozenset[Role]
    learned: bool
    configured: int | None = None


def default_idle_limit(library: Library, kind: ClientKind) -> float | None:
    """Return after how many seconds a client closes an idle connection: 0 never, None unknown."""
    if library is Library.JAVA:
        return _DEFAULT_IDLE_LIMITS.get(kind)
    return 0.0 if library is Library.LIBRDKAFKA else None


def expected_by_broker(use: ClientUse) -> Expectation:
    """Return how many connections a client should hold to a broker that it uses in these roles."""
    if use.configured is not None:
        return Expectation(use.configured, (("configured", RULES["configured"]),))
    family = "java" if use.library is Library.JAVA else "librdkafka"
    rules = []
    shares = use.library is Library.JAVA and Role.TRANSACTION in use.roles
    if Role.DATA in use.roles or shares:
        rules.append(f"{family}.data" if use.library is not Library.UNKNOWN else "client.data")
    if Role.ADMIN in use.roles:
        rules.append("java.admin" if use.library is Library.JAVA else f"{family}.data")
    if Role.COORDINATOR in use.roles:
        rules.append(f"{family}.coordinator")
    if Role.TRANSACTION in use.roles and not shares:
        rules.append(f"{family}.transaction")
    if Role.BOOTSTRAP in use.roles and not use.learned:
        rules.append(f"{family}.bootstrap")
    return Expectation(len(rules), tuple((rule, RULES[rule]) for rule in rules))
