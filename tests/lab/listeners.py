"""Listeners of a lab cluster and what a client needs to use each one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.certificates import Certificates

__all__ = ["LISTENERS", "PASSWORD", "USER", "Listener", "Mechanism"]

Mechanism = Literal["PLAIN", "SCRAM-SHA-256"]

USER: Final = "lab"
PASSWORD: Final = "lab-password"
_PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class Listener:
    """One kind of listener; `offset` is its port's distance from the cluster's base port."""

    name: str
    offset: int
    protocol: str
    client_auth: bool = False
    newest_tls: str = ""
    """The highest TLS version that the broker speaks; the JDK's if empty."""
    reauthenticate_ms: int = 0
    """How often clients have to log in again; 0 for never."""

    @property
    def uses_tls(self) -> bool:
        """Whether bytes on it are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL")

    def broker_properties(
        self, certificates: Certificates | None, host: str = ""
    ) -> dict[str, str]:
        """Return the settings of the broker at `host` for this listener, its address aside."""
        properties: dict[str, str] = {}
        if certificates is not None and self.uses_tls:
            properties |= certificates.java_trust() | certificates.java_broker_key(host)
            properties["ssl.client.auth"] = "required" if self.client_auth else "none"
            if self.newest_tls:
                properties["ssl.enabled.protocols"] = self.newest_tls
        if self.uses_sasl:
            properties["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256"
            properties["plain.sasl.jaas.config"] = (
                f'{_PLAIN_LOGIN} required user_{USER}="{PASSWORD}";'
            )
            properties["scram-sha-256.sasl.jaas.config"] = f"{_SCRAM_LOGIN} required;"
            if self.reauthenticate_ms:
                for mechanism in ("plain", "scram-sha-256"):
                    key = f"{mechanism}.connections.max.reauth.ms"
                    properties[key] = str(self.reauthenticate_ms)
        prefix = f"listener.name.{self.name.lower()}."
        return {prefix + key: value for key, value in properties.items()}

    def java_properties(
        self, certificates: Certificates | None, mechanism: Mechanism
    ) -> dict[str, str]:
        """Return what a Java client needs beside the address."""
        properties = {"security.protocol": self.protocol}
        if certificates is not None and self.uses_tls:
            properties |= certificates.java_trust()
            # A name would have to resolve; the certificate names the addresses anyway.
            properties["ssl.endpoint.identification.algorithm"] = ""
            if self.client_auth:
                properties |= certificates.java_client_key()
        if self.uses_sasl:
            login = _PLAIN_LOGIN if mechanism == "PLAIN" else _SCRAM_LOGIN
            properties["sasl.mechanism"] = mechanism
            properties["sasl.jaas.config"] = (
                f'{login} required username="{USER}" password="{PASSWORD}";'
            )
        return properties

    def librdkafka_properties(
        self, certificates: Certificates | None, mechanism: Mechanism
    ) -> dict[str, str]:
        """Return what a librdkafka client needs beside the address."""
        properties = {"security.protocol": self.protocol.lower()}
        if certificates is not None and self.uses_tls:
            properties |= certificates.pem_trust()
            properties["ssl.endpoint.identification.algorithm"] = "none"
            if self.client_auth:
                properties |= certificates.pem_client_key()
        if self.uses_sasl:
            properties |= {
                "sasl.mechanisms": mechanism,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
        return properties


LISTENERS: Final[Mapping[str, Listener]] = {
    listener.name: listener
    for listener in (
        Listener("PLAINTEXT", 2, "PLAINTEXT"),
        Listener("SSL", 3, "SSL"),
        Listener("SSL_AUTH", 4, "SSL", client_auth=True),
        Listener("SASL_PLAINTEXT", 5, "SASL_PLAINTEXT"),
        Listener("SASL_SSL", 6, "SASL_SSL"),
        Listener("SSL_12", 7, "SSL", newest_tls="TLSv1.2"),
        Listener("SASL_REAUTH", 8, "SASL_PLAINTEXT", reauthenticate_ms=4000),
        Listener("SASL_SSL_REAUTH", 9, "SASL_SSL", reauthenticate_ms=4000),
    )
}
