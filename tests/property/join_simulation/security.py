"""What a security setting costs: per record, per connection, per login."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import CipherUse, Library

if TYPE_CHECKING:
    import random

# The most plaintext that a TLS record holds (JSSE pads TLS 1.3 records by 16 bytes).
RECORD_BYTES = {"TLSv1.3": 16_367, "TLSv1.2": 16_384}


class Bytes(NamedTuple):
    """Bytes sent and received."""

    out: int
    incoming: int


NO_BYTES = Bytes(0, 0)


@dataclass(frozen=True)
class Tls:
    """TLS as a client's stack and a broker (a JVM) speak it. `cost` is per record and writer."""

    protocol: str
    cipher: str
    cost: Bytes
    full: Bytes
    resumed: Bytes
    mutual: bool = False

    @property
    def record_bytes(self) -> int:
        return RECORD_BYTES[self.protocol]

    def use(self, connections: int) -> CipherUse:
        return CipherUse(self.protocol, self.cipher, connections)


@dataclass(frozen=True)
class Sasl:
    """A login: bytes besides the client.id, how often that is sent, messages each way, jitter."""

    first: Bytes
    names: int
    messages: int
    again: Bytes
    names_again: int
    messages_again: int
    jitter: Bytes = NO_BYTES


@dataclass(frozen=True)
class Security:
    """What the clients of one process use at one listener."""

    tls: Tls | None = None
    sasl: Sasl | None = None
    reauthentication_seconds: float | None = None

    @property
    def cost(self) -> Bytes:
        return self.tls.cost if self.tls else NO_BYTES

    def records(self, size: int) -> int:
        """Return how many records that many bytes take when they are written at once."""
        return -(-size // self.tls.record_bytes) if self.tls else 1


_JAVA_TLS = {
    "tls13": Tls("TLSv1.3", "TLS_AES_256_GCM_SHA384", Bytes(38, 38), Bytes(536, 4130), Bytes(2499, 2207)),
    "tls12": Tls("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", Bytes(29, 29), Bytes(376, 4024), Bytes(2276, 2065)),
    "chacha": Tls("TLSv1.2", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", Bytes(21, 21), Bytes(297, 4016), Bytes(2197, 2057)),
    "mutual13": Tls("TLSv1.3", "TLS_AES_256_GCM_SHA384", Bytes(38, 38), Bytes(2463, 5949), Bytes(4152, 3860), mutual=True),
    "mutual12": Tls("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", Bytes(29, 29), Bytes(2298, 5808), Bytes(3929, 3718), mutual=True),
}  # fmt: skip

# librdkafka never resumed. OpenSSL pads nothing; the broker's records are JSSE's.
_OPENSSL = {
    "tls13": (Bytes(22, 38), Bytes(1604, 4126)),
    "tls12": (Bytes(29, 29), Bytes(1565, 4018)),
    "chacha": (Bytes(21, 21), Bytes(1486, 4010)),
    "mutual13": (Bytes(22, 38), Bytes(3575, 5945)),
    "mutual12": (Bytes(29, 29), Bytes(3497, 5802)),
}

_SASL = {
    "PLAIN": Sasl(Bytes(71, 522), 3, 3, Bytes(57, 58), 2, 2),
    "SCRAM": Sasl(Bytes(222, 689), 4, 4, Bytes(207, 224), 3, 3, Bytes(2, 2)),
}

PROFILES = (
    "plaintext", "tls13", "tls12", "mutual-tls", "sasl-plaintext", "sasl-ssl-plain",
    "sasl-ssl-scram", "reauthentication", "mixed",
)  # fmt: skip


def security_of(profile: str, library: Library, chance: random.Random) -> Security:
    """Return what the clients of one process use; `mixed` is either of its two listeners."""
    names: dict[str, tuple[str, str]] = {
        "plaintext": ("", ""),
        "tls13": ("tls13", ""),
        "tls12": (chance.choice(("tls12", "tls12", "chacha")), ""),
        "mutual-tls": (chance.choice(("mutual13", "mutual13", "mutual12")), ""),
        "sasl-plaintext": ("", chance.choice(("PLAIN", "SCRAM"))),
        "sasl-ssl-plain": (chance.choice(("tls13", "tls13", "tls12")), "PLAIN"),
        "sasl-ssl-scram": (chance.choice(("tls13", "tls13", "tls12")), "SCRAM"),
        "reauthentication": (chance.choice(("", "tls13", "tls13")), chance.choice(("PLAIN", "SCRAM"))),
        "mixed": ("tls13", ""),
    }  # fmt: skip
    tls_name, sasl_name = names[profile]
    tls = _JAVA_TLS[tls_name] if tls_name else None
    if tls is not None and library is Library.LIBRDKAFKA:
        cost, full = _OPENSSL[tls_name]
        tls = replace(tls, cost=cost, full=full, resumed=full)
    if tls is not None:
        # A cipher list, a server name, a CA list: the same for all connections of a process.
        more = Bytes(chance.choice((0, 0, 13, 44)), chance.choice((0, 0, 86)))
        tls = replace(tls, full=_sum(tls.full, more), resumed=_sum(tls.resumed, more))
    sasl = _SASL[sasl_name] if sasl_name else None
    if sasl is not None:
        # The user and its password, and the broker's version.
        user = chance.choice((0, 0, -7, 12))
        sasl = replace(
            sasl, first=_sum(sasl.first, Bytes(user, 0)), again=_sum(sasl.again, Bytes(user, 0))
        )
    again = chance.uniform(4.0, 25.0) if profile == "reauthentication" else None
    return Security(tls, sasl, again)


def _sum(one: Bytes, other: Bytes) -> Bytes:
    return Bytes(one.out + other.out, one.incoming + other.incoming)
